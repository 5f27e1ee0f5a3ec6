r"""Reads tables of text, such as TSV, CSV and JSON lines, row by row.

TSV is as in GLUE: tabs and newlines separate cells, and quotes have no meaning.
CSV is as in RFC 4180: a quoted cell may contain separators and newlines. A line
ends at "\n" or "\r\n", or, in a file with neither, at "\r". Other line
separators of Unicode, which occur in real texts, do not end a line.
"""

import codecs
import contextlib
import csv
import io
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from absl import logging

from common import errors, file_io, json_files

# Byte order marks. UTF-32-LE's is first, because it begins with UTF-16-LE's.
_ENCODING_OF_MARK = {
  codecs.BOM_UTF32_LE: "utf-32",
  codecs.BOM_UTF32_BE: "utf-32",
  codecs.BOM_UTF16_LE: "utf-16",
  codecs.BOM_UTF16_BE: "utf-16",
  codecs.BOM_UTF8: "utf-8",
}
# {which of the first bytes are not 0: the encoding}, for files that begin with
# an ASCII character.
_ENCODING_OF_ZEROS = {
  b"\1\0\0\0": "utf-32-le",
  b"\0\0\0\1": "utf-32-be",
  b"\1\0": "utf-16-le",
  b"\0\1": "utf-16-be",
}
# The encoding and the line ends are detected from this many bytes of a file.
_HEAD_BYTES = 1 << 20
# A text may be a whole book, but csv's default limit is 131,072 characters.
_MAX_FIELD_LENGTH = 2**31 - 1
_DELIMITERS = ",;\t|"
# A cell of a TSV in quotes, with doubled quotes inside.
_QUOTED_CELL = re.compile(r'(?:^|(?<=\t))"((?:[^"]|"")*)"(?=[\t\n])')


class Row(NamedTuple):
  """A row: its first line (from 1), and its values, or what is wrong with it.

  Values are strings, or any JSON values.
  """

  line: int
  values: list
  fault: str | None = None


class Table(NamedTuple):
  """The contents of a file; rows are read on demand."""

  path: str
  names: list  # Column names; in a file without a header, column numbers.
  rows: Iterator[Row]  # In the order of the file, including bad rows.

  def require(
    self, names: Iterable[str | None], advice: str = "expected exactly one"
  ) -> None:
    """Raises InputError unless each name (None is skipped) has one column."""
    for name in names:
      count = 1 if name is None else self.names.count(name)
      fault = f"{count} columns are named" if count else "no column"
      if count != 1:
        raise errors.InputError(
          f"{self.path}:1: {fault} {name!r}; the columns are "
          f"{_listed(self.names)}; {advice}"
        )


def open_table(
  path: str,
  file_format: str,
  *,
  names: Sequence[str] = (),
  delimiter: str | None = None,
  encoding: str | None = None,
  joins_cut_rows: bool = False,
  detects_quotes: bool = False,
) -> Table:
  """Opens a file with columns.

  As in the original: quotes in a TSV have no special meaning, and a carriage
  return at the end of a line is removed. Unlike the original: a carriage return
  inside a line stays (see file_io.read_lines), and a row with more or fewer
  cells than the header is an error. The original ignores excess cells, and
  crashes if cells are missing.
  Raises InputError: the file cannot be read, is empty or malformed, or does not
  fit the arguments. Some faults raise it only while the rows are read.

  Args:
    file_format: one of flag_values.TABLE_FORMATS. In a JSON array and in
      Parquet, the "line" of a row is its number, from 1.
    names: the columns to read. Every JSON object must have these keys; other
      keys are ignored, and "a.b" means key b of the object at key a. If all
      names are numbers, they are column positions from 1 in a CSV or TSV
      without a header, unless line 1 is a header 0, 1, ... or 1, 2, ...
    delimiter: column separator of a CSV; None: guess it.
    encoding: the file's encoding; None: detect it.
    joins_cut_rows: whether to join TSV rows that newlines have cut; the whole
      file is then in memory.
    detects_quotes: whether to read a TSV as a CSV with tabs if it was written
      so, as by pandas; see `_is_quoted`.
  """
  if file_format == "parquet":
    return Table(path, list(names), _parquet_rows(path, names))
  if file_format in ("csv", "tsv"):
    lines = _lines(path, encoding)
    if file_format == "tsv" and detects_quotes and _is_quoted(path, encoding):
      logging.info("%s: quotes in its cells are read as in a CSV", path)
      rows: Iterator = _csv_rows(path, lines, "\t", names)
    elif file_format == "tsv":
      rows = ((number, line.split("\t")) for number, line in lines)
      if joins_cut_rows:
        first, *others = rows
        rows = itertools.chain([first], _joined(others, len(first[1])))
    else:
      rows = _csv_rows(path, lines, delimiter, names)
    return _checked(path, rows, encoding, names)
  return _lines_table(path, file_format, names, encoding)


