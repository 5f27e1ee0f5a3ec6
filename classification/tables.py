"""Tables of text: TSV, CSV and JSON lines -> rows, each with its line.

TSV is what GLUE means by it: nothing but tabs and newlines, no quotes. CSV is
RFC 4180: quotes may hold separators and newlines. A line ends at "\\n" or
"\\r\\n", or, in a file that has neither, at "\\r"; the other separators of
Unicode, which real texts hold, end none.
"""

import codecs
import csv
import io
import itertools
import json
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from absl import logging

from common import errors, file_io

# The longer ones first: that of UTF-16 begins that of UTF-32.
_MARKED = {
  codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32",
  codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16",
  codecs.BOM_UTF8: "utf-8",
}
# So much of a file tells its encoding and its line ends.
_HEAD_BYTES = 1 << 20
# A text may be a whole book; csv stops at 131072 characters unless told.
_LONGEST_FIELD = 2**31 - 1
_DELIMITERS = ",;\t|"


class Row(NamedTuple):
  """A row: the line that it begins at, from 1, and its values or its fault.

  A value is a str, or whatever JSON has.
  """

  line: int
  values: list | None
  fault: str | None = None


class Table(NamedTuple):
  """What a file holds, its rows read as they are asked for."""

  path: str
  names: list  # Of the columns; their numbers where no line says.
  rows: Iterator[Row]  # In the order of the file, the bad ones among them.

  def require(self, names: Iterable[str | int | None]) -> None:
    """Raises InputError unless each column (None is none) is there, once."""
    for name in names:
      count = 1 if name is None else self.names.count(name)
      fault = f"{count} columns are named" if count else "no column"
      if count != 1:
        raise errors.InputError(
          f"{self.path}:1: {fault} {name!r}; the columns are "
          f"{_listed(self.names)}; the header must name it once"
        )


def open_table(
  path: str, file_format: str, *, names: tuple = (), width: int | None = None,
  delimiter: str | None = None, encoding: str | None = None,
  joins_cut_rows: bool = False,
) -> Table:
  """Opens a file of columns.

  As in the original: quotes in a TSV are characters like any other, and a
  carriage return at the end of a line is not part of it. Unlike the original:
  one inside a line stays, see file_io.read_lines, and rows must be as wide as
  the header; there a longer row lost its rest and a shorter one ended the run.
  Raises InputError: the file is missing or, here or while rows are read, empty,
  or a quote is out of place: the line that the row begins at is named.

  Args:
    file_format: one of choices.TABLE_FORMATS.
    names: of the columns that are wanted: every object in JSON must have them,
      other keys are ignored.
    width: number of columns of a TSV without a header.
    delimiter: between the columns of a CSV; None to tell from the header.
    encoding: None to detect it.
    joins_cut_rows: whether rows of a TSV that a line break has cut in two are
      joined again; the file is then held in memory.
  """
  lines = _lines(path, encoding)
  if file_format == "jsonl":
    return Table(path, list(names), (
      Row(number, *_json_row(line, names, encoding)) for number, line in lines
    ))
  if file_format == "tsv":
    rows = ((number, line.split("\t")) for number, line in lines)
    if joins_cut_rows:
      header, *others = rows
      rows = iter([header, *_joined(others, len(header[1]))])
    return _checked(path, rows, encoding, width)
  if delimiter is None:
    first = next(lines)
    lines = itertools.chain([first], lines)
    delimiter = guess_delimiter(first[1], names)
    if delimiter in _DELIMITERS[1:]:
      logging.info("%s: columns are separated by %r", path, delimiter)
  return _checked(path, _csv_rows(path, lines, delimiter), encoding)


def _csv_rows(path, lines, delimiter):
  # With their newlines, which csv keeps where a quoted text has some.
  source = (f"{line}\n" for _, line in lines)
  reader = csv.reader(source, delimiter=delimiter, strict=True)
  # The limit is the whole process's: it is put back below.
  before, limit = 0, csv.field_size_limit(_LONGEST_FIELD)
  try:
    for row in reader:
      # csv gives [] for an empty line, which is one empty column elsewhere.
      yield before + 1, row or [""]
      before = reader.line_num
  except csv.Error as error:
    raise errors.InputError(
      f"{path}:{before + 1}: not CSV: {error}; put a text with quotes, "
      "separators or newlines between quotes, and double the quotes in it"
    ) from error
  finally:
    csv.field_size_limit(limit)


def guess_delimiter(header: str, names: tuple) -> str:
  """Returns the character between the columns of a CSV, by its first line.

  Of , ; tab | one that gives all `names`, or else the most columns.
  """
  # The first line alone decides: a text may hold any separator.
  found = {
    delimiter: next(csv.reader([header], delimiter=delimiter), [])
    for delimiter in _DELIMITERS
  }
  # Of a file with one column: a character of no text.
  if max(map(len, found.values())) < 2:
    return "\x1f"
  return max(found, key=lambda delimiter: (
    bool(names) and set(names) <= set(found[delimiter]), len(found[delimiter])
  ))


