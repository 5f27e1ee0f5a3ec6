"""The one MirroredStrategy of the suite, over the two logical CPU devices."""

import functools

import tensorflow as tf


@functools.cache
def strategy():
  """Returns the strategy.

  Each new MirroredStrategy numbers its collective operations from the start,
  and TensorFlow remembers a tensor shape for each number for the whole process.
  So a second strategy would fail with "Shape mismatch in the collective".
  """
  return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def halves(batch):
  """Splits a batch, tensors in any structure, between the two replicas."""

  def half(context):
    is_second = context.replica_id_in_sync_group
    return tf.nest.map_structure(
      lambda rows: (
        rows[len(rows) // 2 :] if is_second else rows[: len(rows) // 2]
      ),
      batch,
    )

  return strategy().experimental_distribute_values_from_function(half)