def _lines_table(
  path: str, file_format: str, names: Sequence[str], encoding: str | None
) -> Table:
  """Returns the Table of a JSON array, or of a file with one row per line."""
  if file_format == "json" and _has_json_lines(path):
    logging.info("%s: has a JSON object per line, read as jsonl", path)
    file_format = "jsonl"
  if file_format == "json":
    if encoding:
      raise errors.InputError(
        f"{path}: --encoding={encoding} has no effect on JSON arrays, whose "
        "encoding is detected; leave it out"
      )
    try:
      values = enumerate(json_files.read(path, list), 1)
    except errors.InputError as error:
      raise errors.InputError(
        f"{error}; write an array of objects, or, for one object per line, "
        "pass --file_format=jsonl"
      ) from error
    return Table(
      path,
      list(names),
      (Row(number, *_values(value, names)) for number, value in values),
    )
  max_columns = {"text": 1, "fasttext": 2}.get(file_format, len(names))
  if len(names) > max_columns:
    raise errors.InputError(
      f"{path}: --file_format={file_format} has only {max_columns} of the "
      f"columns {_listed(names)}; for more pass --file_format=tsv or csv"
    )

  def row(number: int, line: str) -> Row:
    if fault := _undecodable(line, encoding):
      return Row(number, [], fault)
    if file_format == "text":
      return Row(number, [line])
    if file_format == "fasttext":
      labels = re.findall(r"(?:^|(?<=\s))__label__(\S+)", line)
      text = re.sub(r"(^|\s+)__label__\S+", "", line).strip()
      return Row(number, [text, labels][: len(names)])
    return Row(number, *_json_row(line, names))

  lines = _lines(path, encoding)
  return Table(path, list(names), (row(*numbered) for numbered in lines))


def _has_json_lines(path: str) -> bool:
  """Returns whether the first line of a .json file is a whole object."""
  with file_io.open_for_reading(path) as stream:
    head = stream.read(_HEAD_BYTES)
  text = head.decode(_encoding_of(path, head, None), "replace").lstrip("\ufeff")
  try:
    return isinstance(json.loads(text.lstrip().split("\n")[0]), dict)
  except (ValueError, RecursionError):
    return False


def _is_quoted(path: str, encoding: str | None) -> bool:
  """Returns whether a TSV has quoted cells, as a CSV has.

  Then every cell that begins with a quote is a valid cell of a CSV, all rows
  have the same number of cells, and a cell has a doubled quote, a tab or a
  newline. A text that only begins and ends with a quote keeps its quotes.
  """
  raw: list[str] = []  # The lines of the current row.

  def source() -> Iterator[str]:
    for _, line in _lines(path, encoding):
      raw.append(f"{line}\n")
      yield raw[-1]

  is_found, width = False, 0
  try:
    with _long_fields():
      for row in csv.reader(source(), delimiter="\t", strict=True):
        width = width or len(row)
        if len(row) != width:
          return False
        quoted = _QUOTED_CELL.findall("".join(raw))
        is_found = is_found or any(re.search('""|[\t\n]', c) for c in quoted)
        raw.clear()
  except csv.Error:
    return False
  return is_found


