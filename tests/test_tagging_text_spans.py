"""Tests how annotated characters become labels of words, and vice versa."""

import json

import pytest

from common import errors
from message_facts import says
from tagging import data, text_spans

TEXT = "Anna O'Neil (U.N.) is in Zürich."


@pytest.mark.parametrize(
  "spans",
  [
    [[25, 31, "LOC"], [0, 11, "PER"]],
    [
      {"start": 0, "end": 11, "label": "PER", "token_start": 0},
      {"start": 25, "end": 31, "label": "LOC"},
    ],
    [
      {"id": 1, "label": "PER", "start_offset": 0, "end_offset": 11},
      {"id": 2, "label": "LOC", "start_offset": 25, "end_offset": 31},
    ],
  ],
)
@pytest.mark.parametrize("name", text_spans.NAMES)
def test_files_of_annotators(tmp_path, spans, name):
  path = tmp_path / "file.jsonl"
  path.write_text(json.dumps({"id": 3, "text": TEXT, name: spans}) + "\n")
  for labelled in (True, None):
    (sentence,) = data.read(str(path), labelled=labelled)
    assert sentence.words[:4] == ["Anna", "O", "'", "Neil"]
    assert sentence.labels == [
      "B-PER",
      "I-PER",
      "I-PER",
      "I-PER",
      *"OOOOOOOO",
      "B-LOC",
      "O",
    ]
  (line,) = data.with_predictions(str(path), "jsonl", [sentence.labels], "iob2")
  assert json.loads(line) == {
    "id": 3,
    "text": TEXT,
    name: spans,
    "predicted": [[0, 11, "PER"], [25, 31, "LOC"]],
  }


def test_examples_that_prodigy_users_refused_are_left_out(tmp_path, caplog):
  path = tmp_path / "file.jsonl"
  lines = [
    json.dumps(
      {
        "text": TEXT,
        "tokens": [{"text": "Anna", "start": 0, "end": 4, "id": 0}],
        "spans": [{"start": 0, "end": 11, "label": label}],
        "answer": answer,
      }
    )
    for label, answer in (("A", "reject"), ("B", "accept"), ("C", "ignore"))
  ]
  path.write_text("\n".join(lines))
  (sentence,) = data.read(str(path))
  assert sentence.labels[:4] == ["B-B", "I-B", "I-B", "I-B"]
  assert ": skipped 2 examples whose answer is reject or ignore" in caplog.text
  sentences = data.read(str(path), labelled=None)
  lines = data.with_predictions(
    str(path), "jsonl", [each.labels for each in sentences], "iob2"
  )
  assert [json.loads(line)["predicted"] for line in lines] == [
    [[0, 11, "A"]],
    [[0, 11, "B"]],
    [[0, 11, "C"]],
  ]


def exported(*values, cancelled=()):
  """Returns a task as in Label Studio's JSON export."""
  annotations = [
    {
      "id": 1,
      "completed_by": 1,
      "was_cancelled": was_cancelled,
      "result": [
        {
          "value": value,
          "id": "a",
          "from_name": "label",
          "to_name": "text",
          "type": "labels",
          "origin": "manual",
        }
        for value in part
      ]
      + [{"from_id": "a", "to_id": "b", "type": "relation"}],
    }
    for part, was_cancelled in ((cancelled, True), (values, False))
  ]
  return {
    "id": 3,
    "annotations": annotations,
    "data": {"text": TEXT},
    "predictions": [],
    "project": 1,
  }


NAMED = [
  {"start": 25, "end": 31, "text": "Zürich", "labels": ["LOC"]},
  {"start": 0, "end": 11, "text": "Anna O'Neil", "labels": ["PER"]},
]


