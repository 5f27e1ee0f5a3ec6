"""The one MirroredStrategy of the suite, over the two logical CPU devices."""

import tensorflow as tf

from training import distribution


def strategy():
  """Returns the strategy that a run over two devices has, too.

  A second strategy in one process would fail with "Shape mismatch in the
  collective" (see `distribution`).
  """
  return distribution.make_strategy("mirrored")


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
