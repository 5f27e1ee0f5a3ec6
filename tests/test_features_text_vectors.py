"""Vectors of texts: batches, the order of the values, pooling, cosines."""

import re

import numpy as np
import pytest
import tensorflow as tf

import heads
import modeling
import two_replicas
from checkpoints import sentence_pooling
from common import choices, errors, run_settings
from features import text_batches, text_vectors


@pytest.mark.parametrize("is_static", [False, True])
@pytest.mark.parametrize("replicas", [1, 2])
def test_short_texts_share_larger_batches(is_static, replicas):
  def compute(input_ids, input_mask, segment_ids):
    """Each text's first id, and the size of the batch that it was in."""
    del input_mask, segment_ids
    rows, length = tf.unstack(tf.shape(input_ids))
    size = tf.fill([rows, 2], rows * replicas) * [[1, 0]] + [[0, length]]
    return tf.concat([input_ids[:, :1], size], axis=1)

  strategy = tf.distribute.get_strategy()
  if replicas == 2:
    strategy = two_replicas.strategy()
  computer = text_vectors.VectorComputer(
    compute, strategy, run_settings.Settings(dict(
      batch_size=2, max_seq_length=32, similarity=False,
      jit_compile=str(is_static).lower(),
    ))
  )
  # Text i is i, i, ...: two long ones among short ones.
  lengths = [3, 32, 4, 4, 30, 2, 3, 1]
  examples = [
    text_batches.Example(i, [i] * length, [0] * length)
    for i, length in enumerate(lengths)
  ]
  ((found, values),) = [zip(*block) for block in computer.compute_all(examples)]
  assert list(found) == examples
  # Of 4 tokens, which count as 8, eight fit into 2 * 32: here are six.
  sizes = [(2, 32) if is_static or n > 4 else (6, 4) for n in lengths]
  assert [tuple(row) for row in values] == [
    (i, *size) for i, size in enumerate(sizes)
  ]


# Five layers of two sequences of three tokens, the first of which has two.
LAYERS = np.random.RandomState(0).randn(5, 2, 3, 4).astype(np.float32)
MASK = np.array([[1, 1, 0], [1, 1, 1]])
OUTPUT = modeling.BertOutput(
  embedding_output=None,
  all_encoder_layers=tuple(tf.constant(layer) for layer in LAYERS),
  sequence_output=tf.constant(LAYERS[-1]),
  pooled_output=tf.constant([[1.0], [2.0]]), attention_probs=None,
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


def pooling(kind, layers=("-1",), normalize=False):
  return sentence_pooling.Pooling.of(run_settings.Settings({
    "pooling": kind, "pooling_layer": layers, "normalize": normalize
  }), depth=5)


def check(made, expected):
  found = heads.pool(OUTPUT, MASK, made)
  assert found.dtype == tf.float32
  np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
  assert made.mode == "pooled" or made.width(4) == found.shape[1]


@pytest.mark.parametrize("kind", choices.SENTENCE_POOLINGS)
def test_pooling(kind):
  check(pooling(kind), EXPECTED[kind])


@pytest.mark.parametrize("layers, expected", [
  (["-2"], largest(LAYERS[3])), (0, largest(LAYERS[0])),
  ([-1, 0], np.concatenate([largest(LAYERS[4]), largest(LAYERS[0])], 1)),
  (["-1+ -2+0"], largest(LAYERS[4] + LAYERS[3] + LAYERS[0])),
  (["-1+1", "2"],
   np.concatenate([largest(LAYERS[4] + LAYERS[1]), largest(LAYERS[2])], 1)),
])
def test_pooled_layers(layers, expected):
  check(pooling("max", layers), expected)


def test_vectors_of_length_1():
  vectors = np.array(means(LAYERS[3]))
  lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
  check(pooling("mean", -2, normalize=True), vectors / lengths)


@pytest.mark.parametrize("layers, named", [
  (["5"], "5: '5'"), (["-1+-6"], "-1+-6: '-6'"), (["0", "a"], "0,a: 'a'"),
  ([], ": ''"), (["1+"], "1+: ''"),
])
def test_a_layer_that_is_none(layers, named):
  expected = f"--pooling_layer={named} is no layer of this model, which has 5"
  with pytest.raises(errors.InputError, match=re.escape(expected)):
    pooling("mean", layers)


def test_a_row_of_padding_is_no_nan():
  found = heads.pool(OUTPUT, np.zeros([2, 3], np.int32), pooling("mean"))
  np.testing.assert_array_equal(found, np.zeros([2, 4]))


def test_cosines():
  a = [[1, 0], [1, 1], [1, 2], [0, 0]]
  b = [[0, 3], [2, 2], [-2, -4], [1, 1]]
  found = text_vectors.cosines(a, b)
  np.testing.assert_allclose(found, [0, 1, -1, 0], atol=1e-12)
