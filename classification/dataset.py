"""CSV, TSV and JSON lines of one's own -> examples, by the columns' names.

  text,label                  text<tab>label        {"text": ..., "label": ...}
  "Well, it works.",good      It works.<tab>good    {"text": "It works.", ...}

CSV has quotes as in RFC 4180; TSV has none unless asked. Classes that are not
given are those of the training data, sorted: numbers by size, names by
character, so that the order of the rows plays no part. Bad rows are reported
together, or skipped, counted and listed.
"""

import copy
import itertools
import math
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from absl import logging

from classification import labelled_examples, tables
from common import errors, file_io, json_files

Example = labelled_examples.Example
CSV, TSV, JSON_LINES = "csv", "tsv", "jsonl"
FORMATS = (CSV, TSV, JSON_LINES)
SKIPPED_FILE_NAME = "skipped_rows.tsv"
_LARGEST_SCORE = float(np.finfo(np.float32).max)  # What the records hold.


class Columns(NamedTuple):
  """The names of the columns; None: there is none, or it is not read."""

  text_a: str = "text"
  text_b: str | None = None
  label: str | None = "label"
  id: str | None = None


class BadRow(NamedTuple):
  """A row that no example could be made of, and what is wrong with it.

  `line` is the number of the line that it begins at, from 1.
  """

  path: str
  line: int
  fault: str

  def __str__(self):
    return f"{self.path}:{self.line}: {self.fault}"


class TableOptions(NamedTuple):
  """How files of one's own are written.

  Attributes:
    kind: SINGLE: labels are names, or numbers used as names; REGRESSION:
      numbers; MULTI_LABEL: several names, or none, in one column, separated by
      `separator` or in a JSON list.
    file_format: one of FORMATS; None to tell from the end of the name.
    quoted: whether a TSV has quotes like a CSV.
    delimiter: the character between the columns of a CSV; None to tell from
      its header.
    encoding: such as "latin-1"; None to detect UTF-8 and UTF-16.
    labels: the classes that there may be; empty for any.
    skips_bad_rows: whether bad rows are skipped instead of refused.
  """

  kind: str = labelled_examples.SINGLE
  separator: str | None = None
  file_format: str | None = None
  quoted: bool = False
  delimiter: str | None = None
  encoding: str | None = None
  labels: tuple = ()
  skips_bad_rows: bool = False


def examples_of(
  table: tables.Table, make: Callable[[int, list, str], Example | None]
) -> Iterator[Example | BadRow]:
  """Yields what each row of a table is, in order.

  Args:
    make: function of a row's number (from 1; bad ones count), values and
      place. It raises InputError for a bad one; None: it is left out.
  """
  for number, (line, values, fault) in enumerate(table.rows, 1):
    try:
      if fault is not None:
        raise errors.InputError(fault)
      found = make(number, values, f"{table.path}:{line}")
    except errors.InputError as error:
      found = BadRow(table.path, line, str(error))
    if found is not None:
      yield found


def read(path: str, columns: Columns, **options) -> list[Example]:
  """Returns the examples of a file; takes and raises what ExampleStream does.
  """
  examples = []
  ExampleStream(path, columns, examples=examples, **options)
  return examples


