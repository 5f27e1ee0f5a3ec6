"""Formats Markdown tables; needs no other package."""

from collections.abc import Iterable


def row(*cells) -> str:
  """Returns the line of a row; an empty cell is one space."""
  texts = (f" {cell} " if cell != "" else " " for cell in cells)
  return f"|{'|'.join(texts)}|"


def header(*names: str) -> str:
  """Returns the two lines above the rows."""
  return f"{row(*names)}\n{'|---' * len(names)}|"


def table(names: Iterable[str], rows: Iterable[tuple]) -> str:
  """Returns the lines of a table."""
  return "\n".join([header(*names), *(row(*cells) for cells in rows)])
