"""Tests the loss of SQuAD training, especially the effect of padding."""

import numpy as np
import pytest
import tensorflow as tf

import tiny_model
from squad import model as squad_model


def batch_of(lengths, width, positions):
  ids = np.zeros((len(lengths), width), np.int32)
  for row, length in zip(ids, lengths):
    row[:length] = np.arange(1, length + 1)
  starts = np.array(positions, np.int32)
  return {
    "input_ids": tf.constant(ids),
    "input_mask": tf.constant((ids > 0).astype(np.int32)),
    "segment_ids": tf.zeros_like(ids),
    "start_positions": tf.constant(starts),
    "end_positions": tf.constant(starts + 1),
  }


def rows(batch, part, width):
  return {
    name: value[part, :width] if len(value.shape) == 2 else value[part]
    for name, value in batch.items()
  }


@pytest.fixture(scope="module")
def model():
  """A model of two layers whose logits differ between positions."""
  config = tiny_model.tiny(
    max_position_embeddings=32,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
  )
  model = squad_model.SpanModel(config, seed=3)
  for variable in model.head.variables:
    variable.assign(tf.random.stateless_normal(variable.shape, [1, 2]))
  return model


def loss_and_gradients(model, *batches, **options):
  objective = squad_model.objective(model, **options)
  weight = sum(objective.denominators(batch)["span"] for batch in batches)
  variables = model.trained_variables()
  with tf.GradientTape() as tape:
    loss = sum(objective.sums(b, None)[0]["span"] for b in batches) / weight
  gradients = tape.gradient(loss, variables)
  return [loss, *map(tf.convert_to_tensor, gradients)]


def assert_equal(arrays, expected_arrays):
  for array, expected in zip(arrays, expected_arrays, strict=True):
    np.testing.assert_allclose(array, expected, rtol=0, atol=2e-6)


def test_the_loss_does_not_depend_on_how_a_batch_is_cut(model):
  batch = batch_of([5, 3, 9, 7], 24, [1, 0, 7, 4])
  whole = loss_and_gradients(model, batch)
  assert_equal(loss_and_gradients(model, rows(batch, slice(4), 9)), whole)
  shares = rows(batch, slice(0, 2), 5), rows(batch, slice(2, 4), 16)
  assert_equal(loss_and_gradients(model, *shares), whole)


def test_padding_that_is_not_masked_competes_as_in_the_original(model):
  batch = batch_of([5, 3], 24, [1, 0])
  expected = 0.0
  for logits, offset in zip(model(batch), (0, 1)):
    exponentials = np.exp(logits.numpy().astype(np.float64))
    shares = exponentials / exponentials.sum(axis=1, keepdims=True)
    positions = [1 + offset, 0 + offset]
    expected -= np.log(shares[[0, 1], positions]).mean() / 2
  loss, *_ = loss_and_gradients(model, batch, mask_padding=False)
  assert float(loss) == pytest.approx(expected, abs=1e-6)
  masked, *_ = loss_and_gradients(model, batch)
  assert float(masked) < expected - 0.1


def test_accuracy_ignores_padding():
  def padding_first(batch, dropout_seed):
    del dropout_seed
    logits = tf.cast(batch["input_ids"], tf.float32)
    return (tf.where(batch["input_mask"] > 0, logits, 99.0),) * 2

  batch = batch_of([5, 3], 8, [4, 1])
  _, metrics = squad_model.objective(padding_first).sums(batch, None)
  values = {name: float(a / b) for name, (a, b) in metrics.items()}
  assert values == {
    "start_accuracy": 0.5,
    "end_accuracy": 0.5,
    "tokens_per_example": 4.0,
    "fill_rate": 0.5,
  }
