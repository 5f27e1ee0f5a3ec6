"""Tests of TSV, CSV and JSON lines: every row comes, or its line is named."""

import csv

import pytest

from classification import tables
from common import errors


def write(tmp_path, text):
  path = tmp_path / "table"
  path.write_bytes(text.encode("utf-8"))
  return str(path)


def read_tsv(tmp_path, text, **options):
  return tables.read_tsv(write(tmp_path, text), **options)


def read_csv(tmp_path, text, **options):
  return tables.read_csv(write(tmp_path, text), **options)


def read_json(tmp_path, text, names):
  return tables.read_json_lines(write(tmp_path, text), names)


# Tabs.


def test_a_carriage_return_inside_a_line_stays(tmp_path):
  """Only before the line feed is it part of the line's end."""
  table = read_tsv(tmp_path, "id\ttext\r\n1\ttop\rdown\r\n")
  assert table.rows == [["1", "top\rdown"]]


def test_a_header_names_the_columns_of_a_tsv(tmp_path):
  table = read_tsv(tmp_path, "id\ttext\n7\tOne.\n8\tTwo.\n")
  assert table.names == ["id", "text"]
  assert table.rows == [["7", "One."], ["8", "Two."]]
  assert table.lines == [2, 3]


def test_a_tsv_may_have_no_header(tmp_path):
  table = read_tsv(tmp_path, "7\tOne.", width=2)
  assert table.names == [0, 1]
  assert table.rows == [["7", "One."]]
  assert table.lines == [1]


def test_tsv_rows_are_those_of_the_csv_module_without_quotes(tmp_path):
  text = (
    'a\tb\n"open\tnever closed\n"" \t"x"y\r\n'
    "nel\x85here\tls\u2028and\x0bvt\x0cff\x1cfs\n\t\n' \t\u00a0\n"
  )
  path = write(tmp_path, text)
  with open(path, newline="\n", encoding="utf-8") as stream:
    expected = list(
      csv.reader(stream, delimiter="\t", quotechar=None, quoting=csv.QUOTE_NONE)
    )
  table = tables.read_tsv(path)
  assert [table.names, *table.rows] == expected
  assert len(table.rows) == 5


def test_a_byte_order_mark_is_not_part_of_the_first_name(tmp_path):
  table = read_tsv(tmp_path, "\ufeffQuality\ttext\r\n1\tOne.\r\n\r\n")
  assert table.names == ["Quality", "text"]
  assert table.rows == [["1", "One."]]


@pytest.mark.parametrize(
  "row, said",
  [
    ("1", ":3: 1 column, but 2 are in the header"),
    ("1\ttwo\t3", ":3: 3 columns, but 2 are in the header"),
    ("", ":3: an empty line"),
  ],
)
def test_a_ragged_row_is_refused(tmp_path, row, said):
  with pytest.raises(errors.InputError, match=said):
    read_tsv(tmp_path, f"a\tb\n0\tone\n{row}\n2\ttwo\n")


def test_rows_cut_by_a_newline_are_joined_where_such_are_known(tmp_path):
  text = 'a\tb\tc\n1\t"cut\n"\tx\n2\t"twice\n\nso\ty\n3\twhole\tz\n4\tlost\n'
  broken = []
  table = read_tsv(tmp_path, text, broken=broken)
  assert table.rows == [
    ["1", '"cut\n"', "x"], ["2", '"twice\n\nso', "y"], ["3", "whole", "z"]
  ]
  assert table.lines == [2, 4, 7]
  ((line, said),) = broken
  assert line == 8 and said.startswith("2 columns, but 3")


def test_what_does_not_fit_together_is_not_joined(tmp_path):
  broken = []
  table = read_tsv(tmp_path, "a\tb\tc\n1\tx\n2\ty\tz\n3\n", broken=broken)
  assert table.rows == [["2", "y", "z"]]
  assert [line for line, _ in broken] == [2, 4]


@pytest.mark.parametrize(
  "text, said",
  [("", "the file is empty"), ("a\tb\n", "no rows, only a header")],
)
def test_a_table_without_rows_is_refused(tmp_path, text, said):
  with pytest.raises(errors.InputError, match=said):
    read_tsv(tmp_path, text)


def test_bytes_that_are_not_utf8_are_named(tmp_path):
  path = tmp_path / "table"
  path.write_bytes(b"a\tb\n1\tone\n2\tcaf\xe9\n")
  said = r":3: not UTF-8 \(byte 5 .* 0xe9"
  with pytest.raises(errors.InputError, match=said):
    tables.read_tsv(str(path))


def test_a_missing_file_is_named(tmp_path):
  with pytest.raises(errors.InputError, match="no such file: .*gone.tsv"):
    tables.read_tsv(str(tmp_path / "gone.tsv"))