def _csv_rows(
  path: str,
  lines: Iterator[tuple[int, str]],
  delimiter: str | None,
  names: Sequence[str],
) -> Iterator[tuple[int, Any]]:
  """Yields (line number, list of cells) or (line number, fault) per CSV row."""
  first = next(lines)
  if named := re.fullmatch('"?sep=(.)"?', first[1]):  # A line for Excel.
    delimiter = delimiter or named[1]
    first = next(lines, first)
  lines = itertools.chain([first], lines)
  if delimiter is None:
    with errors.placed(f"{path}:{first[0]}"):
      delimiter = guess_delimiter(first[1], names)
    if delimiter in _DELIMITERS[1:]:
      logging.info("%s: columns are separated by %r", path, delimiter)
  # csv needs the newlines, because a quoted text may contain some.
  source = (f"{line}\n" for _, line in lines)
  reader = csv.reader(source, delimiter=delimiter, strict=True)
  while True:
    start = first[0] + reader.line_num
    try:
      with _long_fields():
        # csv returns [] for an empty line, which is one empty cell.
        row: list[str] | str = next(reader) or [""]
    except csv.Error as error:
      row = (
        f"not CSV: {error}; quote a text that contains quotes, separators or "
        "newlines, and double the quotes in it"
      )
      # Stop: an unclosed quote takes in all further rows, or the header is bad.
      if "unexpected end" in str(error) or start == first[0]:
        raise errors.InputError(f"{path}:{start}: {row}") from error
    except StopIteration:
      return
    yield start, row


@contextlib.contextmanager
def _long_fields() -> Iterator[None]:
  """Lifts csv's global limit on the length of cells, within a `with` block."""
  limit = csv.field_size_limit(_MAX_FIELD_LENGTH)
  try:
    yield
  finally:
    csv.field_size_limit(limit)


def _are_numbers(names: Sequence[str]) -> bool:
  """Returns whether there are column names and all of them are numbers."""
  return bool(names) and all(map(str.isdecimal, names))


def guess_delimiter(header: str, names: Sequence[str]) -> str:
  """Guesses the column separator of a CSV from its first line.

  It tries ",", ";", tab and "|", and returns the one that gives columns with
  all `names`, or else the most columns. Raises InputError: the line is not CSV,
  or the names are numbers, and several separators give enough columns.
  """
  # Only the header counts, because texts in other lines may contain separators.
  try:
    with _long_fields():
      columns = {
        delimiter: next(csv.reader([header], delimiter=delimiter), [])
        for delimiter in _DELIMITERS
      }
  except csv.Error as error:  # A carriage return within the line.
    raise errors.InputError(f"not CSV: {error}") from error
  if _are_numbers(names):
    minimum = max(map(int, names))
    fitting = [d for d, cells in columns.items() if len(cells) >= minimum > 1]
    if len(fitting) > 1:
      raise errors.InputError(
        f"the columns may be separated by {' or '.join(map(repr, fitting))}; "
        "pass --separator"
      )
  # If there is only one column, return a character that no text contains.
  if max(map(len, columns.values())) < 2:
    return "\x1f"
  return max(
    columns,
    key=lambda delimiter: (
      bool(names) and set(names) <= set(columns[delimiter]),
      len(columns[delimiter]),
    ),
  )


