"""Users' data: all formats give the same examples, and faults are named."""

import itertools
import json
import pathlib
import re
import sys

import pyarrow
import pytest
from pyarrow import parquet

from classification import data
from common import errors, run_settings
from message_facts import says

Example = data.Example
SETTINGS = {
  "text_column": "text",
  "text_b_column": None,
  "label_column": "label",
  "id_column": None,
  "label_separator": ",",
  "file_format": None,
  "separator": None,
  "encoding": None,
  "on_bad_row": "error",
}
ALL_COLUMNS = {
  "text_column": "question",
  "text_b_column": "answer",
  "label_column": "kind",
  "id_column": "key",
}
SKIP_BAD_ROWS = {"on_bad_row": "skip"}
FILES = {
  "csv": 'key,kind,question,answer,note\nq1,yes,"Is it, then?",It is.,x\n'
  'q2,no,"Is ""it""\nso?",Never.,\n',
  "tsv": "answer\tkind\tquestion\tkey\nIt is.\tyes\tIs it, then?\tq1\n"
  'Never.\tno\tIs "it" so?\tq2\n',
  "jsonl": '{"question": "Is it, then?", "answer": "It is.", "kind": "yes", '
  '"key": "q1", "more": [1]}\n'
  '{"question": "Is it so?", "answer": "Never.", "kind": "no", '
  '"key": "q2"}\n',
}


def settings(**flags):
  return run_settings.Settings({**SETTINGS, **flags})


def write(tmp_path, text, name="data.csv"):
  path = tmp_path / name
  path.write_text(text, encoding="utf-8")
  return str(path)


def read(
  folder, text, name="data.csv", task_kind="single", options=(), **flags
):
  return data.read(
    write(folder, text, name), settings(**flags), task_kind, **dict(options)
  )


def labels_of(tmp_path, values, **flags):
  text = "".join(
    json.dumps({"text": "A text.", "label": value}) + "\n" for value in values
  )
  return [e.label for e in read(tmp_path, text, "d.jsonl", **flags)]


def labelled(*labels):
  return [
    Example(f"x{n}", "t", label=label, place=f"data.tsv:{n + 1}")
    for n, label in enumerate(labels)
  ]


@pytest.mark.parametrize("file_format", FILES)
def test_columns_are_found_by_name_in_every_format(tmp_path, file_format):
  name = f"data.{file_format}"
  first, second = read(tmp_path, FILES[file_format], name, **ALL_COLUMNS)
  path = tmp_path / name
  line = 1 if file_format == "jsonl" else 2
  assert first == Example(
    "q1", "Is it, then?", "It is.", "yes", (), f"{path}:{line}"
  )
  assert (
    second.text_a
    == {"csv": 'Is "it"\nso?', "tsv": 'Is "it" so?', "jsonl": "Is it so?"}[
      file_format
    ]
  )
  assert (second.guid, second.label) == ("q2", "no")
  assert second.place == f"{path}:{line + 1}"


def test_a_text_file_has_texts_and_nothing_else(tmp_path):
  (example,) = read(
    tmp_path, "a film\n", "new.txt", options={"has_labels": False}
  )
  assert example.text_a == "a film"
  with pytest.raises(errors.InputError, match="has only 1 of the columns"):
    read(tmp_path, "a film\n", "new.txt")