# Quotes.


def test_a_csv_record_may_span_lines(tmp_path):
  table = read_csv(
    tmp_path, 'text,label\r\n"Say ""no"",\nplease.",b\r\nPlain.,a\r\n\r\n'
  )
  assert table.rows == [['Say "no",\nplease.', "b"], ["Plain.", "a"]]
  assert table.lines == [2, 4]


def test_a_csv_field_may_be_longer_than_the_csv_module_likes(tmp_path):
  limit = csv.field_size_limit()
  text = f"text;label\n{'long ' * 50_000};b\n"
  table = read_csv(tmp_path, text, delimiter=";")
  assert len(table.rows[0][0]) == 250_000
  assert csv.field_size_limit() == limit


@pytest.mark.parametrize(
  "record, said",
  [
    ('"never\nclosed,b\n', ":4: not CSV"),
    ('"closed"too early,b\n', ":4: not CSV"),
    ('"three\nlines\nhere"\n', ":4: 1 column, but 2 are in the header"),
    ("\nx,y\n", ":4: an empty line"),
  ],
)
def test_a_broken_csv_record_is_named_by_its_first_line(tmp_path, record, said):
  with pytest.raises(errors.InputError, match=said):
    read_csv(tmp_path, f'text,label\n"two\nlines",a\n{record}')


# JSON.


def test_json_lines_keep_the_values_that_are_asked_for(tmp_path):
  text = '{"b": [1], "a": "x", "c": 0}\n{"a": "y", "b": null}\n'
  table = read_json(tmp_path, text, ["a", "b"])
  assert table.names == ["a", "b"]
  assert table.rows == [["x", [1]], ["y", None]]
  assert table.lines == [1, 2]


@pytest.mark.parametrize(
  "line, said",
  [
    ("{'a': 1}", ":2: not JSON"),
    ("[1]", r":2: expected an object in JSON, got \[1\]"),
    ('{"b": 1}', ":2: no 'a'; it has 'b'"),
  ],
)
def test_a_line_that_is_not_such_an_object_is_named(tmp_path, line, said):
  with pytest.raises(errors.InputError, match=said):
    read_json(tmp_path, f'{{"a": 1}}\n{line}\n', ["a"])


# Columns.


def test_columns_are_found_by_name_or_number(tmp_path):
  assert tables.column(read_tsv(tmp_path, "a\tb\n1\t2"), "b") == 1
  assert tables.column(read_tsv(tmp_path, "1\t2", width=2), 1) == 1


@pytest.mark.parametrize(
  "name, said",
  [
    ("d", ":1: no column 'd'; the columns are 'a', 'b', 'a'"),
    ("a", ":1: 2 columns are named 'a'"),
  ],
)
def test_a_column_that_is_not_there_once_is_refused(tmp_path, name, said):
  table = read_tsv(tmp_path, "a\tb\ta\n1\t2\t3")
  assert tables.column(table, "b") == 1
  with pytest.raises(errors.InputError, match=said):
    tables.column(table, name)


# Speed.


# Several bad rows, and other separators.


@pytest.mark.parametrize(
  "open_stream, text, lines",
  [
    (tables.stream_tsv, "a\tb\n1\n2\tx\n3\ty\tz\n", [2, 4]),
    (tables.stream_csv, 'a,b\n1\n"2\n",x\n3,y,z\n', [2, 5]),
  ],
)
def test_all_bad_rows_are_noted_and_the_others_kept(
  tmp_path, open_stream, text, lines
):
  faults = []
  table = tables.read_all(open_stream(write(tmp_path, text)), faults)
  assert [line for line, _ in faults] == lines
  assert len(table.rows) == 1 and table.rows[0][1] == "x"
  assert table.lines == [3]


def test_all_bad_lines_of_json_are_noted(tmp_path):
  faults = []
  path = write(tmp_path, '{"a": 1}\nx\n[]\n{"b": 2}\n')
  table = tables.read_all(
    tables.stream_json_lines(path, ["a"]), faults
  )
  assert (table.rows, table.lines) == ([[1]], [1])
  assert [line for line, _ in faults] == [2, 3, 4]


@pytest.mark.parametrize(
  "header, expected",
  [
    ("text,label", ","), ("text;label", ";"), ("text\tlabel", "\t"),
    ('"text"|"label"', "|"), ("label;note;text", ";"), ("txt;label", ","),
    ("text,label;x", ","),
  ],
)
def test_the_header_tells_the_separator(tmp_path, header, expected):
  path = write(tmp_path, f"{header}\n1\n")
  assert tables.guess_delimiter(path, ["text", "label"]) == expected
