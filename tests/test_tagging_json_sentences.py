"""Tests of sentences as JSON lines."""

import json

import pytest

from common import errors
from tagging import dataset, json_sentences


def write(tmp_path, *objects):
  path = tmp_path / "file.jsonl"
  lines = [o if isinstance(o, str) else json.dumps(o) for o in objects]
  path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
  return str(path)


def test_words_labels_and_documents(tmp_path):
  path = write(
    tmp_path,
    {"words": ["Zürich", "won"], "labels": ["B-LOC", "O"], "document": "a"},
    "",
    {"tokens": ["x"], "ner_tags": ["O"], "document": "a"},
    {"tokens": ["y"], "ner_tags": ["O"], "document": "b"},
  )
  assert json_sentences.has_labels(path)
  assert json_sentences.read_sentences(path) == [
    dataset.Sentence(0, [1, 1], ["Zürich", "won"], ["B-LOC", "O"]),
    dataset.Sentence(0, [3], ["x"], ["O"]),
    dataset.Sentence(1, [4], ["y"], ["O"]),
  ]


def test_predictions_keep_all_other_keys(tmp_path):
  objects = [{"id": 7, "words": ["Zürich"]}, {"words": ["b", "c"]}]
  path = write(tmp_path, *objects)
  assert not json_sentences.has_labels(path)
  predicted = [["B-LOC"], ["O", "O"]]
  lines = list(json_sentences.with_predictions(path, predicted))
  assert lines[0] == '{"id": 7, "words": ["Zürich"], "predicted": ["B-LOC"]}\n'
  assert json.loads(lines[1]) == {**objects[1], "predicted": ["O", "O"]}


@pytest.mark.parametrize(
  "line, sentence",
  [
    ("{", "file.jsonl:2: not JSON"),
    ("[1]", "file.jsonl:2: no list of words"),
    ({"text": "a"}, "no list of words, .* called words or tokens; expected"),
    ({"words": []}, "no list of words"),
    ({"words": ["a", " "]}, "no list of words"),
    ({"words": ["a", 1]}, "no list of words"),
    ("[" * 100_000, "nested too deeply"),
    ({"words": ["a"]}, "1 words need as many labels, .* got None"),
    ({"words": ["a"], "labels": ["O", "O"]}, "1 words need as many labels"),
    ({"words": ["a"], "labels": [0]}, r"need as many labels, .* got \[0\]"),
    ({"words": ["a", "b"], "labels": ["O", "I-X"]},
     "file.jsonl:2, word 2: I-X follows O, which iob2 does not have"),
  ],
)
def test_what_is_wrong_is_named(tmp_path, line, sentence):
  path = write(tmp_path, {"words": ["a"], "labels": ["O"]}, line)
  with pytest.raises(errors.InputError, match=sentence):
    json_sentences.read_sentences(path)


def test_all_faults_are_listed_at_once(tmp_path):
  good = {"words": ["a"], "labels": ["O"]}
  path = write(tmp_path, "{", good, {"words": []}, good, {"words": ["a"]})
  with pytest.raises(errors.InputError) as raised:
    json_sentences.read_sentences(path)
  heading, *lines = str(raised.value).split("\n")
  assert heading == f"{path}: 3 faults; fix them:"
  assert [line.split(": ")[0] for line in lines] == [
    f"  {path}:{number}" for number in (1, 3, 5)
  ]
  # The first sentence that can be read says whether there are labels.
  assert json_sentences.has_labels(path)


def test_a_file_without_sentence_is_refused(tmp_path):
  with pytest.raises(errors.InputError, match="holds no sentence"):
    json_sentences.read_sentences(write(tmp_path, "", ""))
