"""Results of an evaluation: `name = value` lines, as the original has them."""

from absl import logging

from common import file_io


def as_text(results: dict) -> str:
  """Returns the lines of results, in the order of their names."""
  return "".join(f"{name} = {results[name]!s}\n" for name in sorted(results))


def write(
  path: str | None, results: dict, notes: dict[str, str] | None = None
) -> None:
  """Writes results in the order of their names, if to a file, and logs them.

  The notes are for the log: the file stays as the original wrote it.
  """
  text = as_text(results)
  for name, line in zip(sorted(results), text.splitlines()):
    note = f" ({notes[name]})" if notes and name in notes else ""
    logging.info("  %s%s", line, note)
  if path is not None:
    file_io.write_text(path, text)
