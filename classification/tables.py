"""Tables of text: TSV, CSV and JSON lines -> rows, each with its line.

TSV is what GLUE means by it: nothing but tabs and newlines, no quotes. CSV is
RFC 4180: quotes may hold separators and newlines. Only "\\n" and "\\r\\n" end
a line; the other separators of Unicode, which real texts hold, do not.
"""

import contextlib
import csv
import gc
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


@contextlib.contextmanager
def collector_paused():
  """Keeps the garbage collector from running; also a decorator.

  Hundreds of thousands of rows make it look through all of TensorFlow's
  objects again and again, four times as long as the reading takes; none of
  the rows is garbage.
  """
  was_enabled = gc.isenabled()
  gc.disable()
  try:
    yield
  finally:
    if was_enabled:
      gc.enable()


def read_tsv(path, *, width=None, broken=None):
  """Reads columns between tabs.

  As in the original: quotes are characters like any other, and a carriage
  return at the end of a line is not part of it. Unlike the original: one
  inside a line stays, see file_io.read_lines, and rows must be as wide as the
  header; there a longer row lost its rest and a shorter one ended the run.

  Args:
    path: UTF-8 text.
    width: how many columns there are, in a file without a header; None where
      the first line names them.
    broken: None, or a list for the rows that have another number of columns
      and cannot be put together again: (line, what is wrong) of each.

  Returns:
    Table.

  Raises:
    InputError: the file is missing, empty or not UTF-8, or, without `broken`,
      a row has more or fewer columns. File and line are named.
  """
  rows = [line.split("\t") for line in _lines(path)]
  numbers = range(1, len(rows) + 1)
  return _table(path, rows, numbers, width=width, broken=broken)


def read_csv(path, *, delimiter=","):
  """Reads columns as RFC 4180 has them.

  Args:
    path: UTF-8 text.
    delimiter: the character between columns.

  Returns:
    Table.

  Raises:
    InputError: the file is missing, empty or not UTF-8, a quote is out of
      place, or a row has more or fewer columns. The line that the row begins
      at is named.
  """
  source = (f"{line}\n" for line in _lines(path))
  reader = csv.reader(source, delimiter=delimiter, strict=True)
  rows, numbers = [], []
  before, limit = 0, csv.field_size_limit(_LONGEST_FIELD)
  try:
    for row in reader:
      rows.append(row or [""])
      numbers.append(before + 1)
      before = reader.line_num
  except csv.Error as error:
    raise errors.InputError(
      f"{path}:{before + 1}: not CSV: {error}; a text with quotes, separators "
      "or newlines stands between quotes, and quotes in it are doubled"
    ) from error
  finally:
    csv.field_size_limit(limit)
  return _table(path, rows, numbers)


def read_json_lines(path, names):
  """Reads one JSON object from each line.

  Args:
    path: UTF-8 text.
    names: the keys that every object must have; others are passed over.

  Returns:
    Table with those columns.

  Raises:
    InputError: the file is missing, empty or not UTF-8, or a line is not such
      an object. File and line are named.
  """
  rows = []
  for number, line in enumerate(_lines(path), 1):
    rows.append(_json_row(f"{path}:{number}", line, names))
  return Table(path, list(names), rows, list(range(1, len(rows) + 1)))


def _json_row(place, line, names):
  try:
    values = json.loads(line)
  except ValueError as error:
    raise errors.InputError(
      f"{place}: not JSON ({error}); every line must be one object"
    ) from error
  if not isinstance(values, dict):
    raise errors.InputError(
      f"{place}: expected an object in JSON, got {line:.40}"
    )
  for name in names:
    if name not in values:
      raise errors.InputError(
        f"{place}: no {name!r}; it has {_listed(values)}; add it, or name "
        "another column"
      )
  return [values[name] for name in names]


def _lines(path):
  """Returns the lines of a file, without empty ones at its end."""
  with file_io.open_for_reading(path) as stream:
    data = stream.read()
  try:
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


def _table(path, rows, numbers, *, width=None, broken=None):
  names, numbers = list(range(width or 0)), list(numbers)
  if width is None:
    names, rows, numbers = rows[0], rows[1:], numbers[1:]
  if not rows:
    raise errors.InputError(f"{path}: no rows, only a header")
  if all(len(row) == len(names) for row in rows):
    return Table(path, names, rows, numbers)
  kept, kept_numbers = [], []
  for number, row in _put_together(rows, numbers, len(names), broken):
    if len(row) == len(names):
      kept.append(row)
      kept_numbers.append(number)
      continue
    sentence = _ragged(row, names, width)
    if broken is None:
      raise errors.InputError(f"{path}:{number}: {sentence}")
    broken.append((number, sentence))
  return Table(path, names, kept, kept_numbers)


def _put_together(rows, numbers, width, broken):
  """Yields (line, row); rows that a newline has cut in two are joined again.

  Only where `broken` is not None: it is known that the file has such rows.
  """
  start = 0
  while start < len(rows):
    row, end = rows[start], start + 1
    while (
      broken is not None
      and len(row) < width
      and end < len(rows)
      and len(row) + len(rows[end]) - 1 <= width
    ):
      first, *others = rows[end]
      row = [*row[:-1], f"{row[-1]}\n{first}", *others]
      end += 1
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
    "mend the row: a text must not hold the character that parts columns"
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
