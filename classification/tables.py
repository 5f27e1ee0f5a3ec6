"""Tables of text: TSV, CSV and JSON lines -> rows, each with its line.

TSV is what GLUE means by it: nothing but tabs and newlines, no quotes. CSV is
RFC 4180: quotes may hold separators and newlines. Only "\\n" and "\\r\\n" end
a line; the other separators of Unicode, which real texts hold, do not.
"""

import csv
import itertools
from typing import Iterator, NamedTuple

from common import errors, file_io, json_files

_BYTE_ORDER_MARK = "\ufeff"
# A text may be a whole book; csv stops at 131072 characters unless told.
_LONGEST_FIELD = 2**31 - 1


class Table(NamedTuple):
  """What a file holds.

  Attributes:
    path: str.
    names: list of the columns' names; of their numbers where no line says.
    rows: list of rows, each a list of as many values: str, or whatever JSON
      has.
    lines: the number of the line that each row begins at, from 1.
  """

  path: str
  names: list
  rows: list
  lines: list


class Stream(NamedTuple):
  """What a file holds, read as it is asked for.

  Attributes:
    path, names: as of Table.
    rows: iterator of (line, row, None), and of (line, None, what is wrong) for
      a bad row, in the order of the file.
  """

  path: str
  names: list
  rows: Iterator


def read_tsv(path, *, width=None, broken=None):
  """Reads columns between tabs.

  Args:
    path, width: as of `stream_tsv`.
    broken: None, or a list for the rows that have another number of columns:
      (line, what is wrong) of each. Rows that a line break has cut in two
      are joined again.

  Returns:
    Table of the other rows.

  Raises:
    InputError: as of `stream_tsv`, or, without `broken`, a row has more or
      fewer columns. File and line are named.
  """
  rows = _tsv_rows(path)
  if broken is not None:
    rows = list(rows)
    wide = width or len(rows[0][1])
    if any(len(row) != wide for _, row in rows):
      # The header, which gives the width, is no row to join others to.
      head = [] if width else rows[:1]
      numbers, values = zip(*rows[len(head):])
      rows = [*head, *_put_together(values, numbers, wide)]
  return read_all(_checked(path, iter(rows), width), broken)


def stream_tsv(path, *, width=None):
  """Opens a file of columns between tabs.

  As in the original: quotes are characters like any other, and a carriage
  return at the end of a line is not part of it. Unlike the original: one
  inside a line stays, see file_io.read_lines, and rows must be as wide as the
  header; there a longer row lost its rest and a shorter one ended the run.

  Args:
    path: UTF-8 text.
    width: how many columns there are, in a file without a header; None where
      the first line names them.

  Returns:
    Stream; a row with another number of columns is a bad one.

  Raises:
    InputError: the file is missing, or, here or while its rows are read, it is
      empty or not UTF-8.
  """
  return _checked(path, _tsv_rows(path), width)


def _tsv_rows(path):
  for number, line in enumerate(_lines(path), 1):
    yield number, line.split("\t")


def read_csv(path, *, delimiter=","):
  """Returns the Table of a file that `stream_csv` opens.

  Raises:
    InputError: as of `stream_csv`, or a row is bad. Its line is named.
  """
  return read_all(stream_csv(path, delimiter=delimiter))


def stream_csv(path, *, delimiter=","):
  """Opens a file of columns as RFC 4180 has them.

  Args:
    path: UTF-8 text.
    delimiter: the character between columns.

  Returns:
    Stream; a row with another number of columns than the header is a bad one.

  Raises:
    InputError: the file is missing, or, here or while its rows are read, it is
      empty or not UTF-8 or a quote is out of place. The line that the row
      begins at is named.
  """
  return _checked(path, _csv_rows(path, delimiter))


def _csv_rows(path, delimiter):
  # With their newlines, which csv keeps where a quoted text has some.
  source = (f"{line}\n" for line in _lines(path))
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


def guess_delimiter(path, names):
  """Returns the character between the columns of a CSV, by its header.

  Args:
    path: UTF-8 text.
    names: the columns that are needed.

  Returns:
    A comma, or one of ; tab | where only that one gives the columns.
  """
  # The first line alone decides: a text may hold any separator.
  header = next(_lines(path))
  for delimiter in (",", ";", "\t", "|"):
    found = next(csv.reader([header], delimiter=delimiter), [])
    if set(names) <= set(found):
      return delimiter
  return ","