@pytest.mark.parametrize(
  "value, expected",
  [
    ("['pos', 'odd']", ("pos", "odd")),
    ('["a"]', ("a",)),
    ("[]", ()),
    ("[3, 7]", ("3", "7")),
    ([3, 7], ("3", "7")),
    ("{'pos', 'odd'}", ("pos", "odd")),
    (" ('pos',)", ("pos",)),
    ("{3, 7}", ("3", "7")),
    ("set()", ()),
    ("{0, 1}", ("0", "1")),
    ("{1}|{2}", ("{1}|{2}",)),
    ("()", ()),
    ("(pos)", ("(pos)",)),
    ("set([3, 7])", ("set([3", "7])")),
    ("['a']", ("a",)),
    ('["it\'s", "b"]', ("it's", "b")),
    ("[1]", ("1",)),
    ([0], ("0",)),
    ("[[1, 0]]", "is not a class"),
    ("{'pos': 1}", "is not a valid list"),
    ("['it''s', 'b']", "is not a valid list"),
    ("['pos' 'odd']", "is not a valid list"),
    ("[pos, odd]", "is not a valid list"),
    ("[1, 0, 1]", "has 0 or 1 per class; write the names"),
    ([1, 0, 1], "has 0 or 1 per class; write the names"),
    ([0, 1], "has 0 or 1 per class"),
  ],
)
def test_lists_as_other_programs_write_them(tmp_path, value, expected):
  options = {"task_kind": "multi_label", "label_separator": ","}
  if isinstance(expected, tuple):
    assert labels_of(tmp_path, [value], **options) == [expected]
    return
  with pytest.raises(errors.InputError, match=f":[12]: label .* {expected}"):
    labels_of(tmp_path, [value], **options)


def test_a_column_that_no_row_has_is_reported_once(tmp_path):
  lines = '{"text": "x"}\n' * 3
  with pytest.raises(errors.InputError) as refused:
    read(tmp_path, lines, "d.jsonl")
  message = str(refused.value)
  assert ":1: no 'label'" in message and message.endswith(
    "(the same in all 3 rows)"
  )
  assert "\n" not in message and "on_bad_row" not in message
  with pytest.raises(errors.InputError, match=r"bad rows \(3 of 4\); fix them"):
    read(tmp_path, lines + '{"text": "x", "label": "a"}\n', "d.jsonl")


def test_rows_without_ids_are_numbered_and_may_lack_labels(tmp_path):
  options = {"split": "test", "has_labels": False}
  first, second = read(tmp_path, "text\nOne.\nTwo.\n", options=options)
  assert (first.guid, second.guid) == ("test-1", "test-2")
  assert first.label is None and first.text_b is None


@pytest.mark.parametrize(
  "text, name, flags, expected",
  [
    ('text\tlabel\n"So ""it"" is."\ta\n', "d.tsv", {}, 'So "it" is.'),
    ('text\tlabel\n"So it is."\ta\n', "d.tsv", {}, '"So it is."'),
    (
      'text\tlabel\n"So ""it"" is."\ta\n',
      "d.tsv",
      {"file_format": "csv", "separator": "tab"},
      'So "it" is.',
    ),
    ("text\tlabel\nOne.\ta\n", "d.txt", {"file_format": "tsv"}, "One."),
    ('text;label\n"One; two.";a\n', "d.csv", {}, "One; two."),
    ('text;label\n"One; two.";a\n', "d.csv", {"separator": ";"}, "One; two."),
    ('text\tlabel\n"One"\ta\n', "d.csv", {"separator": "tab"}, "One"),
  ],
)
def test_the_format_is_detected_or_set(tmp_path, text, name, flags, expected):
  (example,) = read(tmp_path, text, name, **flags)
  assert (example.text_a, example.label) == (expected, "a")


@pytest.mark.parametrize(
  "task_kind, values, expected",
  [
    # Classes in JSON become strings, whatever their type.
    ("single", [" a", 1, True, 0.5], ["a", "1", "true", "0.5"]),
    ("regression", ["1.5", 2], [1.5, 2.0]),
    (
      "multi_label",
      [["a", 2], [], "b; a;b", ""],
      [("a", "2"), (), ("b", "a"), ()],
    ),
  ],
)
def test_labels_of_every_kind(tmp_path, task_kind, values, expected):
  options = {"task_kind": task_kind, "label_separator": ";"}
  assert labels_of(tmp_path, values, **options) == expected


