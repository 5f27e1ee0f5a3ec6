"""Tests of vectors for whole texts."""

import numpy as np
import pytest
import tensorflow as tf

import modeling
from features import sentence_vectors

# Five layers of two sequences of three tokens, the first of which has two.
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


EXPECTED = {
  "cls": LAYERS[-1][:, 0],
  "mean": means(LAYERS[-1]),
  "max": [LAYERS[-1][0, :2].max(0), LAYERS[-1][1].max(0)],
  "pooled": [[1.0], [2.0]],
  "last_four_concat": np.concatenate(
    [means(LAYERS[layer]) for layer in (4, 3, 2, 1)], axis=1
  ),
}


def test_every_pooling_is_tested():
  assert set(EXPECTED) == set(sentence_vectors.POOLINGS)


@pytest.mark.parametrize("kind", sentence_vectors.POOLINGS)
def test_pooling(kind):
  found = sentence_vectors.pool(kind, OUTPUT, MASK)
  assert found.dtype == tf.float32
  np.testing.assert_allclose(found, EXPECTED[kind], rtol=1e-6, atol=1e-7)


def test_a_row_of_padding_is_no_nan():
  found = sentence_vectors.pool("mean", OUTPUT, np.zeros([2, 3], np.int32))
  np.testing.assert_array_equal(found, np.zeros([2, 4]))


def test_cosines():
  a = [[1, 0], [1, 1], [1, 2], [0, 0]]
  b = [[0, 3], [2, 2], [-2, -4], [1, 1]]
  found = sentence_vectors.cosines(a, b)
  np.testing.assert_allclose(found, [0, 1, -1, 0], atol=1e-12)
