"""Batches of extract_features.py: their sizes, and the order of the values."""

import pytest
import tensorflow as tf

import two_replicas
from common import errors
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
    compute, strategy, batch_size=2, max_length=32, is_static=is_static,
    jit=False,
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


@pytest.mark.parametrize("texts", [[], [""], ["-3"], ["1", "x"]])
def test_layers_that_are_none_are_refused(texts):
  with pytest.raises(errors.InputError, match="is no layer of this model"):
    text_vectors.layer_indexes(texts, 2)
