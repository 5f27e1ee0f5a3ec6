"""Records the numbers of a run in its folder, while it trains.

Each file of this folder records them in one format and defines

  FILE                         the start of the name of its file, for messages
  Tracker(folder, first_step)  a class with write(step, values), where values
                               are {name: number}, and close(). A killed run may
                               have recorded steps after first_step, which the
                               run now repeats

A file may define

  write_evaluation(folder, step, values)  records a final evaluation
  read(folder)  returns the records: [{"step": step, name: number or None}]

No TensorFlow.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from absl import logging

from common import errors, extensions


def _of_evaluation(results: dict[str, float]) -> dict[str, float]:
  """Returns {recorded name: score}, such as eval/accuracy."""
  return {f"eval/{n.removeprefix('eval_')}": v for n, v in results.items()}


class Trackers:
  """All trackers of a run, which goes on without one that cannot write."""

  def __init__(self, folder: str, first_step: int):
    self._trackers: list[tuple[_Tried, Any]] = []
    for file in extensions.load_all(__name__):
      tried, tracker = _Tried(os.path.join(folder, file.FILE)), None
      with tried.write():
        tracker = file.Tracker(folder, first_step)
      self._trackers.append((tried, tracker))

  def write(self, step: int, values: dict[str, float]) -> None:
    """Records the values of a step."""
    for tried, tracker in self._trackers:
      if tracker:
        with tried.write():
          tracker.write(step, values)

  def evaluated(self, step: int, results: dict[str, float]) -> None:
    """Records the scores of an evaluation during training."""
    self.write(step, _of_evaluation(results))

  def close(self) -> None:
    """Closes the files, and logs what they lack."""
    for tried, tracker in self._trackers:
      if tracker:
        with tried.write():
          tracker.close()
      tried.warn_at_end()


def write_evaluation(folder: str, step: int, results: dict[str, float]) -> None:
  """Adds the scores of a final evaluation to the records of a run.

  They have the names of the evaluations of --eval_steps.
  """
  for file in extensions.load_all(__name__):
    if hasattr(file, "write_evaluation"):
      with _Tried(os.path.join(folder, file.FILE)).write():
        file.write_evaluation(folder, step, _of_evaluation(results))


def history(folder: str) -> list[dict[str, Any]]:
  """Returns the records of a run, by step; [] if it has none."""
  for file in extensions.load_all(__name__):
    if hasattr(file, "read"):
      return file.read(folder)
  return []


class _Tried:
  """Counts the failures to write a file that a run can lack."""

  def __init__(self, path: str):
    self._path, self._failures = path, 0

  @contextlib.contextmanager
  def write(self) -> Iterator[None]:
    """Wraps a block that writes; the first failure is logged."""
    try:
      yield
    except Exception as error:
      if not errors.is_of_files(error):
        raise
      self._failures += 1
      if self._failures == 1:
        logging.warning(
          "%s cannot be written (%s); the training goes on",
          self._path,
          errors.reason_of(error),
        )

  def warn_at_end(self) -> None:
    """Logs the number of failures, if there are any."""
    if self._failures:
      logging.warning(
        "%s lacks entries: %d writes failed", self._path, self._failures
      )