def _parquet_rows(path: str, names: Sequence[str]) -> Iterator[Row]:
  try:
    import pyarrow
    from pyarrow import parquet
  except ImportError as error:
    raise errors.InputError(
      f"{path}: Parquet needs pyarrow; run pip install pyarrow, or save the "
      "table as .csv or .jsonl"
    ) from error
  number = 0
  try:
    with file_io.open_for_reading(path) as stream:
      file = parquet.ParquetFile(stream)
      columns = file.schema_arrow.names
      outer_names = [n if n in columns else n.partition(".")[0] for n in names]
      Table(path, columns, iter(())).require(outer_names)
      for batch in file.iter_batches(columns=outer_names):
        for row in batch.to_pylist():
          number += 1
          yield Row(number, *_values(row, names))
  except errors.InputError:
    raise
  # A name that is not UTF-8 and a date after the year 9999 are ValueErrors.
  except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
    reason = " ".join(str(error).split("\n")[:1]) or type(error).__name__
    raise errors.InputError(
      f"{path} is not Parquet or cannot be read: {reason}"
    ) from error
  if not number:
    raise errors.InputError(f"{path}: no rows")


def _json_row(line: str, names: Sequence[str]) -> tuple[list, str | None]:
  """Returns (values, None), or ([], fault) for an invalid line."""
  try:
    return _values(json.loads(line), names)
  # Deeply nested arrays raise RecursionError.
  except (ValueError, RecursionError) as error:
    return [], f"not JSON ({error}); every line must be one JSON object"


def _values(row: Any, names: Sequence[str]) -> tuple[list, str | None]:
  """Returns (an object's values for `names`, None), or ([], fault)."""
  if not isinstance(row, dict):
    return [], f"expected an object in JSON, got {json.dumps(row):.40}"
  values = []
  for name in names:
    value, keys = row, [name] if name in row else name.split(".")
    for key in keys:
      if not isinstance(value, dict) or key not in value:
        return [], (
          f"no {name!r} among the keys [{_listed(row)}]; add it, or pass "
          "another column name"
        )
      value = value[key]
    values.append(value)
  return values, None


def check_encoding(name: str) -> None:
  """Raises InputError if Python has no text encoding with this name."""
  try:
    io.TextIOWrapper(io.BytesIO(), name)
  except (LookupError, ValueError) as error:
    raise errors.InputError(
      f"--encoding={name}: {error}; pass one of Python's encodings, such as "
      "utf-8, latin-1, cp1252 or utf-16"
    ) from error


def _byte_as_surrogate(error: Any) -> tuple[str, int]:
  """Decodes an invalid byte to a lone surrogate, which `_undecodable` finds.

  Python's "surrogateescape" fails for bytes below 0x80, which occur in UTF-16.
  """
  return chr(0xDC00 + error.object[error.start]), error.end


codecs.register_error("not_a_character", _byte_as_surrogate)


def _lines(path: str, encoding: str | None) -> Iterator[tuple[int, str]]:
  """Yields (line number from 1, line) up to the last line that is not empty."""
  pending, number = [], 0
  with file_io.open_for_reading(path) as stream:
    if not stream.seekable():
      raise errors.InputError(
        f"{path} cannot be read twice, which is necessary; save it as a file"
      )
    head = stream.read(_HEAD_BYTES)
    file_io.refuse_packed(path, head)
    stream.seek(0)
    encoding = _encoding_of(path, head, encoding)
    text = io.TextIOWrapper(
      stream, encoding, "not_a_character", _line_end(head, encoding)
    )
    for number, line in enumerate(text, 1):
      # A byte order mark is not part of the first column's name.
      if number == 1:
        line = line.removeprefix("\ufeff")
      line = line.removesuffix("\n").removesuffix("\r")
      pending.append((number, line))
      # Hold back empty lines, because at the end of the file they are not rows.
      if line:
        yield from pending
        pending.clear()
  if len(pending) == number:
    raise errors.InputError(f"{path}: the file is empty")