class ExampleStream:
  """The examples of a file, read anew each time that they are asked for.

  Memory holds one at a time, whatever the size of the file, besides the bad
  rows and, where there is a column of ids, the ids.
  """

  def __init__(
    self,
    path: str,
    columns: Columns,
    *,
    split: str = "train",
    skipped: list | None = None,
    examples: list | None = None,
    **options,
  ):
    """Checks the whole file.

    Args:
      path: a header and rows, or a JSON object on each line.
      split: the first part of the names of rows without ids: "train-1".
      skipped: list that bad rows are added to, as BadRow, where they are
        skipped.
      examples: list that the examples are added to.
      **options: of TableOptions.

    Raises:
      InputError: the file is missing or lacks a column; or rows are bad and
        not skipped: too few columns, an empty text, no label or an unknown
        one, an id that comes again. File and line are named of each, a record
        of several lines by the first.
    """
    self._path, self._columns, self._split = path, columns, split
    self._options = TableOptions(**options)
    bad, self._count = [], 0
    for found in self._rows():
      if isinstance(found, BadRow):
        bad.append(found)
        continue
      self._count += 1
      if examples is not None:
        examples.append(found)
    skips = self._options.skips_bad_rows
    _report_bad_rows(bad, self._count + len(bad), skips)
    if skipped is not None:
      skipped.extend(bad)

  def _rows(self):
    """Yields the Example or the BadRow of each row.

    Rows are numbered with the bad ones: what is wrong with one must not rename
    the others.
    """
    columns, options, first_places = self._columns, self._options, {}
    table = _open_table(self._path, columns, options)
    places = [name and tables.column(table, name) for name in columns]

    def make(number, row, place):
      values = Columns(*(None if n is None else row[n] for n in places))
      name = f"{self._split}-{number}"
      example = Example(
        _name(values.id, columns.id) if columns.id else name,
        _text(values.text_a, columns.text_a),
        _text(values.text_b, columns.text_b),
        _label(values.label, options) if columns.label else None,
        place=place,
      )
      # Numbers cannot come twice.
      if columns.id:
        labelled_examples.check_new_id(example, first_places)
      return example

    return examples_of(table, make)

  def __len__(self):
    return self._count

  def __iter__(self):
    found = (row for row in self._rows() if not isinstance(row, BadRow))
    count = 0
    for count, example in enumerate(  # noqa: B007
      itertools.islice(found, len(self)), 1
    ):
      yield example
    if count < len(self):
      raise errors.InputError(
        f"{self._path} has {count} rows and had {len(self)} when it was "
        "checked: it was changed meanwhile; run again"
      )

  def __getitem__(self, key):
    """Returns an example, or of [:n] the ExampleStream of the first n."""
    if not isinstance(key, slice):
      # From the beginning of the file: for the few that a log shows.
      return next(itertools.islice(self, key, None))
    start, stop, step = key.indices(len(self))
    if (start, step) != (0, 1):
      raise ValueError(f"{key}: only the first examples can be taken")
    part = copy.copy(self)
    part._count = stop
    return part


def _report_bad_rows(bad, count, skips):
  """Refuses a file with bad rows, or says that they are skipped."""
  if not bad:
    return
  # A file without a single good row is refused even so.
  if skips and len(bad) < count:
    logging.warning(
      "%s: %d of %d rows are bad and skipped, the first: line %d, %s",
      bad[0].path, len(bad), count, bad[0].line, bad[0].fault,
    )
    return
  if len(bad) == 1:
    raise errors.InputError(str(bad[0]))
  advice = "no row is left" if skips else "fix them, or pass --on_bad_row=skip"
  raise errors.InputError(
    f"{bad[0].path}: {len(bad)} of {count} rows are bad; {advice}:"
    f"{errors.listed(bad)}"
  )


def write_skipped(path: str, rows: list[BadRow]) -> None:
  """Writes a table of bad rows: file, line, what is wrong."""
  lines = ["file\tline\tfault\n"]
  for row in rows:
    lines.append(f"{row.path}\t{row.line}\t{' '.join(row.fault.split())}\n")
  file_io.write_text(path, "".join(lines))
  logging.warning("%d bad rows were skipped; they are in %s", len(rows), path)


def write(path: str, examples: list[Example], columns: Columns) -> None:
  """Writes examples as JSON lines, which the same Columns read again."""
  lines = []
  for example in examples:
    values = example.text_a, example.text_b, example.label, example.guid
    lines.append(json_files.line(
      {name: value for name, value in zip(columns, values) if name}
    ))
  file_io.write_text(path, "".join(lines))


