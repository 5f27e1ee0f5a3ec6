"""Tests of one's own data: three formats, the same examples, named faults."""

import itertools
import json
import re

import pytest

from classification import dataset, labelled_examples
from common import errors

REGRESSION = labelled_examples.REGRESSION
MULTI_LABEL = labelled_examples.MULTI_LABEL
ALL = dataset.Columns("question", "answer", "kind", "key")
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


def write(tmp_path, text, name="data.csv"):
  path = tmp_path / name
  path.write_text(text, encoding="utf-8")
  return str(path)


def read(
  tmp_path, text, columns=dataset.Columns(), name="data.csv", **options
):
  return dataset.read(write(tmp_path, text, name), columns, **options)


def labels_of(tmp_path, values, **options):
  text = "".join(
    json.dumps({"text": "A text.", "label": value}) + "\n" for value in values
  )
  return [e.label for e in read(tmp_path, text, name="d.jsonl", **options)]


# What is read.


@pytest.mark.parametrize("file_format", dataset.FORMATS)
def test_columns_are_found_by_name_in_every_format(tmp_path, file_format):
  name = f"data.{file_format}"
  first, second = read(tmp_path, FILES[file_format], ALL, name)
  path = tmp_path / name
  line = 1 if file_format == "jsonl" else 2
  assert first == labelled_examples.Example(
    "q1", "Is it, then?", "It is.", "yes", (), f"{path}:{line}"
  )
  assert second.text_a == {
    "csv": 'Is "it"\nso?', "tsv": 'Is "it" so?', "jsonl": "Is it so?"
  }[file_format]
  assert (second.guid, second.label) == ("q2", "no")
  assert second.place == f"{path}:{line + 1}"


def test_rows_without_ids_are_numbered_and_may_lack_labels(tmp_path):
  columns = dataset.Columns(label=None)
  first, second = read(tmp_path, "text\nOne.\nTwo.\n", columns, split="test")
  assert (first.guid, second.guid) == ("test-1", "test-2")
  assert first.label is None and first.text_b is None


def test_a_tsv_has_quotes_only_if_asked(tmp_path):
  text = 'text\tlabel\n"So ""it"" is."\ta\n'
  (plain,) = read(tmp_path, text, name="data.tsv")
  (quoted,) = read(tmp_path, text, name="data.tsv", quoted=True)
  assert plain.text_a == '"So ""it"" is."'
  assert quoted.text_a == 'So "it" is.'


def test_the_format_may_be_named(tmp_path):
  text = "text\tlabel\nOne.\ta\n"
  (example,) = read(tmp_path, text, name="data.txt", file_format="tsv")
  assert example.label == "a"


def test_classes_of_json_are_names_whatever_their_type(tmp_path):
  found = labels_of(tmp_path, [" a", 1, True, 0.5])
  assert found == ["a", "1", "true", "0.5"]


def test_scores_are_numbers(tmp_path):
  assert labels_of(tmp_path, ["1.5", 2], kind=REGRESSION) == [1.5, 2.0]


def test_several_classes_stand_in_a_list_or_between_separators(tmp_path):
  found = labels_of(
    tmp_path, [["a", 2], [], "b; a;b", ""], kind=MULTI_LABEL, separator=";"
  )
  assert found == [("a", "2"), (), ("b", "a"), ()]


# Classes.


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
    examples = [labelled_examples.Example("x", "t", label=n) for n in order]
    assert dataset.label_list(examples) == expected


@pytest.mark.parametrize(
  "labels, said",
  [(["a", "a"], r"\('a'\).*at least 2"), ([(), ()], r"\(none\).*at least 1")],
)
def test_too_few_classes_are_refused(labels, said):
  examples = [labelled_examples.Example("x", "t", label=n) for n in labels]
  with pytest.raises(errors.InputError, match=said):
    dataset.label_list(examples)


# Faults.