ONE_ROW = "text,label\nOne.,a\n"
CLASS_TABLE = "id,text,toxic,obscene\n7,One.,1,0\n8,Two.,0,0\n9,Three.,1,1\n"
CLASS_COLUMNS = {"label_columns": ["toxic", "obscene"], "id_column": "id"}
MULTI_LABEL = {"task_kind": "multi_label", **CLASS_COLUMNS}
FASTTEXT = {"file_format": "fasttext"}


def columns(text, label):
  return {"text_column": text, "label_column": label}


# File name, content, message and, if needed, settings.
@pytest.mark.parametrize(
  "fault",
  [
    ("d.csv", 'text,label\n"1\n2",a\n"\n",b\n', ":4: 'text': an empty text"),
    ("d.csv", "text,label\nOne.,\n", ":2: label '' is not a class"),
    (
      "d.csv",
      "txt;stars\nOne, two.;a\n",
      ":1: no column 'text'; the columns are 'txt', 'stars'",
    ),
    ("d.csv", "text,label,text\nOne.,a,b\n", ":1: 2 columns are named 'text'"),
    ("d.jsonl", '{"text": 1, "label": "a"}\n', ":1: 'text' is 1, not a text"),
    ("d.jsonl", '{"text": "x"}\n', r":1: no 'label' among the keys \['text'\]"),
    (
      "d.jsonl",
      '{"text": "x", "label": null}',
      ":1: label None is not a class",
    ),
    ("d.jsonl", '{"text": "x", "label": NaN}', ":1: label nan is not a class"),
    ("d.jsonl", '{"text": "x", "label": ["a", "b"]}', "is not a class"),
    ("d.jsonl", '{"text": "x", "label": "\\ud800"}', "ud800' contains half"),
    ("d.dat", "text,label\nOne.,a\n", "pass --file_format, one of csv"),
    (
      "d.csv",
      ONE_ROW,
      "two flags name the same column",
      {"label_column": "text"},
    ),
    (
      "d.csv",
      ONE_ROW,
      "--separator=;;: expected one character",
      {"separator": ";;"},
    ),
    (
      "d.csv",
      ONE_ROW,
      "--encoding=latin-0: unknown enc",
      {"encoding": "latin-0"},
    ),
    # Columns by number.
    (
      "d.csv",
      "a,One.\nb,Two.\n",
      ":1: no column '3'; the columns are '1', "
      "'2'; fix the header, or, if there is none, pass column",
      columns("3", "1"),
    ),
    ("d.csv", "a,One.\nb,Two.\n", ":1: no column '0'", columns("0", "1")),
    (
      "d.csv",
      "a,One.\nb,Two.\n",
      ":1: no column '2'; the columns are 'a', 'O",
      columns("2", "label"),
    ),
    (
      "d.csv",
      "a;One, two.\n",
      ":1: the columns may be separated by ',' or ';'; pass --separator",
      columns("2", "1"),
    ),
    # A column for each class.
    (
      "d.csv",
      CLASS_TABLE.replace("8,Two.,0,0", "8,Two.,-1,0"),
      ":3: 'toxic' is '-1'; a ",
      MULTI_LABEL,
    ),
    ("d.csv", "id,text,toxic\n7,One.,1\n", "no column 'obscene'", MULTI_LABEL),
    (
      "d.train",
      "__label__a __label__b One.",
      r":1: label \['a', 'b'\] is not a class",
      FASTTEXT,
    ),
    ("d.train", "One.", r":1: label \[\] is not a class", FASTTEXT),
    ("d.train", "__label__a", "an empty text", FASTTEXT),
  ],
)
def test_a_fault_is_named_with_file_and_line(tmp_path, fault):
  name, text, message, flags = (*fault, {})[:4]
  with pytest.raises(errors.InputError, match=message):
    read(tmp_path, text, name, **flags)


