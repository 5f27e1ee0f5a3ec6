"""TSV, CSV and JSON: every row is read, or its line is reported."""

import csv
import functools
import gzip
import os
import re
import threading
from typing import NamedTuple

import pytest

from classification import tables
from common import errors
from message_facts import says


class Read(NamedTuple):
  names: list
  rows: list
  lines: list
  faults: list


def read(table):
  rows = list(table.rows)
  good = [row for row in rows if row.fault is None]
  return Read(
    table.names,
    [row.values for row in good],
    [row.line for row in good],
    [(row.line, row.fault) for row in rows if row.fault],
  )


def write(tmp_path, text, encoding="utf-8"):
  path = tmp_path / "table"
  path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
  return str(path)


def read_as(file_format, tmp_path, text, **options):
  path = write(tmp_path, text)
  return read(tables.open_table(path, file_format, **options))


read_tsv = functools.partial(read_as, "tsv")
read_csv = functools.partial(read_as, "csv")


@pytest.mark.parametrize(
  "text, options, expected",
  [
    (
      "id\ttext\n7\tOne.\n8\tTwo.\n",
      {},
      (["id", "text"], [["7", "One."], ["8", "Two."]], [2, 3]),
    ),
    # A row may equal the header.
    ("id\ttext\nid\ttext\n", {}, (["id", "text"], [["id", "text"]], [2])),
    ("7\tOne.", {"names": ["2"]}, (["1", "2"], [["7", "One."]], [1])),
    # A carriage return ends a line only before a line feed.
    (
      "id\ttext\r\n1\ttop\rdown\r\n",
      {},
      (["id", "text"], [["1", "top\rdown"]], [2]),
    ),
    # A byte-order mark is not part of the first name.
    (
      "\ufeffQuality\ttext\r\n1\tOne.\r\n\r\n",
      {},
      (["Quality", "text"], [["1", "One."]], [2]),
    ),
  ],
)
def test_columns_are_separated_by_tabs(tmp_path, text, options, expected):
  assert read_tsv(tmp_path, text, **options)[:3] == expected


def test_tsv_rows_are_those_of_the_csv_module_without_quotes(tmp_path):
  text = (
    'a\tb\n"open\tnever closed\n"" \t"x"y\r\n'
    "nel\x85here\tls\u2028and\x0bvt\x0cff\x1cfs\n\t\n' \t\u00a0\n"
  )
  table = read_tsv(tmp_path, text)
  with open(tmp_path / "table", newline="\n", encoding="utf-8") as stream:
    expected = list(
      csv.reader(stream, delimiter="\t", quotechar=None, quoting=csv.QUOTE_NONE)
    )
  assert [table.names, *table.rows] == expected
  assert len(table.rows) == 5


@pytest.mark.parametrize(
  "row, message",
  [
    ("1", "1 column, but 2 are in the header"),
    ("1\ttwo\t3", "3 columns, but 2 are in the header"),
    ("", "an empty line"),
    ("1\tcaf\udce9", "not UTF-8: the byte 0xe9 after"),
  ],
)
def test_a_bad_row_is_named(tmp_path, row, message):
  text = f"a\tb\n0\tone\n{row}\n2\ttwo\n".encode("utf-8", "surrogateescape")
  table = read_tsv(tmp_path, text)
  assert table.lines == [2, 4]
  ((line, fault),) = table.faults
  assert line == 3 and fault.startswith(message)


def test_rows_cut_by_a_newline_are_joined_on_request(tmp_path):
  text = 'a\tb\tc\n1\t"cut\n"\tx\n2\t"twice\n\nso\ty\n3\twhole\tz\n4\tlost\n'
  table = read_tsv(tmp_path, text, joins_cut_rows=True)
  assert table.rows == [
    ["1", '"cut\n"', "x"],
    ["2", '"twice\n\nso', "y"],
    ["3", "whole", "z"],
  ]
  assert table.lines == [2, 4, 7]
  ((line, fault),) = table.faults
  assert line == 8 and fault.startswith("2 columns, but 3")


def test_lines_that_do_not_fit_together_are_not_joined(tmp_path):
  text = "a\tb\tc\n1\tx\n2\ty\tz\n3\n"
  table = read_tsv(tmp_path, text, joins_cut_rows=True)
  assert table.rows == [["2", "y", "z"]]
  assert [line for line, _ in table.faults] == [2, 4]


