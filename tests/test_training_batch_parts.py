"""Tests the parts of a replica's share, and the seeds of their dropout."""

import numpy as np
import pytest
import tensorflow as tf

from training import batch_parts

PARTS = batch_parts.Parts(2, seed=7)
STEP = tf.constant(5, tf.int64)


@pytest.mark.parametrize(
  "replica, index, salt", [(0, 1, 1), (3, 0, 6), (3, 1, 7)]
)
def test_a_part_and_its_seed(replica, index, salt):
  """The seed is a function of the run's seed, the step, replica and part."""
  batch = {"x": tf.range(4), "y": tf.reshape(tf.range(12), [4, 3])}
  part, seed = PARTS.part(batch, index, STEP, replica)
  rows = slice(2 * index, 2 * index + 2)
  for name, values in part.items():
    np.testing.assert_array_equal(values, batch[name][rows])
  expected = tf.random.experimental.stateless_fold_in(
    tf.constant([7, 5], tf.int64), salt
  )
  np.testing.assert_array_equal(seed, expected)


def test_outputs_of_parts_are_joined_in_order():
  seeds = []

  def function(part, seed):
    seeds.append(seed)
    return tf.cast(part, tf.float32)[:, tf.newaxis] + tf.zeros([1, 3])

  outputs = PARTS.outputs(function, tf.range(6), STEP, 0)
  assert outputs.numpy().tolist() == [[float(n)] * 3 for n in range(6)]
  assert len(seeds) == 2
  assert not np.array_equal(*seeds)
