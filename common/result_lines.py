"""Results of an evaluation: `name = value` lines, as the original has them."""

from absl import logging

from common import file_io


def write(path, results, notes=None):
  """Writes results in the order of their names, and logs them.

  Args:
    path: of the file; None: they are only logged.
    results: dict from name to a number, shown as str() shows it.
    notes: dict from some of the names to what the log adds to them.
  """
  lines = {name: f"{name} = {results[name]!s}" for name in sorted(results)}
  for name, line in lines.items():
    note = f" ({notes[name]})" if notes and name in notes else ""
    logging.info("  %s%s", line, note)
  if path is not None:
    file_io.write_text(path, "".join(f"{line}\n" for line in lines.values()))
