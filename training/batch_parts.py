"""Splits a replica's share of a batch into parts, for gradient accumulation.

B is the number of examples in a replica's share.
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Parts:
  """Splits a share into `count` equal parts; `seed` is the run's seed."""

  count: int
  seed: int

  def part(self, batch, index, step: tf.Tensor, replica_id) -> tuple:
    """Returns (part `index` of a replica's share, its dropout_seed).

    `batch` holds tensors [B, ...] in any structure; the seed is int32 [2].
    """
    # Dropout is a function of (seed, step, salt): it differs between parts,
    # replicas and steps, but a restart does not change it.
    seed = tf.stack([tf.cast(self.seed, tf.int64), step])
    salt = replica_id * self.count + index
    return (
      tf.nest.map_structure(lambda tensor: self._split(tensor)[index], batch),
      tf.random.experimental.stateless_fold_in(seed, salt),
    )

  def outputs(
    self, function: Callable, batch, step: tf.Tensor, replica_id
  ) -> tf.Tensor:
    """Joins function(part, dropout_seed) of all parts, float32 [B, ...]."""
    outputs = tf.map_fn(
      lambda index: function(*self.part(batch, index, step, replica_id)),
      tf.range(self.count),
      fn_output_signature=tf.float32,
      # The parts exist to save memory, so only one is computed at a time.
      parallel_iterations=1,
    )
    return tf.reshape(outputs, [-1, *outputs.shape[2:]])

  def _split(self, tensor) -> tf.Tensor:
    """Reshapes [B, ...] to [parts, B / parts, ...]."""
    shape = tf.shape(tensor)
    return tf.reshape(tensor, tf.concat([[self.count, -1], shape[1:]], 0))