@pytest.mark.parametrize(
  "text, fault",
  [
    (b"", "the file is empty"),
    (b"a\tb\n", "no rows, only a header"),
    (b"a\tcaf\xe9\n1\tone\n", says(":1", "UTF-8", "not", "byte")),
    (None, "no such file: .*table"),
  ],
)
@pytest.mark.parametrize("file_format", ["tsv", "csv"])
def test_a_file_without_a_table_is_refused(tmp_path, file_format, text, fault):
  if text is not None:
    write(tmp_path, text)
  with pytest.raises(errors.InputError, match=fault):
    read(tables.open_table(str(tmp_path / "table"), file_format))


@pytest.mark.parametrize(
  "encoding",
  (
    "utf-8 utf-8-sig utf-16 utf-16-le utf-16-be utf-32 utf-32-le utf-32-be"
  ).split(),
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_encoding_and_line_ends_are_detected(tmp_path, encoding, end):
  lines = ["text,label", "Zürich 雪,a", "\U0001f600,b", ""]
  path = write(tmp_path, end.join(lines), encoding)
  # A byte-order mark overrides the encoding that is passed.
  has_mark = encoding in ("utf-8-sig", "utf-16", "utf-32")
  for passed in [None, "latin-1"][: 1 + has_mark]:
    assert read(tables.open_table(path, "csv", encoding=passed)) == Read(
      ["text", "label"], [["Zürich 雪", "a"], ["\U0001f600", "b"]], [2, 3], []
    )


def test_the_encoding_may_be_passed(tmp_path):
  text = "text\nZürich €\n".encode("cp1252")
  table = read_tsv(tmp_path, text, encoding="cp1252")
  assert table.rows == [["Zürich €"]]
  table = read_tsv(tmp_path, b"text\ncaf\xe9\n", encoding="latin-1")
  assert table.rows == [["caf\xe9"]]
  # cp1252 has no character for this byte.
  table = read_tsv(tmp_path, b"text\na\nb\x81\n", encoding="cp1252")
  assert table.faults[0][1].startswith("not CP1252: the byte 0x81 after 'b'")


@pytest.mark.parametrize("name", ["none", "rot13", "utf-8\0"])
def test_an_unknown_encoding_is_refused(name):
  tables.check_encoding("latin-1")
  with pytest.raises(errors.InputError, match="such as utf-8, latin-1"):
    tables.check_encoding(name)


def test_a_csv_record_may_span_lines(tmp_path):
  table = read_csv(
    tmp_path, 'text,label\r\n"Say ""no"",\nplease.",b\r\nPlain.,a\r\n\r\n'
  )
  assert table.rows == [['Say "no",\nplease.', "b"], ["Plain.", "a"]]
  assert table.lines == [2, 4]


def test_a_csv_field_may_exceed_the_limit_of_the_csv_module(tmp_path):
  limit = csv.field_size_limit()
  text = f"text;label\n{'long ' * 50_000};b\n"
  table = read_csv(tmp_path, text, delimiter=";")
  assert len(table.rows[0][0]) == 250_000
  assert csv.field_size_limit() == limit


def test_a_quote_that_is_never_closed_is_named_by_its_line(tmp_path):
  with pytest.raises(errors.InputError, match=":4: not CSV"):
    read_csv(tmp_path, 'text,label\n"two\nlines",a\n"never\nclosed,b\n')


def test_a_stray_quote_makes_one_bad_row(tmp_path):
  table = read_csv(
    tmp_path, 'text,label\n"two\nlines",a\n"closed"too early,b\nc,d\n'
  )
  assert table.rows == [["two\nlines", "a"], ["c", "d"]]
  ((line, fault),) = table.faults
  assert line == 4 and fault.startswith("not CSV: ")
  with pytest.raises(errors.InputError, match=":1: not CSV"):
    read_csv(tmp_path, '"text"s,label\na,b\n')


def test_a_carriage_return_in_a_header_is_named(tmp_path):
  with pytest.raises(errors.InputError, match=says(":1", "CSV", "not")):
    read_csv(tmp_path, "te\rxt,label\na,b\n")


@pytest.mark.parametrize("first", ["sep=;", '"sep=;"'])
def test_the_separator_line_of_excel_is_no_header(tmp_path, first):
  table = read_csv(tmp_path, f"{first}\ntext;label\na, b;c\n")
  assert (table.names, table.rows) == (["text", "label"], [["a, b", "c"]])
  assert table.lines == [3]


def test_a_first_field_may_be_long(tmp_path):
  table = read_csv(tmp_path, f"{'x' * 200_000},label\na,b\n")
  assert table.rows == [["a", "b"]] and len(table.names) == 2


def test_an_array_of_json_has_numbered_rows(tmp_path):
  text = '[\n {"a": "x", "b": 1},\n {"a": "y"}]'
  table = read_as("json", tmp_path, text, names=("a", "b"))
  assert table.rows == [["x", 1]] and table.lines == [1]
  assert table.faults == [
    (2, "no 'b' among the keys ['a']; add it, or pass another column name")
  ]


def test_each_line_of_a_text_file_is_a_text(tmp_path):
  table = read_as("text", tmp_path, 'a\t"b\n\nc, d\n', names=("review",))
  assert table.names == ["review"]
  assert table.rows == [['a\t"b'], [""], ["c, d"]]


@pytest.mark.parametrize(
  "file_format, count, is_refused",
  [
    ("text", 1, False),
    ("text", 2, True),
    ("fasttext", 1, False),
    ("fasttext", 2, False),
    ("fasttext", 3, True),
    ("jsonl", 3, False),
  ],
)
def test_a_format_has_only_its_columns(
  tmp_path, file_format, count, is_refused
):
  line = (
    '{"a": 1, "b": 2, "c": 3}' if file_format == "jsonl" else "__label__x y"
  )
  names = [*"abc"][:count]
  if not is_refused:
    (row,) = read_as(file_format, tmp_path, line, names=names).rows
    assert len(row) == count
    return
  with pytest.raises(errors.InputError) as refused:
    read_as(file_format, tmp_path, line, names=names)
  for fact in (file_format, f"only {count - 1} of", "'a', 'b'"):
    assert fact in str(refused.value)


@pytest.mark.parametrize(
  "line, message",
  [
    (b"{'a': 1}", "not JSON"),
    (b"[1]", "expected an object in JSON, got [1]"),
    (b'{"b": 1}', "no 'a' among the keys ['b']"),
    (b'{"a": "\xe9"}', "not UTF-8: the byte 0xe9"),
    (b"[" * 100_000, "not JSON"),
  ],
)
def test_a_line_without_the_expected_object_is_named(tmp_path, line, message):
  text = b'{"a": 1}\n' + line + b'\n{"a": 2}'
  table = read_as("jsonl", tmp_path, text, names=["a"])
  assert (table.rows, table.lines) == ([[1], [2]], [1, 3])
  ((number, fault),) = table.faults
  assert number == 2 and fault.startswith(message)


@pytest.mark.parametrize(
  "header, expected",
  [
    ("text,label", ","),
    ("text;label", ";"),
    ("text\tlabel", "\t"),
    ('"text"|"label"', "|"),
    ("label;note;text", ";"),
    ("txt;label", ";"),
    ("text,label;x", ","),
    ("review", "\x1f"),
  ],
)
def test_the_separator_is_inferred_from_the_header(header, expected):
  assert tables.guess_delimiter(header, ["text", "label"]) == expected


def test_an_ambiguous_separator_must_be_passed(tmp_path):
  names = ("1", "2")
  with pytest.raises(errors.InputError, match=":1: .* ',' or ';'; pass --sepa"):
    read_csv(tmp_path, "Well, it;good\n", delimiter=None, names=names)
  table = read_csv(tmp_path, "Well, it;good\n", delimiter=";", names=names)
  assert table.rows == [["Well, it", "good"]]


def test_files_of_another_format_are_reported(tmp_path):
  packed = gzip.compress(b"text,label\n")
  with pytest.raises(
    errors.InputError, match=r"compressed \(gzip\); decompress"
  ):
    read_csv(tmp_path, packed)
  with pytest.raises(errors.InputError, match="like Excel's .xlsx"):
    read_tsv(tmp_path, b"PK\3\4\x14\0")
  with pytest.raises(errors.InputError, match=says("JSON", "not")):
    read_as("json", tmp_path, '{"text": "a"\n{"text": "b"}\n')


def test_a_pipe_is_refused(tmp_path):
  os.mkfifo(tmp_path / "pipe")
  writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=["a\n"])
  writer.start()
  with pytest.raises(errors.InputError, match="cannot be read twice"):
    read(tables.open_table(str(tmp_path / "pipe"), "tsv"))
  writer.join()


