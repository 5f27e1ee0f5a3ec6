"""Tables of text: TSV, CSV and JSON lines -> rows, each with its line.

TSV is what GLUE means by it: nothing but tabs and newlines, no quotes. CSV is
RFC 4180: quotes may hold separators and newlines. Only "\\n" and "\\r\\n" end
a line; the other separators of Unicode, which real texts hold, do not.
"""

import csv
import json
from typing import NamedTuple

from common import errors, file_io

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


def read_tsv(path, *, width=None, broken=None, faults=None):
  """Reads columns between tabs.

  As in the original: quotes are characters like any other, and a carriage
  return at the end of a line is not part of it. Unlike the original: one
  inside a line stays, see file_io.read_lines, and rows must be as wide as the
  header; there a longer row lost its rest and a shorter one ended the run.

  Args:
    path: UTF-8 text.
    width: how many columns there are, in a file without a header; None where
      the first line names them.
    broken: None, or a list for the rows that have another number of columns:
      (line, what is wrong) of each. Rows that a line break has cut in two
      are joined again.
    faults: None, or a list for such rows, which are then not joined.

  Returns:
    Table of the other rows.

  Raises:
    InputError: the file is missing, empty or not UTF-8, or, without `broken`
      and `faults`, a row has more or fewer columns. File and line are named.
  """
  rows = [line.split("\t") for line in _lines(path)]
  numbers = range(1, len(rows) + 1)
  joins = broken is not None
  return _table(
    path, rows, numbers, width=width, faults=broken if joins else faults,
    joins=joins,
  )


def read_csv(path, *, delimiter=",", faults=None):
  """Reads columns as RFC 4180 has them.

  Args:
    path: UTF-8 text.
    delimiter: the character between columns.
    faults: None, or a list for the rows that have another number of columns:
      (line, what is wrong) of each.

  Returns:
    Table of the other rows.

  Raises:
    InputError: the file is missing, empty or not UTF-8, a quote is out of
      place, or, without `faults`, a row has more or fewer columns. The line
      that the row begins at is named.
  """
  source = (f"{line}\n" for line in _lines(path))
  reader = csv.reader(source, delimiter=delimiter, strict=True)
  rows, numbers = [], []
  # The limit is of the whole process: it is put back below.
  before, limit = 0, csv.field_size_limit(_LONGEST_FIELD)
  try:
    for row in reader:
      # csv gives an empty line no column; here it has one, and is reported.
      rows.append(row or [""])
      numbers.append(before + 1)
      before = reader.line_num
  except csv.Error as error:
    raise errors.InputError(
      f"{path}:{before + 1}: not CSV: {error}; put a text with quotes, "
      "separators or newlines between quotes, and double the quotes in it"
    ) from error
  finally:
    csv.field_size_limit(limit)
  return _table(path, rows, numbers, faults=faults)


def guess_delimiter(path, names):
  """Returns the character between the columns of a CSV, by its header.

  Args:
    path: UTF-8 text.
    names: the columns that are needed.

  Returns:
    A comma, or one of ; tab | where only that one gives the columns.
  """
  # The first line alone decides: a text may hold any separator.
  header = _lines(path)[0]
  for delimiter in (",", ";", "\t", "|"):
    found = next(csv.reader([header], delimiter=delimiter), [])
    if set(names) <= set(found):
      return delimiter
  return ","


def read_json_lines(path, names, *, faults=None):
  """Reads one JSON object from each line.

  Args:
    path: UTF-8 text.
    names: the keys that every object must have; others are ignored.
    faults: None, or a list for the lines that are not such an object:
      (line, what is wrong) of each.

  Returns:
    Table with those columns, of the other lines.

  Raises:
    InputError: the file is missing, empty or not UTF-8, or, without `faults`,
      a line is not such an object. File and line are named.
  """
  rows, numbers = [], []
  for number, line in enumerate(_lines(path), 1):
    row, fault = _json_row(line, names)
    if fault is None:
      rows.append(row)
      numbers.append(number)
    else:
      _note_fault(path, number, fault, faults)
  return Table(path, list(names), rows, numbers)


def _json_row(line, names):
  """Returns (row, None), or (None, what is wrong with a line)."""
  try:
    values = json.loads(line)
  except ValueError as error:
    return None, f"not JSON ({error}); every line must be one object"
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


def _note_fault(path, number, fault, faults):
  """Adds a bad row to `faults`, or raises InputError where that is None."""
  if faults is None:
    raise errors.InputError(f"{path}:{number}: {fault}")
  faults.append((number, fault))


def _lines(path):
  """Returns the lines of a file, without empty ones at its end."""
  with file_io.open_for_reading(path) as stream:
    data = stream.read()
  try:
    # Of Excel; it would be the first character of the first column's name.
    text = data.decode("utf-8").removeprefix(_BYTE_ORDER_MARK)
  except UnicodeDecodeError:
    for _ in file_io.read_lines(path):
      pass  # It says which line it is.
    raise
  lines = text.split("\n")
  if "\r" in text:
    lines = [line.removesuffix("\r") for line in lines]
  while lines and not lines[-1]:
    lines.pop()
  if not lines:
    raise errors.InputError(f"{path}: the file is empty")
  return lines


def _table(path, rows, numbers, *, width=None, faults=None, joins=False):
  names, numbers = list(range(width or 0)), list(numbers)
  if width is None:
    names, rows, numbers = rows[0], rows[1:], numbers[1:]
  if not rows:
    raise errors.InputError(f"{path}: no rows, only a header")
  # The usual file: nothing is copied.
  if all(len(row) == len(names) for row in rows):
    return Table(path, names, rows, numbers)
  if joins:
    numbers, rows = zip(*_put_together(rows, numbers, len(names)))
  kept, kept_numbers = [], []
  for number, row in zip(numbers, rows):
    if len(row) == len(names):
      kept.append(row)
      kept_numbers.append(number)
    else:
      _note_fault(path, number, _ragged(row, names, width), faults)
  return Table(path, names, kept, kept_numbers)


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
    table: Table.
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
