"""SpanBERT's span boundary objective against NumPy, and as it is trained."""

import math

import numpy as np
import pytest
import tensorflow as tf

import tiny_model
from pretraining import span_boundary
from pretraining.model import PretrainingModel, objective, result_names

ROWS, LENGTH, PREDICTIONS = 2, 12, 7
CONFIG = tiny_model.tiny(hidden_act="gelu_erf")
# Two spans, one right after [CLS]; three masked tokens that are one span.
POSITIONS = [[1, 2, 5, 6, 7, 9, 0], [3, 4, 5, 0, 0, 0, 0]]
COUNTS = [6, 3]
# (row, left, right, place) of each masked token, by hand.
SPANS = [
  (0, 0, 3, 0), (0, 0, 3, 1), (0, 4, 8, 0), (0, 4, 8, 1), (0, 4, 8, 2),
  (0, 8, 10, 0), (1, 2, 6, 0), (1, 2, 6, 1), (1, 2, 6, 2),
]


def batch():
  weights = np.arange(PREDICTIONS) < np.array(COUNTS)[:, None]
  data = tiny_model.pretraining_batch(POSITIONS, weights, ROWS, LENGTH)
  return {**data, "input_mask": tf.ones_like(data["input_mask"])}


def make_model():
  model = PretrainingModel(
    CONFIG, seed=1, with_next_sentence=False, with_span_boundary=True
  )
  # Biases and layer norms that are not 0 and 1, so that each one counts.
  rng = np.random.RandomState(2)
  for variable in model.span_boundary.variables:
    variable.assign_add(rng.normal(0, 0.3, variable.shape).astype(np.float32))
  return model


def test_spans_are_runs_of_masked_positions():
  spans = span_boundary.find_spans(batch())
  found = [
    (row, *(int(part[row, number]) for part in spans))
    for row, count in enumerate(COUNTS)
    for number in range(count)
  ]
  assert found == SPANS
  # What has no weight points into the sequence.
  assert all((part.numpy() >= 0).all() for part in spans)
  assert (spans.right.numpy() < LENGTH).all()


def numpy_loss(states, values, table, labels):
  """The mean loss of the head, token by token.

  Args:
    states: [B, T, H].
    values: dict from names below cls/span_boundary/ to arrays.
    table: [V, H].
    labels: int [number of SPANS].
  """

  def normalized_gelu(x, layer):
    x = x @ values[f"{layer}/dense/kernel"] + values[f"{layer}/dense/bias"]
    x = x * (1 + np.vectorize(math.erf)(x / np.sqrt(2))) / 2
    x = (x - x.mean()) / np.sqrt(x.var() + 1e-12)
    return x * values[f"{layer}/LayerNorm/gamma"] + (
      values[f"{layer}/LayerNorm/beta"]
    )

  losses = []
  for (row, left, right, place), label in zip(SPANS, labels):
    x = np.concatenate([
      states[row, left], states[row, right],
      values["position_embeddings"][place],
    ])
    x = normalized_gelu(normalized_gelu(x, "layer_0"), "layer_1")
    logits = table @ x + values["output_bias"]
    losses.append(np.log(np.exp(logits).sum()) - logits[label])
  return np.mean(losses)


def test_the_loss_equals_numpys():
  model, data = make_model(), batch()
  states = model.bert.encode(data).sequence_output.numpy().astype(np.float64)
  values = {
    variable.name.removeprefix("cls/span_boundary/").removesuffix(":0"):
      variable.numpy().astype(np.float64)
    for variable in model.span_boundary.variables
  }
  assert {name: value.shape for name, value in values.items()} == {
    "position_embeddings": (20, 200),
    "layer_0/dense/kernel": (2 * 16 + 200, 16),
    "layer_1/dense/kernel": (16, 16),
    **{
      f"layer_{number}/{name}": (16,)
      for number in (0, 1)
      for name in ("dense/bias", "LayerNorm/beta", "LayerNorm/gamma")
    },
    "output_bias": (30,),
  }
  labels = [
    data["masked_lm_ids"].numpy()[row, number]
    for row, count in enumerate(COUNTS)
    for number in range(count)
  ]
  table = model.bert.word_embeddings.numpy().astype(np.float64)
  expected = numpy_loss(states, values, table, labels)
  goal = objective(model)
  sums, metrics = goal.sums(data, None)
  weights = goal.weights(data)
  assert sums.keys() == weights.keys() == {"masked_lm", "span_boundary"}
  assert weights["span_boundary"].numpy() == pytest.approx(len(SPANS), 1e-4)
  loss = sums["span_boundary"] / weights["span_boundary"]
  assert loss.numpy() == pytest.approx(expected, rel=1e-5)
  assert {"loss", *metrics} == set(result_names(model))


def test_all_its_variables_and_the_table_have_a_gradient():
  model, data = make_model(), batch()
  watched = [*model.span_boundary.variables, model.bert.word_embeddings]
  with tf.GradientTape() as tape:
    sums, _ = objective(model).sums(data, None)
  gradients = tape.gradient(sums["span_boundary"], watched)
  for variable, gradient in zip(watched, gradients):
    largest = np.abs(tf.convert_to_tensor(gradient)).max()
    assert largest > 0, variable.name


def test_the_masked_lm_loss_is_that_of_a_model_without_the_head():
  model, data = make_model(), batch()
  plain = PretrainingModel(CONFIG, seed=1, with_next_sentence=False)
  ours, theirs = (
    objective(each).sums(data, None)[0]["masked_lm"].numpy()
    for each in (model, plain)
  )
  assert ours == pytest.approx(theirs, rel=1e-6)


def test_what_follows_the_twentieth_token_of_a_span_has_no_label():
  positions = tf.range(3, 28)[tf.newaxis]
  weights = span_boundary.label_weights({
    "masked_lm_positions": positions,
    "masked_lm_weights": tf.ones_like(positions, tf.float32),
  })
  assert weights.numpy().tolist() == [[1.0] * 20 + [0.0] * 5]
