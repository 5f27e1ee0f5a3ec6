"""Tests the vectors of texts: batches, order and cosines."""

import numpy as np
import pytest
import tensorflow as tf

import two_replicas
from common import run_settings
from features import text_batches, text_vectors, vector_search


@pytest.mark.parametrize("is_static", [False, True])
@pytest.mark.parametrize("replicas", [1, 2])
def test_short_texts_share_larger_batches(is_static, replicas):
  def compute(input_ids, input_mask, segment_ids):
    """Returns each text's first id and the size of its batch."""
    del input_mask, segment_ids
    rows, length = tf.unstack(tf.shape(input_ids))
    size = tf.fill([rows, 2], rows * replicas) * [[1, 0]] + [[0, length]]
    return tf.concat([input_ids[:, :1], size], axis=1)

  strategy = tf.distribute.get_strategy()
  if replicas == 2:
    strategy = two_replicas.strategy()
  computer = text_vectors.VectorComputer(
    compute,
    strategy,
    run_settings.Settings(
      dict(
        batch_size=2,
        max_seq_length=32,
        similarity=False,
        jit_compile=str(is_static).lower(),
      )
    ),
  )
  # Text i repeats the id i. Two of the texts are long.
  lengths = [3, 32, 4, 4, 30, 2, 3, 1]
  examples = [
    text_batches.Example(i, [i] * length, [0] * length)
    for i, length in enumerate(lengths)
  ]
  ((order, values),) = [zip(*block) for block in computer.compute_all(examples)]
  assert list(order) == examples
  # Lengths are rounded up to multiples of 8, so 8 short texts have 64 tokens.
  sizes = [(2, 32) if is_static or n > 4 else (6, 4) for n in lengths]
  assert [tuple(row) for row in values] == [
    (i, *size) for i, size in enumerate(sizes)
  ]


def test_cosines():
  a = [[1, 0], [1, 1], [1, 2], [0, 0]]
  b = [[0, 3], [2, 2], [-2, -4], [1, 1]]
  values = vector_search.cosines(a, b)
  np.testing.assert_allclose(values, [0, 1, -1, 0], atol=1e-12)
