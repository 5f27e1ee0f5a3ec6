"""Cuts a replica's share of a batch into parts, computed one after another.

Letters: B examples of a replica's share.
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Parts:
  """How a share is cut: into `count` equal parts, with dropout by `seed`."""

  count: int
  seed: int

  def part(self, batch, index, step: tf.Tensor, replica_id) -> tuple:
    """Returns part `index`, from 0, of a replica's share; and a dropout_seed.

    The share is tensors [B, ...] in any structure; the seed is int32 [2].
    """
    # Dropout differs between parts, replicas and steps, and is the same after a
    # restart: it is a function of (seed, step, salt).
    seed = tf.stack([tf.cast(self.seed, tf.int64), step])
    salt = replica_id * self.count + index
    return (
      tf.nest.map_structure(lambda values: self._cut(values)[index], batch),
      tf.random.experimental.stateless_fold_in(seed, salt),
    )

  def outputs(
    self, function: Callable, batch, step: tf.Tensor, replica_id
  ) -> tf.Tensor:
    """Returns function(part, dropout_seed) of all parts, float32 [B, ...]."""
    rows = tf.map_fn(
      lambda index: function(*self.part(batch, index, step, replica_id)),
      tf.range(self.count),
      fn_output_signature=tf.float32,
      # The parts exist to save memory, so only one is computed at a time.
      parallel_iterations=1,
    )
    return tf.reshape(rows, [-1, *rows.shape[2:]])

  def _cut(self, values):
    """Returns values [B, ...] as [parts, B / parts, ...]."""
    shape = tf.shape(values)
    return tf.reshape(values, tf.concat([[self.count, -1], shape[1:]], 0))