def _open_table(path, columns, options):
  """Returns the tables.Table of a file."""
  file_format = options.file_format
  file_format = file_format or os.path.splitext(path)[1].lstrip(".").lower()
  if file_format not in FORMATS:
    raise errors.InputError(
      f"{path}: neither .csv, .tsv nor .jsonl at the end; name the format: "
      f"{', '.join(FORMATS)}"
    )
  names = [name for name in columns if name]
  if len(set(names)) < len(names):
    raise errors.InputError(
      f"one column is named twice: {', '.join(names)}; texts, label and id "
      "need a column each"
    )
  encoding = options.encoding
  if file_format == JSON_LINES:
    return tables.open_json_lines(path, names, encoding=encoding)
  if file_format == TSV and not options.quoted:
    return tables.open_tsv(path, encoding=encoding)
  # A TSV with quotes is a CSV with tabs.
  delimiter = "\t" if file_format == TSV else options.delimiter
  return tables.open_csv(
    path, delimiter=delimiter, names=names, encoding=encoding
  )


# Values. Each raises InputError, to which the place is added above.


def _text(value, column):
  if column is None:
    return None
  # A cell of a table is always a text; JSON may have anything.
  if not isinstance(value, str):
    raise errors.InputError(
      f"{column!r} is {value!r:.40}, not a text; write it between quotes"
    )
  errors.require_text(value, repr(column))
  return value


def _name(value, column):
  # Ids are often numbers in JSON. True, an int of Python, is none.
  if isinstance(value, int) and not isinstance(value, bool):
    value = str(value)
  if not isinstance(value, str) or not value.strip():
    raise errors.InputError(
      f"{value!r:.40} is no id; every row needs a text or a whole number in "
      f"{column!r}"
    )
  return value


def _label(value, options):
  if options.kind == labelled_examples.REGRESSION:
    return _score(value)
  if options.kind == labelled_examples.MULTI_LABEL:
    label = _classes(value, options.separator)
  else:
    label = _class(value)
  for name in labelled_examples.classes_of(label):
    if options.labels and name not in options.labels:
      said = labelled_examples.unknown_class(name, options.labels)
      raise errors.InputError(f"{said}; fix the row, or name this class too")
  return label


def _class(value):
  """Returns the name of a class; what JSON has for a number is one too."""
  # True is an int in Python; "true" is what the file says.
  if isinstance(value, bool):
    return str(value).lower()
  if isinstance(value, (int, float)):
    return str(value)
  if isinstance(value, str) and value.strip():
    return labelled_examples.checked_name(value.strip())
  raise errors.InputError(
    f"label {value!r:.40} is no class; every row needs the name of one"
  )


def _classes(value, separator):
  if isinstance(value, str):
    if not separator:
      raise errors.InputError(
        f"label {value!r:.40}: what separates the classes in it is not said; "
        "give the separator, or a list in JSON"
      )
    value = [part.strip() for part in value.split(separator)]
    # An empty cell splits into one empty part and means no class.
    value = [] if value == [""] else value
  if not isinstance(value, list):
    raise errors.InputError(
      f"label {value!r:.40} is no list of classes; write [] for none"
    )
  # Each once, in the order of the file.
  return tuple(dict.fromkeys(map(_class, value)))


def _score(value):
  try:
    # float(True) would be 1.0.
    score = math.nan if isinstance(value, bool) else float(value)
  # Overflow: of a whole number of 400 digits.
  except (TypeError, ValueError, OverflowError):
    score = math.nan
  # float() also reads "nan" and "inf".
  if not abs(score) <= _LARGEST_SCORE:
    raise errors.InputError(
      f"label {value!r:.40} is no number that float32 holds; regression needs "
      "one in every row"
    )
  return score


def label_list(examples: list[Example]) -> list[str]:
  """Returns the classes of examples, sorted.

  By size if all of them are finite numbers, else by their characters: the
  order is that of the model's outputs and must not depend on that of the rows.

  Raises:
    InputError: there are fewer than two classes, so nothing to learn;
      or, where several may hold at once, none.
  """
  names = {
    name
    for example in examples
    for name in labelled_examples.classes_of(example.label)
  }
  # Of several at once a single class is learned against its absence.
  needed = 1 if any(isinstance(e.label, tuple) for e in examples) else 2
  if len(names) < needed:
    found = ", ".join(map(repr, names)) or "none"
    raise errors.InputError(
      f"the examples have too few classes ({found}); give data of at least "
      f"{needed}, or name the classes"
    )
  if labelled_examples.are_numbers(names):
    return sorted(names, key=lambda name: (float(name), name))
  return sorted(names)
