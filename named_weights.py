"""Variables that are created from a table of names and shapes."""

import contextlib
import contextvars
import re
import zlib
from collections.abc import Callable, Iterator, Mapping

import tensorflow as tf


def name_number(name: str) -> int:
  """Hashes a name to a number in [0, 2^31)."""
  # Python's hash() of a name differs from run to run.
  return zlib.crc32(name.encode()) & 0x7FFFFFFF


def variable_name(variable: tf.Variable) -> str:
  """Returns a variable's name in checkpoints, equal for all replicas."""
  # Under MirroredStrategy the copies are bert/x:0, bert/x/replica_1:0, ...
  return re.sub(r"(/replica_\d+)?(:\d+)?$", "", variable.name)


class Weights(tf.Module):
  """A module whose variables are created from a table of names and shapes."""

  def __init__(
    self,
    shapes: dict[str, tuple],
    *,
    stddev: float,
    seed: int,
    storage_dtype=tf.float32,
  ):
    super().__init__()
    self._names = tuple(shapes)
    self._weights = tuple(
      _make_variable(name, shape, stddev, seed, storage_dtype)
      for name, shape in shapes.items()
    )

  def replace_weights(self, make: Callable) -> None:
    """Replaces each variable with make(variable), one at a time."""
    self._weights = tuple(map(make, self._weights))

  def weights_below(self, prefix: str) -> dict:
    """Returns {rest of the name: variable} for names with this prefix."""
    return {
      name.removeprefix(prefix): weight
      for name, weight in zip(self._names, self._weights)
      if name.startswith(prefix)
    }

  def summary(self) -> None:
    """Prints each variable's name, shape and parameter count, and the total."""
    rows = [
      (variable_name(weight), tuple(weight.shape), weight.shape.num_elements())
      for weight in self.variables
    ]
    width = max(len(name) for name, *_ in rows)
    for name, shape, count in rows:
      print(f"{name:<{width}}  {shape!s:<14}  {count:>12,}")
    total = sum(count for *_, count in rows)
    print(f"{'parameters':<{width}}  {'':<14}  {total:>12,}")


# {name: shape} of variables that will be loaded later, set per thread.
_loaded_later: contextvars.ContextVar[Mapping[str, tuple] | None] = (
  contextvars.ContextVar("_loaded_later", default=None)
)


@contextlib.contextmanager
def without_random_init(shapes: Mapping[str, tuple]) -> Iterator[None]:
  """Skips the random weights of new variables with these names and shapes.

  Use it before you load weights: drawing random ones takes seconds (BERT-base).
  """
  before = _loaded_later.set(shapes)
  try:
    yield
  finally:
    _loaded_later.reset(before)


def _make_variable(name: str, shape, stddev: float, seed: int, storage_dtype):
  # Draws on the CPU: a seed then gives the same weights on any accelerator.
  with tf.device("CPU:0"):
    initial = _initial_value(name, shape, stddev, seed)
    # Vectors (biases, layer norms) are small and stay float32.
    if len(shape) > 1:
      initial = tf.cast(initial, storage_dtype)
  # The empty scope keeps the caller's name scope out of the name.
  with tf.name_scope(""):
    return tf.Variable(initial, name=name)


def _initial_value(name: str, shape, stddev: float, seed: int):
  """Returns float32 initial weights; equal arguments give equal random weights.

  As in the original: the normal is truncated at two standard deviations and
  not rescaled, so stddev 0.02 gives weights of standard deviation 0.0176.
  """
  if name.endswith("/gamma"):
    return tf.ones(shape)  # Layer norm starts as the identity.
  is_loaded_later = (_loaded_later.get() or {}).get(name) == tuple(shape)
  if is_loaded_later or name.endswith(("bias", "/beta")):
    return tf.zeros(shape)
  seeds = tf.constant([seed, name_number(name)], tf.int64)
  return tf.random.stateless_truncated_normal(
    shape, seed=seeds, stddev=stddev, alg="philox"
  )