@pytest.mark.parametrize(
  "second, message",
  [
    ("1", ":3: duplicate id '1', first at .*:2; give each row"),
    (" ", ":3: 'id': an empty text"),
    ("\\udfff", ":3: '.*udfff' contains half a character"),
  ],
)
def test_ids_must_be_distinct_texts(tmp_path, second, message):
  text = "\n" + "".join(
    f'{{"id": "{name}", "text": "One.", "label": "a"}}\n'
    for name in ("1", second)
  )
  with pytest.raises(errors.InputError) as caught:
    read(tmp_path, text, "data.jsonl", id_column="id")
  assert re.search(message, str(caught.value))


@pytest.mark.parametrize(
  "value", ["much", "", "nan", "inf", None, True, [1], 10**400, "1e39", "1_0"]
)
def test_a_score_that_is_no_number_is_refused(tmp_path, value):
  with pytest.raises(errors.InputError, match=says(":1", "not")):
    labels_of(tmp_path, [value], task_kind="regression")


@pytest.mark.parametrize(
  "value, separator, message",
  [
    ("a;b", None, "the separator of its classes is unknown"),
    ("a;;b", ";", says("''", "not")),
    (None, ";", "None is not a list of classes"),
    ([["a"]], ";", r"\['a'\] is not a class"),
  ],
)
def test_lists_of_classes_are_checked(tmp_path, value, separator, message):
  options = {"task_kind": "multi_label", "label_separator": separator}
  with pytest.raises(errors.InputError, match=message):
    labels_of(tmp_path, [value], **options)


# Many bad rows.

BAD_ROWS = "text;label\nOne.;a\nTwo\n;b\nFour.;c\nFive.;b\n"


def test_a_file_may_have_another_encoding(tmp_path):
  path = tmp_path / "data.csv"
  path.write_bytes("text,label\nZürich,a\nOne.\nTwo.,b\n".encode("latin-1"))
  examples = data.read(
    str(path), settings(encoding="latin-1", **SKIP_BAD_ROWS), "single"
  )
  assert [e.text_a for e in examples] == ["Zürich", "Two."]


def test_all_bad_rows_are_listed_at_once(tmp_path):
  with pytest.raises(errors.InputError) as caught:
    read(tmp_path, BAD_ROWS, options={"labels": ("a", "b")})
  first, *rows = str(caught.value).split("\n")
  assert "bad rows (3 of 5); fix them, or pass --on_bad_row=skip" in first
  path = tmp_path / "data.csv"
  for row, line, message in zip(
    rows,
    (3, 4, 5),
    ("1 column, but 2", "'text': an empty", "label 'c' is none of 'a', 'b'"),
    strict=True,
  ):
    assert row.startswith(f"  {path}:{line}: {message}")
  with pytest.raises(errors.InputError) as caught:
    read(tmp_path, "text,label\nx,a\n" + "x\n" * 50)
  lines = str(caught.value).split("\n")
  assert len(lines) == 22 and lines[-1] == "  ... and 30 more"
  assert lines[1].startswith(f"  {path}:3: ")


def test_skipped_rows_are_counted_and_use_up_ids(tmp_path, caplog):
  caplog.set_level("DEBUG", "absl")
  examples = read(
    tmp_path, BAD_ROWS, options={"labels": ("a", "b")}, **SKIP_BAD_ROWS
  )
  assert [e.guid for e in examples] == ["train-1", "train-5"]
  assert re.search(says("3", "5", "skipped"), caplog.text)
  path = tmp_path / "data.csv"
  for line, message in zip((3, 4, 5), caplog.messages[-3:]):
    assert message.startswith(f"{path}:{line}: ")
  with pytest.raises(errors.InputError, match=says("2", "no", "left")):
    read(tmp_path, "text,label\nx\ny\n", **SKIP_BAD_ROWS)


# Streams.