def _encoding_of(path: str, head: bytes, flag: str | None) -> str:
  # A byte order mark overrides the flag, which may be meant for other files.
  for mark, encoding in _ENCODING_OF_MARK.items():
    if head.startswith(mark):
      return encoding
  needs_mark = flag and codecs.lookup(flag).name in ("utf-16", "utf-32")
  if flag and not needs_mark:
    return flag
  for zeros, encoding in _ENCODING_OF_ZEROS.items():
    if bytes(byte > 0 for byte in head[: len(zeros)]) == zeros:
      return encoding
  if needs_mark:
    raise errors.InputError(
      f"{path}: --encoding={flag}, but the file has no byte order mark; pass "
      f"{flag}-le or {flag}-be, or leave the flag out for UTF-8"
    )
  return "utf-8"


def _line_end(head: bytes, encoding: str) -> str:
  text = head.decode(encoding, "ignore")
  return "\r" if "\r" in text and "\n" not in text else "\n"


def _undecodable(text: str, encoding: str | None) -> str | None:
  """Returns the error message for a text with invalid bytes, else None."""
  is_latin = encoding and codecs.lookup(encoding).name == "iso8859-1"
  # In cp1252, these Latin-1 control characters are quotes, the euro sign, etc.
  pattern = "[\x80-\x9f]" if is_latin else "[\ud800-\udfff]"
  match = re.search(pattern, text)
  if not match:
    return None
  byte = ord(match[0]) % 0x100
  advice = "cp1252" if 0x80 <= byte < 0xA0 else "latin-1"
  # cp1252 itself has no characters for five of these bytes.
  is_tried = encoding and codecs.lookup(encoding).name == advice
  advice = "" if is_tried else f", such as {advice},"
  return (
    f"not {(encoding or 'utf-8').upper()}: the byte 0x{byte:02x} after "
    f"{text[: match.start()][-20:]!r}; pass another --encoding{advice} or save "
    "the file as UTF-8"
  )


def _checked(
  path: str, rows: Iterator, encoding: str | None, columns: Sequence[str]
) -> Table:
  """Returns a Table of rows; its column names are the first row, or numbers."""
  line, names = next(rows)
  if fault := _undecodable("\t".join(names), encoding):
    raise errors.InputError(f"{path}:{line}: {fault}")
  # pandas writes the header 0, 1, ... for a data frame without column names.
  counts = [[*map(str, range(n, n + len(names)))] for n in (0, 1)]
  has_header = not _are_numbers(columns) or names in counts
  if not has_header:
    logging.info("%s: columns are numbered, and line 1 is not a header", path)
    rows = itertools.chain([(line, names)], rows)
    names = counts[1]

  def checked() -> Iterator[Row]:
    line = None
    for line, row in rows:
      if isinstance(row, str):  # This is the fault of the row.
        yield Row(line, [], row)
        continue
      fault = _undecodable("\t".join(row), encoding)
      if len(row) != len(names):
        fault = _ragged(row, names, has_header)
      yield Row(line, [] if fault else row, fault)
    if line is None:
      raise errors.InputError(f"{path}: no rows, only a header")

  return Table(path, names, checked())


def _joined(rows: list, width: int) -> Iterator[tuple[int, list[str]]]:
  """Yields (line, cells), and joins rows that newlines have cut."""
  start = 0
  while start < len(rows):
    (line, row), end = rows[start], start + 1
    # Subtract 1, because both lines have a part of the cut cell.
    while (
      len(row) < width
      and end < len(rows)
      and len(row) + len(rows[end][1]) - 1 <= width
    ):
      first, *others = rows[end][1]
      row = [*row[:-1], f"{row[-1]}\n{first}", *others]
      end += 1
    # If the following lines do not complete the row, it stays broken.
    if len(row) != width:
      row, end = rows[start][1], start + 1
    yield line, row
    start = end


def _ragged(row: list[str], names: list[str], has_header: bool) -> str:
  if row == [""]:
    return "an empty line; remove it"
  source = "are in the header" if has_header else "are expected"
  return (
    f"{len(row)} column{'s' * (len(row) != 1)}, but {len(names)} {source}; "
    "fix the row: a text may contain the separator only in a CSV, inside quotes"
  )


def _listed(names: Iterable) -> str:
  return ", ".join(map(repr, names))