def test_texts_of_a_single_column_may_hold_any_separator(tmp_path):
  text = 'text\nWell, it; works\n"Say ""no"", \nplease"\n'
  table = read_csv(tmp_path, text, delimiter=None, names=("text",))
  assert table.rows == [["Well, it; works"], ['Say "no", \nplease']]


@pytest.mark.parametrize(
  "text, encoding, message",
  [
    (b"text\nsaid \x93so\x94\n", None, "0x93 after 'said '; .* as cp1252"),
    (b"text\ncaf\xe9\n", None, "such as latin-1"),
    (b"text\nx\x81\n", "cp1252", "0x81 after 'x'; pass another --enc.* or sav"),
    (b"text\nsaid \x93so\x94\n", "latin-1", "not LATIN-1: .* 0x93 .* cp1252"),
    (
      b"text\nprice \x80 5\n",
      "iso8859-1",
      "byte 0x80 after 'price '; .* cp1252",
    ),
  ],
)
def test_the_encoding_that_fits_is_named(tmp_path, text, encoding, message):
  ((_, fault),) = read_tsv(tmp_path, text, encoding=encoding).faults
  assert re.search(message, fault)


@pytest.mark.parametrize("order", ["le", "be"])
def test_utf_16_without_a_mark(tmp_path, order):
  path = write(tmp_path, "text\nso\n", f"utf-16-{order}")
  assert read(tables.open_table(path, "tsv", encoding="utf-16")).rows
  path = write(tmp_path, "\u6771\n\u4eac\n", f"utf-16-{order}")
  with pytest.raises(errors.InputError, match=says("utf-16-le", "utf-16-be")):
    tables.open_table(path, "tsv", encoding="utf-16")