ROWS = [("One", "a"), ("", "b"), ("Three", "c"), ("Four", None), ("Five", "a")]
STREAMS = {
  "csv": 'text,key\n"One, \nof two",a\n,b\nThree,c\nFour\nFive,a\n\n',
  "tsv": "text\tkey\nOne\ta\n\tb\nThree\tc\nFour\nFive\ta\n\n",
  "jsonl": "".join(
    json.dumps({"text": text, **({"key": key} if key else {})}) + "\n"
    for text, key in ROWS
  ),
}


@pytest.mark.parametrize("ids", [None, "key"])
@pytest.mark.parametrize("file_format", STREAMS)
def test_a_stream_has_the_examples_of_the_list(tmp_path, file_format, ids):
  path = write(tmp_path, STREAMS[file_format], f"data.{file_format}")
  flags = settings(id_column=ids, **SKIP_BAD_ROWS)
  options = {"split": "predict", "has_labels": False}
  examples = data.read(path, flags, "single", **options)
  # Bad rows: an empty text, a row without a key, and the second "a".
  assert len(examples) == (2 if ids else 3 + (file_format == "jsonl"))
  for limit in (0, 1, 9):
    stream = data.ExampleStream(path, flags, "single", limit=limit, **options)
    expected = examples[: limit or None]
    assert list(stream) == list(stream) == expected
    assert len(stream) == len(expected)


def test_a_file_that_changes_after_the_check_is_refused(tmp_path):
  path = write(tmp_path, "text\nOne\nTwo\n")
  stream = data.ExampleStream(path, settings(), "single", has_labels=False)
  write(tmp_path, "text\nOne\n")
  with pytest.raises(errors.InputError, match=says("2", "1", "changed")):
    list(stream)


@pytest.mark.parametrize(
  "labels, expected",
  [
    (["b", "a", "b", "C"], ["C", "a", "b"]),
    (["10", "9", "-1"], ["-1", "9", "10"]),
    (["10", "9", "x"], ["10", "9", "x"]),
    (["10", "nan", "9"], ["10", "9", "nan"]),
    (["10", "inf", "NaN", "9"], ["10", "9", "NaN", "inf"]),
    ([("b",), (), ("a", "b")], ["a", "b"]),
  ],
)
def test_classes_are_sorted_whatever_the_order_of_the_rows(labels, expected):
  for order in itertools.permutations(labels):
    assert data.label_list(labelled(*order)) == expected


@pytest.mark.parametrize(
  "labels, message",
  [(["a", "a"], r"\('a'; minimum: 2"), ([(), ()], r"\(none; minimum: 1")],
)
def test_too_few_classes_are_refused(labels, message):
  with pytest.raises(errors.InputError, match=message):
    data.label_list(labelled(*labels))


def test_an_unknown_class_may_be_a_number():
  message = data.unknown_class("4", ("1", "2.5", "3"))
  assert "pass --task_kind=regression" in message
  assert "regression" not in data.unknown_class("x", ("1", "2", "3"))
  assert data.unknown_class("x", list("a" * 50)).count("'a'") == 20


def test_training_needs_a_label_of_every_example():
  data.check_labelled(labelled("a", 0.0, ()))
  with pytest.raises(errors.InputError, match="data.tsv:2: no label"):
    data.check_labelled(labelled("a", None))


def test_each_class_is_split_at_the_same_ratio():
  examples = labelled(*["a"] * 40, *["b"] * 20, *["c"] * 10)
  train, dev = data.split_off(examples, 0.2, seed=3)
  assert data.class_counts(dev, ["a", "b", "c"]) == {"a": 8, "b": 4, "c": 2}
  assert sorted(train + dev) == sorted(examples)
  assert train == [e for e in examples if e not in dev]
  assert data.split_off(examples, 0.2, seed=3) == (train, dev)
  assert data.split_off(examples, 0.2, seed=4)[1] != dev


def test_the_only_example_of_a_class_is_for_training():
  examples = labelled("a", "a", "b", "a", "a")
  for seed in range(20):
    train, dev = data.split_off(examples, 0.5, seed)
    assert examples[2] in train and len(dev) == 2