def _json_row(line, names, encoding):
  """Returns (row, None), or (None, what is wrong with a line)."""
  if fault := _undecodable(line, encoding):
    return None, fault
  try:
    values = json.loads(line)
  # Of ten thousand "[", too.
  except (ValueError, RecursionError) as error:
    return None, f"not JSON ({error}); every line must be one object"
  if not isinstance(values, dict):
    return None, f"expected an object in JSON, got {line:.40}"
  for name in names:
    if name not in values:
      return None, (
        f"no {name!r}; it has {_listed(values)}; add it, or name another "
        "column"
      )
  return [values[name] for name in names], None


# Lines.


def check_encoding(name: str) -> None:
  """Raises InputError for what is no encoding of text in Python."""
  try:
    io.TextIOWrapper(io.BytesIO(), name)
  except (LookupError, ValueError) as error:
    raise errors.InputError(
      f"--encoding={name}: {error}; pass one of Python's encodings, such as "
      "utf-8, latin-1, cp1252 or utf-16"
    ) from error


def _mark(error):
  """Decodes a byte that is no text to half of a surrogate pair, no character.

  As Python's "surrogateescape" does for UTF-8 alone.
  """
  return chr(0xDC00 + error.object[error.start]), error.end


codecs.register_error("not_a_character", _mark)


def _lines(path, encoding):
  """Yields (number, line) of a file, without empty ones at its end."""
  empty, number = [], 0
  with file_io.open_for_reading(path) as stream:
    head = stream.read(_HEAD_BYTES)
    stream.seek(0)
    encoding = _encoding_of(head, encoding)
    text = io.TextIOWrapper(
      stream, encoding, "not_a_character", _line_end(head, encoding)
    )
    for number, line in enumerate(text, 1):
      # A mark would be the first character of the first column's name.
      if number == 1:
        line = line.removeprefix("\ufeff")
      line = line.removesuffix("\n").removesuffix("\r")
      empty.append((number, line))
      # Held back: at the end of the file they are no rows.
      if line:
        yield from empty
        empty.clear()
  if len(empty) == number:
    raise errors.InputError(f"{path}: the file is empty")


def _encoding_of(head, given):
  # A mark tells more than a flag that several files share.
  for mark, encoding in _MARKED.items():
    if head.startswith(mark):
      return encoding
  if given:
    return given
  # A first character of ASCII in two bytes.
  if head[1:2] == b"\0":
    return "utf-16-le"
  return "utf-16-be" if head[:1] == b"\0" else "utf-8"


def _line_end(head, encoding):
  text = head.decode(encoding, "ignore")
  return "\r" if "\r" in text and "\n" not in text else "\n"


def _undecodable(text, encoding):
  """Returns what is wrong with a text that bytes are left in, or None."""
  found = re.search("[\ud800-\udfff]", text)
  return found and (
    f"not {(encoding or 'utf-8').upper()}: the byte "
    f"0x{ord(found[0]) - 0xDC00:02x} after {text[: found.start()][-20:]!r}; "
    "pass its --encoding, such as latin-1, or save the file as UTF-8"
  )


# Columns.


def _checked(path, rows, encoding, width=None):
  """Returns the Table of (line, values) whose width the first row says."""
  names = list(range(width or 0))
  if width is None:
    line, names = next(rows)
    if fault := _undecodable("\t".join(names), encoding):
      raise errors.InputError(f"{path}:{line}: {fault}")

  def checked():
    line = None
    for line, row in rows:
      fault = _undecodable("\t".join(row), encoding)
      if len(row) != len(names):
        fault = _ragged(row, names, width)
      yield Row(line, None if fault else row, fault)
    if line is None:
      raise errors.InputError(f"{path}: no rows, only a header")

  return Table(path, names, checked())


def _joined(rows, width):
  """Yields (line, values); rows that a newline has cut in two are joined."""
  start = 0
  while start < len(rows):
    (line, row), end = rows[start], start + 1
    # Less one: the cell that was cut is in both.
    while (
      len(row) < width
      and end < len(rows)
      and len(row) + len(rows[end][1]) - 1 <= width
    ):
      first, *others = rows[end][1]
      # The last cell of the one and the first of the other were one text.
      row = [*row[:-1], f"{row[-1]}\n{first}", *others]
      end += 1
    # No lines from here on fit together: this one is broken by itself.
    if len(row) != width:
      row, end = rows[start][1], start + 1
    yield line, row
    start = end


def _ragged(row, names, width):
  if row == [""]:
    return "an empty line; remove it"
  wanted = "are in the header" if width is None else "are expected"
  return (
    f"{len(row)} column{'s' * (len(row) != 1)}, but {len(names)} {wanted}; "
    "fix the row: a text must not contain the character that separates columns"
  )


def _listed(names):
  return ", ".join(map(repr, names))
