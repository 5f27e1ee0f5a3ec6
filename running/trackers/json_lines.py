"""train_log.jsonl: a JSON object per line. No TensorFlow."""

import json
import math
import os
from typing import Any

from common import errors, file_io, json_files

FILE = "train_log.jsonl"


class Tracker:
  """Writes a line for each step."""

  def __init__(self, folder: str, first_step: int):
    path = os.path.join(folder, FILE)
    # A killed run may have logged steps after its last checkpoint. Their lines
    # are dropped, because this run repeats and logs these steps.
    lines = [f"{json.dumps(line)}\n" for line in read(folder, first_step)]
    file_io.write_text(path, "".join(lines))
    self._stream = file_io.open_for_appending(path)

  def write(self, step: int, values: dict[str, float]) -> None:
    """Writes a line; JSON has neither NaN nor Infinity, which become null."""
    finite = {k: v if math.isfinite(v) else None for k, v in values.items()}
    line = json.dumps({"step": step, **finite}) + "\n"
    self._stream.write(line.encode("utf-8"))
    self._stream.flush()

  def close(self) -> None:
    """Closes the file."""
    self._stream.close()


def read(folder: str, last_step: float = math.inf) -> list[dict[str, Any]]:
  """Returns the entries of a run's log up to a step; [] if it has no log.

  Lines that a kill truncated, and damaged lines, are skipped: those that are
  not UTF-8, not a JSON object, without a step, or with a value that is neither
  a number nor null.
  """
  path = os.path.join(folder, FILE)
  if not file_io.exists(path):
    return []
  entries = []
  with file_io.open_for_reading(path) as stream:
    for line in stream:
      entry = _entry_of(line)
      if entry and entry["step"] <= last_step:
        entries.append(entry)
  return entries


def _entry_of(line: bytes) -> dict[str, Any] | None:
  """Returns the entry in a line, as bytes; None if it is damaged."""
  try:
    entry = json_files.parse(line)
  except errors.InputError:
    return None
  if not isinstance(entry, dict) or type(entry.get("step")) is not int:
    return None
  is_whole = all(
    value is None or type(value) in (int, float) and math.isfinite(value)
    for value in entry.values()
  )
  return entry if is_whole else None