def test_an_encoding_of_a_json_array_is_refused(tmp_path):
  with pytest.raises(errors.InputError, match=says("JSON", "has no effect")):
    read_as("json", tmp_path, "[]", encoding="utf-16")


QUOTED = [
  # pandas doubles quotes, and quotes cells with tabs.
  ('text\tlabel\n"He said ""no""."\tbad\nfine\tgood\n', 'He said "no".'),
  ('text\tlabel\n"a\tb"\tbad\nfine\tgood\n', "a\tb"),
  ('text\tlabel\n"a\nb"\tbad\nfine\tgood\n', "a\nb"),
  # These quotes may be the text's.
  ('text\tlabel\n"Hello"\tbad\nfine\tgood\n', '"Hello"'),
  ('text\tlabel\n"Hello"" he said\tbad\nfine\tgood\n', '"Hello"" he said'),
  ('text\tlabel\n"a ""b"""\tbad\n"Hi" he said\tbad\n', '"a ""b"""'),
  ('text\tlabel\nHe said ""no"".\tbad\nfine\tgood\n', 'He said ""no"".'),
]


@pytest.mark.parametrize("text, first", QUOTED)
def test_quotes_of_a_tsv_count_if_all_of_them_are_a_csvs(
  tmp_path, text, first, caplog
):
  path = write(tmp_path, text)
  options = {"names": ("text", "label"), "detects_quotes": True}
  with caplog.at_level("INFO", logger="absl"):
    table = tables.open_table(path, "tsv", **options)
    rows = list(table.rows)
  assert rows[0].values == [first, "bad"] and len(rows) == 2
  is_quoted = not text.split("\n", 1)[1].startswith(f"{first}\t")
  assert ("read as in a CSV" in caplog.text) == is_quoted


@pytest.mark.parametrize(
  "text, is_lines",
  [
    ('{"text": "a"}\n{"text": "b"}\n', True),
    ('\n{"text": "a"}\n{"text": "b"}\n', True),
    ('[{"text": "a"}, {"text": "b"}]', False),
    ('[\n{"text": "a"},\n{"text": "b"}]\n', False),
  ],
)
def test_json_lines_are_recognized_by_content(tmp_path, text, is_lines, caplog):
  path = write(tmp_path, text)
  with caplog.at_level("INFO", logger="absl"):
    rows = tables.open_table(path, "json", names=("text",)).rows
    values = [row.values for row in rows if not row.fault]
  assert values == [["a"], ["b"]]
  assert ("read as jsonl" in caplog.text) == is_lines


def test_a_dot_in_a_name_leads_into_an_object_unless_a_key_has_it(tmp_path):
  text = '{"a.b": 1, "a": {"b": 2}, "c": {"d": 3}}'
  table = read_as("jsonl", tmp_path, text, names=["a.b", "c.d"])
  assert table.rows == [[1, 3]]
