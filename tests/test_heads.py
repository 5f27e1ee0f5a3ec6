"""Tests the heads: initial weights, dropout and pooling."""

import re

import numpy as np
import pytest
import tensorflow as tf

import heads
import modeling
from checkpoints import sentence_pooling
from common import errors, flag_values, run_settings
from tiny_model import tiny


def test_initial_weights_are_a_truncated_normal():
  head = heads.ClassificationHead(tiny(hidden_size=2000), 10)
  weights, bias = head.variables
  # As in the original: truncated at two sigma, 0.02 becomes a std of 0.0176.
  assert weights.numpy().std() == pytest.approx(0.01759, rel=0.02)
  assert not bias.numpy().any()


@pytest.mark.parametrize(
  "make",
  [
    heads.NextSentenceHead,
    heads.SpanHead,
    lambda config, **seed: heads.ClassificationHead(config, 2, **seed),
    lambda config, **seed: heads.TokenClassificationHead(config, 2, **seed),
    lambda config, **seed: modeling.BertModel(config, **seed),
  ],
)
def test_the_default_seed_stays_the_same(make):
  """A run without --seed must start from the same weights in each version."""
  default, explicit, other = (
    make(tiny(), **seed).variables[0].numpy()
    for seed in ({}, {"seed": 12345}, {"seed": 12346})
  )
  np.testing.assert_array_equal(default, explicit)
  assert not np.array_equal(default, other)


@pytest.mark.parametrize(
  "make", [heads.ClassificationHead, heads.TokenClassificationHead]
)
def test_dropout_does_not_depend_on_the_encoder_s_probabilities(make):
  head = make(
    tiny(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), 2
  )
  ones = tf.ones([50, 16])
  dropped = head(ones, True, dropout_seed=[1, 2])
  assert np.abs(dropped - head(ones)).max() > 1e-3
  # A tenth of the units is dropped, and the rest are scaled up.
  head.variables[0].assign(np.eye(2, 16))
  logits = head(tf.ones([5000, 16]), True, dropout_seed=[1, 2]).numpy()
  np.testing.assert_allclose(np.unique(logits), [0, 1 / 0.9], rtol=1e-6)
  assert np.mean(logits == 0) == pytest.approx(0.1, abs=0.015)
  dropped = head(ones, True, dropout_seed=[1, 2])
  np.testing.assert_array_equal(dropped, head(ones, True, dropout_seed=[1, 2]))


# Five layers of two sequences. The first sequence has two tokens and a pad.
LAYERS = np.random.RandomState(0).randn(5, 2, 3, 4).astype(np.float32)

MASK = np.array([[1, 1, 0], [1, 1, 1]])

OUTPUT = modeling.BertOutput(
  embedding_output=None,
  all_encoder_layers=tuple(tf.constant(layer) for layer in LAYERS),
  sequence_output=tf.constant(LAYERS[-1]),
  pooled_output=tf.constant([[1.0], [2.0]]),
  attention_probs=None,
)


def means(layer):
  return [layer[0, :2].mean(0), layer[1].mean(0)]


def largest(layer):
  return [layer[0, :2].max(0), layer[1].max(0)]


EXPECTED = {
  "cls": LAYERS[-1][:, 0],
  "mean": means(LAYERS[-1]),
  "max": largest(LAYERS[-1]),
  "pooled": [[1.0], [2.0]],
  "last_four_concat": np.concatenate(
    [means(LAYERS[layer]) for layer in (4, 3, 2, 1)], axis=1
  ),
}


def make_pooling(mode, layers=("-1",), normalize=False):
  return sentence_pooling.Pooling.of(
    run_settings.Settings(
      {"pooling": mode, "pooling_layer": layers, "normalize": normalize}
    ),
    depth=5,
  )


def check(pooling, expected):
  vectors = heads.pool(OUTPUT, MASK, pooling)
  assert vectors.dtype == tf.float32
  np.testing.assert_allclose(vectors, expected, rtol=1e-6, atol=1e-6)
  assert pooling.mode == "pooled" or pooling.width(4) == vectors.shape[1]


@pytest.mark.parametrize("mode", flag_values.SENTENCE_POOLINGS)
def test_pooling(mode):
  check(make_pooling(mode), EXPECTED[mode])


@pytest.mark.parametrize(
  "layers, expected",
  [
    (["-2"], largest(LAYERS[3])),
    (0, largest(LAYERS[0])),
    ([-1, 0], np.concatenate([largest(LAYERS[4]), largest(LAYERS[0])], 1)),
    (["-1+ -2+0"], largest(LAYERS[4] + LAYERS[3] + LAYERS[0])),
    (
      ["-1+1", "2"],
      np.concatenate([largest(LAYERS[4] + LAYERS[1]), largest(LAYERS[2])], 1),
    ),
  ],
)
def test_pooled_layers(layers, expected):
  check(make_pooling("max", layers), expected)


def test_vectors_of_length_1():
  vectors = np.array(means(LAYERS[3]))
  lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
  check(make_pooling("mean", -2, normalize=True), vectors / lengths)


@pytest.mark.parametrize(
  "layers, quoted",
  [
    (["5"], "5: '5'"),
    (["-1+-6"], "-1+-6: '-6'"),
    (["0", "a"], "0,a: 'a'"),
    ([], ": ''"),
    (["1+"], "1+: ''"),
  ],
)
def test_an_unknown_layer_is_refused(layers, quoted):
  expected = (
    f"--pooling_layer={quoted} is not a layer of this model, which has 5"
  )
  with pytest.raises(errors.InputError, match=re.escape(expected)):
    make_pooling("mean", layers)


def test_a_row_of_padding_gives_zeros():
  vectors = heads.pool(OUTPUT, np.zeros([2, 3], np.int32), make_pooling("mean"))
  np.testing.assert_array_equal(vectors, np.zeros([2, 4]))