@pytest.mark.parametrize(
  "tasks",
  [
    [exported(*NAMED, {"choices": ["good"]}, cancelled=NAMED[:1])] * 2,
    [
      {name: exported(*NAMED)[name] for name in ("annotations", "data")},
      exported(*NAMED),
    ],
    [{"id": 3, "text": TEXT, "label": NAMED}] * 2,  # JSON-MIN.
  ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_exports_of_label_studio(tmp_path, tasks, indent):
  path = tmp_path / "export.json"
  path.write_text(json.dumps(tasks, indent=indent))
  for labelled in (True, None):
    first, second = data.read(str(path), labelled=labelled)
    assert (
      first.labels
      == second.labels
      == ["B-PER", "I-PER", "I-PER", "I-PER", *"OOOOOOOO", "B-LOC", "O"]
    )
  *_, line = data.with_predictions(
    str(path), "jsonl", [first.labels] * 2, "iob2"
  )
  line = json.loads(line)
  assert (line["id"], line["text"]) == (3, TEXT)
  assert line["predicted"] == [[0, 11, "PER"], [25, 31, "LOC"]]


@pytest.mark.parametrize(
  "change, message",
  [
    ({"data": {"body": TEXT}}, says(":2", "'text'", "no", "body")),
    ({"data": {}}, says(":2", "'text'", "no", "none")),
    ({"data": 5}, says(":2", "not")),
    ({"annotations": [{}]}, says(":2", "not")),
    ({"annotations": 5}, says(":2", "not")),
    ({"annotations": []}, says(":2", "no")),
    (
      exported({"start": 0, "end": 4, "labels": ["A", "B"]}),
      ":2: .* not a span",
    ),
    (exported({"start": 0, "end": 3, "labels": ["A"]}), ":2: the span 0 to 3"),
  ],
)
def test_other_exports_are_refused(tmp_path, change, message):
  path = tmp_path / "export.json"
  path.write_text(json.dumps([exported(*NAMED), exported(*NAMED) | change]))
  with pytest.raises(errors.InputError, match=message):
    data.read(str(path))


def test_a_text_without_labels_can_be_read(tmp_path):
  path = tmp_path / "file.jsonl"
  path.write_text(json.dumps({"text": TEXT}))
  (sentence,) = data.read(str(path), labelled=None)
  assert sentence.labels is None and len(sentence.words) == 14


@pytest.mark.parametrize(
  "spans, message",
  [
    ([[0, 3, "PER"]], says(":1", "0", "3", "'Ann'", "not")),
    ([[25, 32, "X"], [31, 32, "Y"]], says("31", "32", "'.'")),
    ([[11, 25, "X"]], "does not begin and end at word boundaries"),
    ([[0, 4]], says("0", "4", "ORG", "not", "expected")),
    ([[0, 4, " "]], "is not a span"),
    ([{"start": 0}], "is not a span"),
    ({"a": 1}, "no list of spans"),
  ],
)
def test_spans_that_are_not_words_are_refused(tmp_path, spans, message):
  path = tmp_path / "file.jsonl"
  path.write_text(json.dumps({"text": TEXT, "entities": spans}))
  with pytest.raises(errors.InputError, match=message):
    data.read(str(path))


def test_spans_have_one_scheme(tmp_path):
  path = tmp_path / "file.jsonl"
  path.write_text(json.dumps({"text": TEXT, "entities": []}))
  with pytest.raises(errors.InputError, match="leave out --scheme=bilou"):
    data.read(str(path), scheme="bilou")


@pytest.mark.parametrize(
  "labels, scheme, spans",
  [
    ("PER PER LOC", "iob2", [[0, 7, "PER"], [8, 11, "LOC"]]),
    ("B_PER O PER-I", "iob2", [[0, 3, "B_PER"], [8, 11, "PER-I"]]),
    ("B-PER I-PER o", "iob2", [[0, 7, "PER"], [8, 11, "o"]]),
    ("PER PER O", "plain", [[0, 7, "PER"]]),
    ("S-x S-x O", "plain", [[0, 7, "S-x"]]),
    ("NN NN O", "none", [[0, 3, "NN"], [4, 7, "NN"]]),
  ],
)
def test_labels_without_tags_are_types(tmp_path, labels, scheme, spans):
  path = tmp_path / "file.jsonl"
  path.write_text('{"text": "the cat sat"}')
  (line,) = data.with_predictions(str(path), "jsonl", [labels.split()], scheme)
  assert json.loads(line)["predicted"] == spans
