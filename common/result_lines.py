"""Results of an evaluation: `name = value` lines, like the original's."""

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
    file_io.write_text(path, text)
