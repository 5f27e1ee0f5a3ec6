"""Results of an evaluation: `name = value` lines, as the original has them."""

from absl import logging

from common import file_io


def as_text(results):
  """Returns the lines of results, in the order of their names.

  Args:
    results: dict from name to a number, shown as str() shows it.
  """
  return "".join(f"{name} = {results[name]!s}\n" for name in sorted(results))


def write(path, results, notes=None):
  """Writes results in the order of their names, and logs them.

  Args:
    path: of the file; None: they are only logged.
    results: dict from name to a number, shown as str() shows it.
    notes: dict from some of the names to what the log adds to them.
  """
  text = as_text(results)
  # The notes are for the log: the file stays as the original wrote it.
  for name, line in zip(sorted(results), text.splitlines()):
    note = f" ({notes[name]})" if notes and name in notes else ""
    logging.info("  %s%s", line, note)
  if path is not None:
    file_io.write_text(path, text)