def test_numbers_are_split_evenly_along_their_range():
  examples = labelled(*[float(n * 7 % 100) for n in range(100)])
  _, dev = data.split_off(examples, 0.1, seed=0)
  assert sorted(e.label // 10 for e in dev) == list(range(10))


@pytest.mark.parametrize("fraction", [0.01, 1.0])
def test_a_split_without_examples_is_refused(fraction):
  with pytest.raises(errors.InputError, match="pass another fraction"):
    data.split_off(labelled("a", "a", "b", "b"), fraction, 0)


# Files of other programs.


@pytest.mark.parametrize(
  "name, text",
  [
    ("d.csv", '1,Rain,"It rains. It, too."\n3,2,1\n'),
    ("d.csv", "1;Rain;It rains. It, too.\n3;2;1\n"),
    ("d.tsv", "1\tRain\tIt rains. It, too.\n3\t2\t1\n"),
  ],
)
def test_columns_without_a_header_have_numbers(tmp_path, name, text):
  columns = {"label_column": "1", "text_column": "3", "text_b_column": "2"}
  first, second = read(tmp_path, text, name, **columns)
  assert first[1:4] == ("It rains. It, too.", "Rain", "1")
  assert first.place.endswith(f"{name}:1") and first.guid == "train-1"
  assert second[1:4] == ("1", "2", "3")


def test_a_header_may_consist_of_numbers(tmp_path):
  """pandas writes such a header for columns without names."""
  columns = {"label_column": "0", "text_column": "1"}
  (row,) = read(tmp_path, "0,1,2\na,One.,x\n", **columns)
  assert row[1:4] == ("One.", None, "a")
  # The first data row may contain values that are also column numbers.
  columns = {"label_column": "1", "text_column": "2"}
  first, _ = read(tmp_path, "1,2 stars,2\n3,x,4\n", **columns)
  assert first[1:4] == ("2 stars", None, "1")
  rows = read(tmp_path, "1\t2 stars only\t2\n3\tx\t4\n", "d.tsv", **columns)
  assert [example.label for example in rows] == ["1", "3"]


def test_rows_that_annotators_disagreed_on_are_left_out(tmp_path, caplog):
  text = "gold_label,text\n-,One.\nneutral,Two.\n-,Three.\n"
  (row,) = read(tmp_path, text, label_column="gold_label")
  assert row[:4] == ("train-2", "Two.", None, "neutral")
  assert re.search(
    says("data.csv", "gold_label", "2", "skipped", "without"), caplog.text
  )
  # Rows to predict are kept. In another column, "-" may be a class.
  rows = read(
    tmp_path, text, label_column="gold_label", options={"has_labels": False}
  )
  assert len(rows) == 3
  examples = read(tmp_path, text.replace("gold_", ""))
  assert [example.label for example in examples] == ["-", "neutral", "-"]


def test_one_column_for_each_class(tmp_path):
  examples = read(
    tmp_path, CLASS_TABLE, task_kind="multi_label", **CLASS_COLUMNS
  )
  assert [e.label for e in examples] == [("toxic",), (), ("toxic", "obscene")]
  (unlabelled, *_) = data.ExampleStream(
    write(tmp_path, "id,text\n7,One.\n"),
    settings(**CLASS_COLUMNS),
    "multi_label",
    has_labels=False,
  )
  assert unlabelled.label is None


def test_lines_of_fasttext(tmp_path):
  text = "__label__good It works , well .\n__label__a-b __label__c Two.\n"
  first, second = read(
    tmp_path, text, task_kind="multi_label", name="d.train", **FASTTEXT
  )
  assert first[1:4] == ("It works , well .", None, ("good",))
  assert second[1:4] == ("Two.", None, ("a-b", "c"))
  (single,) = read(tmp_path, text.split("\n")[0], name="d.train", **FASTTEXT)
  assert single.label == "good"


def test_parquet(tmp_path):
  path = str(tmp_path / "d.parquet")
  texts = ["One.", "Two.", None]
  columns = {"label": [0, 1, 1], "text": texts, "more": [1] * 3}
  parquet.write_table(pyarrow.table(columns), path)
  with pytest.raises(errors.InputError, match=says(":3", "'text'", "not")):
    data.read(path, settings(), "single")
  examples = data.read(path, settings(on_bad_row="skip"), "single")
  assert [e.text_a for e in examples] == texts[:2]
  assert [e.label for e in examples] == ["0", "1"]
  with pytest.raises(errors.InputError, match=says("'review'", "no")):
    data.read(path, settings(text_column="review"), "single")
  with pytest.raises(errors.InputError, match="is not Parquet"):
    read(tmp_path, "text,label\n", "e.parquet")
  (tmp_path / "f.parquet").mkdir()
  with pytest.raises(errors.InputError, match="f.parquet.* cannot be read: .*"):
    data.read(str(tmp_path / "f.parquet"), settings(), "single")
  path = tmp_path / "d.parquet"
  texts = ["text " * number for number in range(99)]
  table = pyarrow.table([texts, texts, texts], ["text", "label", "text"])
  parquet.write_table(table, path)
  with pytest.raises(errors.InputError, match="2 columns are named 'text'"):
    data.read(str(path), settings(), "single")
  parquet.write_table(table.select([0, 1]), path)
  content = bytearray(path.read_bytes())
  content[60:200] = bytes(140)
  path.write_bytes(content)
  with pytest.raises(errors.InputError, match=says("d.parquet", "not")):
    data.read(str(path), settings(), "single")


def test_parquet_that_python_cannot_express(tmp_path):
  path = str(tmp_path / "d.parquet")
  far = pyarrow.array([10**7], pyarrow.date32())  # The year 29,348.
  parquet.write_table(pyarrow.table({"text": far, "label": [1]}), path)
  with pytest.raises(
    errors.InputError, match="d.parquet is .*: .*out of range"
  ):
    data.read(path, settings(), "single")
  parquet.write_table(pyarrow.table({"text": ["a"], "label": ["b"]}), path)
  content = pathlib.Path(path).read_bytes().replace(b"text", b"t\xff\xfet")
  pathlib.Path(path).write_bytes(content)
  with pytest.raises(errors.InputError, match="d.parquet"):
    data.read(path, settings(), "single")


def test_parquet_without_its_package(tmp_path, monkeypatch):
  monkeypatch.setitem(sys.modules, "pyarrow", None)
  with pytest.raises(errors.InputError, match="pip install pyarrow"):
    read(tmp_path, "x", "d.parquet")


@pytest.mark.parametrize(
  "label, is_refused",
  [
    ([0.2, 0.9], True),
    ([0.25, 0, 1], True),
    ([1.0, 0.0], True),
    ("[0.2, 0.9]", True),
    ("0.2,0.9", True),
    (["1.5", "2.5"], False),
    ([0.5, 1.5], False),
    ([-0.5, 0.5], False),
    (["a", 0.5], False),
  ],
)
def test_a_probability_per_class_is_no_list_of_classes(
  tmp_path, label, is_refused
):
  path = tmp_path / "a.jsonl"
  rows = [{"text": "x", "label": label}, {"text": "y", "label": ["a"]}]
  path.write_text("".join(json.dumps(row) + "\n" for row in rows))
  if not is_refused:
    assert data.read(str(path), settings(), data.MULTI_LABEL)
    return
  with pytest.raises(errors.InputError) as raised:
    data.read(str(path), settings(), data.MULTI_LABEL)
  assert "a.jsonl:1: " in str(raised.value)
  # As for other rows, one bad row of several may be skipped.
  assert "--on_bad_row=skip" in str(raised.value)