def read_json_lines(path, names):
  """Returns the Table of a file that `stream_json_lines` opens.

  Raises:
    InputError: as of `stream_json_lines`, or a line is bad. It is named.
  """
  return read_all(stream_json_lines(path, names))


def stream_json_lines(path, names):
  """Opens a file with one JSON object on each line.

  Args:
    path: UTF-8 text.
    names: the keys that every object must have; others are ignored.

  Returns:
    Stream with those columns; a line that is not such an object is a bad row.

  Raises:
    InputError: the file is missing, or, while its rows are read, it is empty
      or not UTF-8.
  """
  return Stream(path, list(names), (
    (number, *_json_row(line, names))
    for number, line in enumerate(_lines(path), 1)
  ))


def _json_row(line, names):
  """Returns (row, None), or (None, what is wrong with a line)."""
  try:
    values = json_files.parse(line)
  except errors.InputError as error:
    return None, f"{error}; every line must be one object"
  if not isinstance(values, dict):
    return None, f"expected an object in JSON, got {line:.40}"
  for name in names:
    if name not in values:
      return None, (
        f"no {name!r}; it has {_listed(values)}; add it, or name another "
        "column"
      )
  # Other keys are ignored: data of others often have more.
  return [values[name] for name in names], None


def read_all(stream, faults=None):
  """Returns the Table of a Stream.

  Args:
    stream: Stream.
    faults: None, or a list for the bad rows: (line, what is wrong) of each.

  Raises:
    InputError: as the Stream does, or, without `faults`, a row is bad.
  """
  rows, lines = [], []
  for line, row, fault in stream.rows:
    if fault is None:
      rows.append(row)
      lines.append(line)
    elif faults is None:
      raise errors.InputError(f"{stream.path}:{line}: {fault}")
    else:
      faults.append((line, fault))
  return Table(stream.path, stream.names, rows, lines)


def _lines(path):
  """Yields the lines of a file, without empty ones at its end."""
  empty, is_first = 0, True
  for number, line in file_io.read_lines(path):
    # Of Excel; it would be the first character of the first column's name.
    if number == 1:
      line = line.removeprefix(_BYTE_ORDER_MARK)
    line = line.removesuffix("\r")
    if not line:
      # Held back: at the end of the file they are no rows.
      empty += 1
      continue
    yield from itertools.repeat("", empty)
    yield line
    empty, is_first = 0, False
  if is_first:
    raise errors.InputError(f"{path}: the file is empty")


def _checked(path, rows, width=None):
  """Returns the Stream of (line, row) whose width the first row says."""
  names = list(range(width or 0))
  if width is None:
    _, names = next(rows)

  def checked():
    number = None
    for number, row in rows:
      if len(row) == len(names):
        yield number, row, None
      else:
        yield number, None, _ragged(row, names, width)
    if number is None:
      raise errors.InputError(f"{path}: no rows, only a header")

  return Stream(path, names, checked())


def _put_together(rows, numbers, width):
  """Yields (line, row); rows that a newline has cut in two are joined again.

  Only in a file that is known to have such rows.
  """
  start = 0
  while start < len(rows):
    row, end = rows[start], start + 1
    while (
      len(row) < width
      and end < len(rows)
      # Less one: the cell that was cut is in both.
      and len(row) + len(rows[end]) - 1 <= width
    ):
      first, *others = rows[end]
      # The last cell of the one and the first of the other were one text.
      row = [*row[:-1], f"{row[-1]}\n{first}", *others]
      end += 1
    # No lines from here on fit together: this one is broken by itself.
    if len(row) != width:
      row, end = rows[start], start + 1
    yield numbers[start], row
    start = end


def _ragged(row, names, width):
  if row == [""]:
    return "an empty line; remove it"
  wanted = "are expected" if width is not None else "are in the header"
  return (
    f"{len(row)} column{'s' * (len(row) != 1)}, but {len(names)} {wanted}; "
    "fix the row: a text must not contain the character that separates columns"
  )


def column(table, name):
  """Returns the place of a column in the rows of a table.

  Args:
    table: Table or Stream.
    name: of the column; its number, from 0, in a file without a header.

  Raises:
    InputError: there is no such column, or more than one.
  """
  places = [n for n, known in enumerate(table.names) if known == name]
  if len(places) == 1:
    return places[0]
  fault = f"{len(places)} columns are named" if places else "no column"
  raise errors.InputError(
    f"{table.path}:1: {fault} {name!r}; the columns are "
    f"{_listed(table.names)}; the header must name it once"
  )


def _listed(names):
  return ", ".join(repr(name) for name in names)
