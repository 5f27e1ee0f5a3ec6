"""Writes checkpoints in a thread, while the training goes on.

The variables are copied to the host at the step of the checkpoint. One thread
then writes, syncs and commits the copy exactly as `run_folder.save` does, so a
kill leaves the same files as without the thread: the last complete checkpoint.
At most one checkpoint is under way.

A copy needs as much host memory as the checkpoint has bytes. If less is free,
the training waits for the checkpoint instead.
"""

import math
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import tensorflow as tf
from absl import logging

from common import memory

_MARGIN = 1.25  # Free memory that a copy needs, relative to its size.


def host_copies(tensors: Mapping[str, Any]) -> dict[str, tf.Tensor]:
  """Returns the values of variables, which later updates do not change.

  On a CPU, TensorFlow copies a variable's value only when an update follows
  before the value is written and freed.
  """
  with tf.device("CPU:0"):
    return {name: tf.identity(tensor) for name, tensor in tensors.items()}


class BackgroundSaver:
  """Runs one call at a time in a thread; a context manager that waits.

  An error of a call is raised by the next method, once.
  """

  def __init__(self) -> None:
    self._thread: threading.Thread | None = None
    self._error: BaseException | None = None
    self._has_warned = False

  def save(
    self, write: Callable[[Mapping[str, Any]], Any], tensors: Mapping[str, Any]
  ) -> None:
    """Calls `write` with the present values of variables, in a thread.

    It first waits for the call before it.

    Args:
      write: function of a dict like `tensors`.
      tensors: {name: tf.Variable or tensor}.
    """
    self.wait()
    if not self._has_room(tensors):
      write(tensors)
      return
    copies = host_copies(tensors)

    def run() -> None:
      try:
        write(copies)
      except BaseException as error:  # `wait` raises it in the caller's thread.
        self._error = error
      finally:
        copies.clear()

    self._thread = threading.Thread(target=run, name="checkpoint")
    self._thread.start()

  def check(self) -> None:
    """Raises the error of a call that has ended; it does not wait."""
    if self._thread and not self._thread.is_alive():
      self.wait()

  def wait(self) -> None:
    """Waits until the call under way has ended; raises its error."""
    if self._thread:
      self._thread.join()
      self._thread = None
    error, self._error = self._error, None
    if error:
      raise error

  def __enter__(self) -> "BackgroundSaver":
    return self

  def __exit__(
    self,
    kind: type[BaseException] | None,
    error: BaseException | None,
    traceback: TracebackType | None,
  ) -> None:
    self.wait()

  def _has_room(self, tensors: Mapping[str, Any]) -> bool:
    free = memory.available_bytes()
    size = sum(
      math.prod(tensor.shape) * tensor.dtype.size for tensor in tensors.values()
    )
    if free is None or free > _MARGIN * size:
      return True
    if not self._has_warned:
      self._has_warned = True
      logging.warning(
        "training waits for each checkpoint: a copy of it needs %d MB, and %d "
        "MB of memory are free",
        size // 10**6,
        free // 10**6,
      )
    return False
