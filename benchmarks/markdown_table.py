"""Formats the lines of Markdown tables; needs no other package."""


def row(*cells) -> str:
  """Returns the line of a row."""
  texts = (f" {cell} " if cell != "" else " " for cell in cells)
  return f"|{'|'.join(texts)}|"


def header(*names: str) -> str:
  """Returns the two lines above the rows."""
  return f"{row(*names)}\n{'|---' * len(names)}|"