@pytest.mark.parametrize(
  "name, text, said",
  [
    ("d.csv", "text,label\nOne.,a\nTwo\n", ":3: 1 column, but 2 are in"),
    ("d.csv", "text,label\nOne.,a\n ,b\n", ":3: 'text': an empty text"),
    ("d.csv", 'text,label\n"1\n2",a\n"\n",b\n', ":4: 'text': an empty text"),
    ("d.csv", "text,label\nOne.,\n", ":2: label '' is no class"),
    ("d.csv", "txt,label\nOne.,a\n", ":1: no column 'text'; the columns are"),
    ("d.csv", "text,label,text\nOne.,a,b\n", ":1: 2 columns are named 'text'"),
    ("d.jsonl", '{"text": 1, "label": "a"}\n', ":1: 'text' is 1, not a text"),
    ("d.jsonl", '{"text": "x"}\n', ":1: no 'label'; it has 'text'"),
    ("d.jsonl", '{"text": "x", "label": null}', ":1: label None is no class"),
    ("d.jsonl", '{"text": "x", "label": ["a"]}', "is no class"),
    ("d.jsonl", '{"text": "x", "label": "\\ud800"}', "ud800' holds half"),
    ("d.dat", "text,label\nOne.,a\n", "neither .csv, .tsv nor .jsonl"),
  ],
)
def test_a_fault_is_named_with_file_and_line(tmp_path, name, text, said):
  with pytest.raises(errors.InputError, match=said):
    read(tmp_path, text, name=name)


@pytest.mark.parametrize(
  "second, said",
  [
    ("1", ":3: duplicate id '1', first at .*:2; give every row"),
    (" ", ":3: ' ' is no id"),
    ("\\udfff", ":3: '.*udfff' holds half a character"),
  ],
)
def test_ids_must_tell_the_rows_apart(tmp_path, second, said):
  columns = dataset.Columns(id="id")
  text = "\n" + "".join(
    f'{{"id": "{name}", "text": "One.", "label": "a"}}\n'
    for name in ("1", second)
  )
  with pytest.raises(errors.InputError) as caught:
    read(tmp_path, text, columns, "data.jsonl")
  assert re.search(said, str(caught.value))


@pytest.mark.parametrize(
  "value", ["much", "", "nan", "inf", None, True, [1], 10**400, "1e39"]
)
def test_a_score_that_is_no_number_is_refused(tmp_path, value):
  with pytest.raises(errors.InputError, match=":1: label .* is no number"):
    labels_of(tmp_path, [value], kind=REGRESSION)


@pytest.mark.parametrize(
  "value, separator, said",
  [
    ("a;b", None, "what separates the classes in it is not said"),
    ("a;;b", ";", "label '' is no class"),
    (None, ";", "None is no list of classes"),
    ([["a"]], ";", r"\['a'\] is no class"),
  ],
)
def test_classes_that_cannot_be_meant_are_refused(
  tmp_path, value, separator, said
):
  with pytest.raises(errors.InputError, match=said):
    labels_of(tmp_path, [value], kind=MULTI_LABEL, separator=separator)


def test_a_column_cannot_be_text_and_label(tmp_path):
  columns = dataset.Columns("text", label="text")
  with pytest.raises(errors.InputError, match="one column is named twice"):
    read(tmp_path, "text\nOne.\n", columns)


# Many bad rows.

DIRTY = "text;label\nOne.;a\nTwo\n;b\nFour.;c\nFive.;b\n"


def test_a_row_in_another_encoding_is_bad_like_any_other(tmp_path):
  path = tmp_path / "data.csv"
  path.write_bytes("text,label\nZürich,a\nOne.\nTwo.,b\n".encode("latin-1"))
  with pytest.raises(errors.InputError) as caught:
    dataset.read(str(path), dataset.Columns())
  _, first, second = str(caught.value).splitlines()
  assert ":2: not UTF-8: the byte 0xfc after 'Z'" in first and ":3: 1" in second
  examples = dataset.read(
    str(path), dataset.Columns(), encoding="latin-1", skips_bad_rows=True
  )
  assert [e.text_a for e in examples] == ["Zürich", "Two."]


