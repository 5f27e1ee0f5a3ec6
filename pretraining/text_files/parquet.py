"""Reads the column of text of a Parquet file, a document in each row."""

from collections.abc import Iterator
from typing import Any, BinaryIO

from absl import logging

from common import errors
from pretraining import text_files

_ROWS_PER_BLOCK = 256


def matches(head: bytes) -> bool:
  """Whether a file starts as Parquet does."""
  return head.startswith(b"PAR1")


def blocks(path: str, stream: BinaryIO) -> Iterator[bytes]:
  """Yields a line for each row that has text.

  Raises InputError: the file is damaged, has no column of text or several, or
  pyarrow is not installed.
  """
  with errors.needs_extra("parquet"):
    import pyarrow
    from pyarrow import parquet
  try:
    file = parquet.ParquetFile(stream)
    column = _text_column(path, file)
    for batch in file.iter_batches(_ROWS_PER_BLOCK, columns=[column]):
      for row in batch.to_pylist():
        if texts := _strings(row):
          yield text_files.document_line("\n".join(texts))
  except (OSError, pyarrow.ArrowException, UnicodeDecodeError) as error:
    raise errors.InputError(
      f"{path} cannot be read as Parquet ({error}): it is damaged or "
      "incomplete; copy or download it again"
    ) from error


def _text_column(path: str, file: Any) -> str:
  """Returns the path of the column called text, else of the only strings.

  A column may be nested: "document.text" is the field of a struct.
  """
  columns = [file.schema.column(index) for index in range(len(file.schema))]
  paths = [
    column.path for column in columns if str(column.logical_type) == "String"
  ]
  named = [name for name in paths if "text" in name.split(".")]
  chosen = [name for name in paths if name == "text"] or named or paths
  if len(chosen) != 1:
    listed = ", ".join(chosen or [column.path for column in columns])
    raise errors.InputError(
      f"{path}: expected one column of strings called text, got "
      f"{'several: ' if chosen else ''}{listed}: keep one, and call it text"
    )
  if not named:
    logging.info("%s: the text is column %s", path, chosen[0])
  return chosen[0]


def _strings(value: Any) -> list[str]:
  """Returns the strings in a row, in which lists and structs may be nested."""
  if isinstance(value, str):
    return [value]
  if isinstance(value, dict):
    value = list(value.values())
  if isinstance(value, list):
    return [text for part in value for text in _strings(part)]
  return []
