"""Results of an evaluation: lines like the original's, and a JSON file."""

import json
import math
import os

from absl import logging

from common import file_io


def as_text(results: dict) -> str:
  """Returns the lines of results, in the order of their names."""
  return "".join(f"{name} = {results[name]!s}\n" for name in sorted(results))


def write(
  path: str | None, results: dict, notes: dict[str, str] | None = None
) -> None:
  """Logs results sorted by name, and writes them to `path` if it is not None.

  Only the log has the notes: the file has the original's format.
  """
  text = as_text(results)
  for name, line in zip(sorted(results), text.splitlines()):
    note = f" ({notes[name]})" if notes and name in notes else ""
    logging.info("  %s%s", line, note)
  if path is not None:
    write_files(path, results)


def write_files(path: str, results: dict) -> None:
  """Writes the lines to `path`, and the values to a .json file next to it."""
  file_io.write_text(path, as_text(results))
  # str() of a float32 has fewer digits than float(); JSON has no NaN.
  values = {
    name: value if isinstance(value, int) else float(str(value))
    for name, value in sorted(results.items())
  }
  finite = {n: v if math.isfinite(v) else None for n, v in values.items()}
  text = json.dumps(finite, indent=2) + "\n"
  file_io.write_text(f"{os.path.splitext(path)[0]}.json", text)