def test_columns_of_other_names_are_listed_by_the_files_separator(tmp_path):
  with pytest.raises(
    errors.InputError, match="no column 'text'; the columns are 'review', 'st"
  ):
    read(tmp_path, "review;stars\nOne, two.;a\n")


@pytest.mark.parametrize(
  "kind, label", [("single", "a"), (REGRESSION, 0.1), (MULTI_LABEL, ("b", "a"))]
)
def test_what_is_written_is_read_again(tmp_path, kind, label):
  examples = [
    labelled_examples.Example('q\t"1"', "Is\rit\n\u2028so?", "\ud800", label)
  ]
  path = str(tmp_path / "split.jsonl")
  dataset.write(path, examples, ALL)
  (found,) = dataset.read(path, ALL, kind=kind)
  assert found._replace(place="") == examples[0]


def test_all_bad_rows_are_listed_at_once(tmp_path):
  with pytest.raises(errors.InputError) as caught:
    read(tmp_path, DIRTY, labels=("a", "b"))
  first, *rows = str(caught.value).split("\n")
  assert "3 of 5 rows are bad; fix them, or pass --on_bad_row=skip" in first
  path = tmp_path / "data.csv"
  for row, line, said in zip(
    rows, (3, 4, 5),
    ("1 column, but 2", "'text': an empty", "label 'c' is none of 'a', 'b'"),
    strict=True,
  ):
    assert row.startswith(f"  {path}:{line}: {said}")


def test_of_very_many_bad_rows_the_first_are_listed(tmp_path):
  with pytest.raises(errors.InputError) as caught:
    read(tmp_path, "text,label\nx,a\n" + "x\n" * 50)
  lines = str(caught.value).split("\n")
  assert len(lines) == 22 and lines[-1] == "  ... and 30 more"
  assert lines[1].startswith(f"  {tmp_path / 'data.csv'}:3: ")


def test_skipped_rows_are_counted_and_leave_the_others_names(tmp_path, caplog):
  skipped = []
  examples = read(
    tmp_path, DIRTY, labels=("a", "b"), skips_bad_rows=True, skipped=skipped
  )
  assert [e.guid for e in examples] == ["train-1", "train-5"]
  assert [row.line for row in skipped] == [3, 4, 5]
  assert "3 of 5 rows are bad and skipped" in caplog.text
  path = tmp_path / "skipped_rows.tsv"
  dataset.write_skipped(str(path), skipped)
  header, *rows = [line.split("\t") for line in path.read_text().splitlines()]
  assert header == ["file", "line", "fault"]
  assert [row[:2] for row in rows] == [
    [str(tmp_path / "data.csv"), str(line)] for line in (3, 4, 5)
  ]


def test_a_file_of_bad_rows_alone_is_refused_even_if_they_are_skipped(
  tmp_path
):
  with pytest.raises(errors.InputError, match="2 of 2 rows .* no row is left"):
    read(tmp_path, "text,label\nx\ny\n", skips_bad_rows=True)


def test_an_id_that_comes_again_may_be_skipped(tmp_path):
  columns = dataset.Columns(id="id")
  text = "id,text,label\n1,One.,a\n1,Two.,b\n2,Three.,b\n"
  examples = read(tmp_path, text, columns, skips_bad_rows=True)
  assert [e.text_a for e in examples] == ["One.", "Three."]


def test_the_separator_of_a_csv_is_seen_or_given(tmp_path):
  text = 'text;label\n"One; two.";a\n'
  (seen,) = read(tmp_path, text)
  (given,) = read(tmp_path, text, delimiter=";")
  assert seen == given and seen.text_a == "One; two."
