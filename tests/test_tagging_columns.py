"""Tests which lines of a file of columns are words."""

import pytest

from common import errors
from tagging import columns, data


def read(tmp_path, text, **options):
  path = tmp_path / "file.conll"
  path.write_text(text, "utf-8")
  return data.read(str(path), **options)


# Text of a file, and the words of its sentences.
COMMENTS = {
  "another id than any label": ("## 17\nAnna NN\n", "Anna"),
  "a legend": ("# word pos\n\nAnna NN\nran VB\n\n# NN\n", "Anna ran|#"),
  "key = value": ("# id = 3\nAnna NN NN B\nran VB VB O\n", "Anna ran"),
  "no tabs": ("# a\nAnna\tNN\n", "Anna"),
  "no tabs, but a label": ("# NN\nAnna\tNN\n", "Anna"),
  "tabs": ("#\tNN\nAnna\tNN\n", "# Anna"),
  "inside of a sentence": ("Anna NN\n# 17\n", "Anna #"),
  "a hash tag": ("#go NN\nAnna NN\n", "#go Anna"),
  "one column": ("#go\nAnna\n\n# id\nran\n", "#go Anna|ran"),
  "the sign for pounds": ("# # B\n5 CD I\n\nA # B\n", "# 5|A"),
}


@pytest.mark.parametrize("name", COMMENTS)
@pytest.mark.parametrize("labelled", [True, None, False])
def test_comments_have_no_value_of_the_words(tmp_path, name, labelled, caplog):
  text, expected = COMMENTS[name]
  if labelled and name == "one column":
    return
  sentences = read(tmp_path, text, scheme="none", labelled=labelled)
  words = [sentence.words for sentence in sentences]
  assert words == [part.split() for part in expected.split("|")]
  width = len(text.split("\n")[-2].split())
  (first, *_) = text.split("\n")
  is_hidden = len(first.split()) == width and first.split()[0] not in expected
  assert ("begin with # are comments" in caplog.text) == is_hidden


@pytest.mark.parametrize(
  "text",
  [
    "Bad\tB-LOC\n \tI-LOC\nEms\tI-LOC\n\tO\nran\tO\n",
    "Bad B-LOC\n  I-LOC\nEms I-LOC\n O\nran O\n",
  ],
)
def test_white_space_as_a_word_keeps_its_line(tmp_path, text, caplog):
  (sentence,) = read(tmp_path, text)
  assert sentence.words == ["Bad", "Ems", "ran"]
  assert sentence.labels == ["B-LOC", "I-LOC", "O"]
  assert sentence.lines == [1, 3, 5]
  assert "2 words of white space" in caplog.text
  assert "the first at line 2" in caplog.text
  lines = list(
    columns.with_predictions(text.splitlines(), [sentence.labels], "iob2")
  )
  added = [line.split()[-1] for line in lines]
  assert added == ["B-LOC", "I-LOC", "I-LOC", "O", "O"]
  # The lines keep their beginnings.
  assert all(map(str.startswith, lines, text.splitlines()))


def test_indented_lines_are_words_if_all_lines_are(tmp_path):
  (sentence,) = read(tmp_path, " Anna NN\n  ran VB\n", scheme="none")
  assert sentence.words == ["Anna", "ran"] and sentence.labels == ["NN", "VB"]


@pytest.mark.parametrize(
  "scheme, before, after, label",
  [
    ("iob1", "O", "I-LOC", "O"),
    ("iob1", "I-LOC", "I-LOC", "I-LOC"),
    ("iob2", "B-LOC", "O", "O"),
  ],
)
def test_white_space_has_the_label_of_the_entity_around_it(
  scheme, before, after, label
):
  lines = ["Bad\tx", " \tx", "\tx", "Ems\tx"]
  found = columns.with_predictions(lines, [[before, after]], scheme)
  added = [line.rstrip("\n").split("\t")[-1] for line in found]
  assert added == [before, label, label, after]


@pytest.mark.parametrize(
  "predicted", [[["O"]], [["O", "O", "O"]], [["O", "O"], ["O"]], []]
)
def test_predictions_of_another_file_are_not_written(predicted):
  with pytest.raises(ValueError):
    list(columns.with_predictions(["a", "b"], predicted, "iob2"))


@pytest.mark.parametrize(
  "options", [{"word_column": 2}, {"label_column": -3}, {"label_column": 2}]
)
def test_a_column_that_no_line_has_is_named_with_the_range(tmp_path, options):
  ((name, value),) = options.items()
  with pytest.raises(errors.InputError) as raised:
    read(tmp_path, "a O\n", **options)
  facts = ("file.conll:1", f"--{name}={value}", "from -2 to 1")
  assert all(fact in str(raised.value) for fact in facts)
  read(tmp_path, "a O\n", word_column=-2, label_column=1)


@pytest.mark.parametrize(
  "text, options",
  [
    ("Anna ran\tB-PER O\n", {}),
    ("Anna ran\tPER O\n", {"scheme": "plain"}),
    ("Anna ran\tNN VB\n", {"scheme": "none"}),
  ],
)
def test_a_sentence_in_one_line_is_refused(tmp_path, text, options):
  with pytest.raises(errors.InputError) as raised:
    read(tmp_path, text, **options)
  facts = ("file.conll:1: the word 'Anna ran' has 2 words", "as many labels")
  assert all(fact in str(raised.value) for fact in facts)


def test_words_and_types_may_have_spaces(tmp_path):
  (sentence,) = read(tmp_path, "New York\tB-big city\nis\tO\n")
  assert sentence.words == ["New York", "is"]
  assert sentence.labels == ["B-big city", "O"]
