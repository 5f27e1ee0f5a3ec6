"""Tests the BiLSTM on features of BERT."""

import numpy as np
import pytest
import tensorflow as tf

import modeling
import tiny_model
from common import errors
from tagging import bilstm
from tiny_model import assert_close
from variants import recurrence

CONFIG = tiny_model.tiny(num_hidden_layers=5)
RNG = np.random.RandomState(0)
# The embeddings and five layers, [B, T, H] = [2, 4, 16] each.
EMBEDDINGS, *LAYERS = RNG.randn(6, 2, 4, 16).astype(np.float32)
OUTPUT = modeling.BertOutput(
  embedding_output=tf.constant(EMBEDDINGS),
  all_encoder_layers=tuple(tf.constant(layer) for layer in LAYERS),
  sequence_output=tf.constant(LAYERS[-1]),
  pooled_output=None,
  attention_probs=None,
)
EXPECTED = {
  "embeddings": EMBEDDINGS,
  "second_to_last": LAYERS[-2],
  "last": LAYERS[-1],
  # Before training, all layers have equal weights.
  "weighted_sum_last_four": np.mean(LAYERS[-4:], axis=0),
  "concat_last_four": np.concatenate(LAYERS[-4:], axis=-1),
  "weighted_sum_all": np.mean(LAYERS, axis=0),
}


def tagger(features="last", **options):
  return bilstm.FeatureTagger(CONFIG, 3, features=features, size=5, **options)


@pytest.mark.parametrize("features", bilstm.FEATURES)
def test_features(features):
  assert_close(tagger(features).features(OUTPUT), EXPECTED[features], 1e-6)


@pytest.mark.parametrize("features", bilstm.FEATURES)
def test_every_variable_has_a_gradient(features):
  model = tagger(features)
  with tf.GradientTape() as tape:
    logits = model(OUTPUT, tf.ones([2, 4], tf.int32), dropout_seed=[1, 2])
    loss = tf.reduce_sum(tf.square(logits))
  assert logits.shape == (2, 4, 3)
  gradients = tape.gradient(loss, model.variables)
  for variable, gradient in zip(model.variables, gradients):
    assert np.abs(gradient).max() > 0, variable.name


@pytest.mark.parametrize(
  "features, needed", list(zip(bilstm.FEATURES, (0, 2, 1, 4, 4, 1)))
)
def test_a_model_needs_the_layers_that_features_use(features, needed):
  bilstm.check_features(features, needed)
  if needed:
    with pytest.raises(errors.InputError, match=f"needs {needed} layers"):
      bilstm.check_features(features, needed - 1)


def test_weighted_sum_follows_its_weights():
  model = tagger("weighted_sum_last_four")
  (mix,) = [v for v in model.variables if "layer_mix" in v.name]
  mix.assign([0, 0, 0, 50.0])
  assert_close(model.features(OUTPUT), LAYERS[-1], 1e-6)


def test_names_and_initial_weights_are_a_function_of_the_seed():
  first, same, other = tagger(), tagger(), tagger(seed=1)
  assert sorted(v.name for v in first.variables) == [
    "output_bias:0",
    "output_weights:0",
    *(
      f"tagging/bilstm_{number}/{name}:0"
      for number in (0, 1)
      for name in ("bias", "kernel", "recurrent_kernel")
    ),
  ]
  by_name = [
    {v.name: v.numpy() for v in m.variables} for m in (first, same, other)
  ]
  for name, value in by_name[0].items():
    np.testing.assert_array_equal(value, by_name[1][name])
    if "bias" not in name:
      assert not np.array_equal(value, by_name[2][name])


def sigmoid(x):
  return 1 / (1 + np.exp(-x))


def lstm(x, kernel, recurrent_kernel, bias):
  size = len(recurrent_kernel)
  hidden, cell, outputs = np.zeros(size), np.zeros(size), []
  for row in x:
    gates = row @ kernel + hidden @ recurrent_kernel + bias
    i, j, f, o = np.split(gates, 4)
    cell = sigmoid(f + 1) * cell + sigmoid(i) * np.tanh(j)
    hidden = sigmoid(o) * np.tanh(cell)
    outputs.append(hidden)
  return np.array(outputs)


def test_bilstm_equals_its_formula_and_ignores_padding():
  x = RNG.randn(2, 4, 3).astype(np.float32)
  weights = [
    RNG.randn(*shape).astype(np.float32)
    for shape in ([2, 3, 20], [2, 5, 20], [2, 20])
  ]
  lengths = [4, 2]
  outputs = recurrence.bilstm(x, lengths, *weights).numpy()
  for row, length in enumerate(lengths):
    sequence = x[row, :length]
    forward = lstm(sequence, *(w[0] for w in weights))
    backward = lstm(sequence[::-1], *(w[1] for w in weights))[::-1]
    expected = np.concatenate([forward, backward], axis=1)
    assert_close(outputs[row, :length], expected, 1e-5)
