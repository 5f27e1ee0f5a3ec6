"""Annotated characters become labels of words, and labels spans again."""

import json

import pytest

from common import errors
from tagging import data, text_spans

TEXT = "Anna O'Neil (U.N.) is in Zürich."


@pytest.mark.parametrize("spans", [
  [[25, 31, "LOC"], [0, 11, "PER"]],
  [{"start": 0, "end": 11, "label": "PER", "token_start": 0},
   {"start": 25, "end": 31, "label": "LOC"}],
])
@pytest.mark.parametrize("name", text_spans.NAMES)
def test_files_of_annotators(tmp_path, spans, name):
  path = tmp_path / "file.jsonl"
  path.write_text(json.dumps({"id": 3, "text": TEXT, name: spans}) + "\n")
  for labelled in (True, None):
    (sentence,) = data.read(str(path), labelled=labelled)
    assert sentence.words[:4] == ["Anna", "O", "'", "Neil"]
    assert sentence.labels == [
      "B-PER", "I-PER", "I-PER", "I-PER", *"OOOOOOOO", "B-LOC", "O"
    ]
  (line,) = data.with_predictions(str(path), "jsonl", [sentence.labels])
  assert json.loads(line) == {
    "id": 3, "text": TEXT, name: spans,
    "predicted": [[0, 11, "PER"], [25, 31, "LOC"]],
  }


def test_a_text_alone_is_predicted(tmp_path):
  path = tmp_path / "file.jsonl"
  path.write_text(json.dumps({"text": TEXT}))
  (sentence,) = data.read(str(path), labelled=None)
  assert sentence.labels is None and len(sentence.words) == 14


@pytest.mark.parametrize("spans, said", [
  ([[0, 3, "PER"]], ":1: the span 0 to 3, 'Ann', does not begin and end with"),
  ([[25, 32, "X"], [31, 32, "Y"]], "the span 31 to 32, '.', overlaps"),
  ([[11, 25, "X"]], "does not begin and end with words"),
  ([[0, 4]], r"\[0, 4\] is not a span; expected such as \[0, 4, \"ORG\"\]"),
  ([[0, 4, " "]], "is not a span"), ([{"start": 0}], "is not a span"),
  ({"a": 1}, "no list of spans"),
])
def test_spans_that_are_no_words_are_named(tmp_path, spans, said):
  path = tmp_path / "file.jsonl"
  path.write_text(json.dumps({"text": TEXT, "entities": spans}))
  with pytest.raises(errors.InputError, match=said):
    data.read(str(path))


def test_spans_have_one_scheme(tmp_path):
  path = tmp_path / "file.jsonl"
  path.write_text(json.dumps({"text": TEXT, "entities": []}))
  with pytest.raises(errors.InputError, match="leave out --scheme=bilou"):
    data.read(str(path), scheme="bilou")
