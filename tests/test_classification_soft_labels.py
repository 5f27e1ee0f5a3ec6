"""Soft labels: read from tables and lists, and learned by a student."""

import json
import pickle

import numpy as np
import pytest

import script_runner
import tiny_model
from classification import data, inputs, soft_labels
from common import errors
from test_classification_data import settings as read_settings

SOFT = {"losses": ["soft_labels"], "labels": [], "soft_label_columns": []}
CSV = "text,good,class text\nA,0.75,0.25\nB,0.4,0.6\n"
COLUMNS = {"soft_label_columns": ["good", "class text"]}


def read(tmp_path, text, name="a.csv", kind="single", **flags):
  path = tmp_path / name
  path.write_text(text, encoding="utf-8")
  return data.read(str(path), read_settings(**{**SOFT, **flags}), kind)


def test_a_column_per_class(tmp_path):
  first, second = read(tmp_path, CSV, **COLUMNS)
  assert (first.label, second.label) == ("good", "text")
  assert first.label.shares == (0.75, 0.25) and second.label.shares[1] == 0.6
  first, _ = read(tmp_path, CSV, labels=["b", "a"], **COLUMNS)
  assert first.label == "b"
  ids = inputs.label_ids([first], "single", ("b", "a"))
  assert ids.dtype == np.float32 and ids.tolist() == [[0.75, 0.25]]
  # Records of other probabilities are other records.
  assert repr(first.label) == "'b' of (0.75, 0.25)"
  assert pickle.loads(pickle.dumps(first)).label.shares == (0.75, 0.25)


@pytest.mark.parametrize("is_text", [False, True])
def test_a_list_per_text(tmp_path, is_text):
  value = [0.2, 0.8]
  row = {"text": "A", "label": json.dumps(value) if is_text else value}
  (example,) = read(
    tmp_path, json.dumps(row) + "\n", "a.jsonl", labels=["x", "y"]
  )
  assert example.label == "y" and example.label.shares == (0.2, 0.8)
  (example,) = read(
    tmp_path,
    json.dumps({"text": "A", "label": [0.5, 0.75]}) + "\n",
    "a.jsonl",
    "multi_label",
    labels=["x", "y"],
  )
  assert example.label == ("x", "y") and example.label.shares == (0.5, 0.75)
  assert soft_labels.hard(example.label) == ("x", "y")
  assert not soft_labels.is_soft(soft_labels.hard(example.label))


def test_a_list_may_be_pythons(tmp_path):
  text = 'text,label\nA,"[.25, .75]"\n'
  (example,) = read(tmp_path, text, labels=["x", "y"])
  assert example.label.shares == (0.25, 0.75)


@pytest.mark.parametrize(
  "kind, cells, shares",
  [
    ("single", "1,0", (1, 0)),
    ("single", "0.5,0.5009", (0.5 / 1.0009, 0.5009 / 1.0009)),
    ("single", "0.5,0.4991", (0.5 / 0.9991, 0.4991 / 0.9991)),
    ("single", "0.5,0.5011", None),
    ("single", "0.5,0.4989", None),
    ("multi_label", "1,1", (1, 1)),
    ("multi_label", "0,0", (0, 0)),
    ("multi_label", "0.5,1.002", None),
    ("multi_label", "-0.1,0.5", None),
  ],
)
def test_probabilities_are_from_0_to_1(tmp_path, kind, cells, shares):
  text = f"text,a,b\nA,{cells}\n"
  columns = {"soft_label_columns": ["a", "b"]}
  if shares is None:
    with pytest.raises(errors.InputError, match="a.csv:2: .*probabilities"):
      read(tmp_path, text, kind=kind, **columns)
    return
  (example,) = read(tmp_path, text, kind=kind, **columns)
  assert example.label.shares == pytest.approx(shares, abs=1e-9)


def test_a_label_may_lose_its_probabilities():
  one = soft_labels.SoftClass("a", (0.75, 0.25))
  several = soft_labels.SoftClasses(("a", "b"), (0.75, 0.5))
  for soft, hard in ((one, "a"), (several, ("a", "b"))):
    assert soft_labels.is_soft(soft) and not soft_labels.is_soft(hard)
    assert soft_labels.hard(soft) == soft_labels.hard(hard) == hard
    assert type(soft_labels.hard(soft)) is type(hard)
    assert pickle.loads(pickle.dumps(soft)).shares == soft.shares
  # Records of other probabilities are other records.
  assert repr(several) == "('a', 'b') of (0.75, 0.5)"
  assert soft_labels.array([]) is None and soft_labels.array(["a"]) is None
  assert soft_labels.array([one]).tolist() == [[0.75, 0.25]]


def test_logits_become_probabilities(tmp_path):
  text = "text,a,b\nA,2,-1\nB,-1000,1000\n"
  columns = {"soft_label_columns": ["a", "b"], "soft_labels_are_logits": True}
  first, second = read(tmp_path, text, **columns)
  expected = np.exp([2, -1]) / np.exp([2, -1]).sum()
  np.testing.assert_allclose(first.label.shares, expected)
  assert second.label == "b" and second.label.shares == (0, 1)
  first, _ = read(tmp_path, text, kind="multi_label", **columns)
  np.testing.assert_allclose(first.label.shares, 1 / (1 + np.exp([-2, 1])))


@pytest.mark.parametrize(
  "text, flags, facts",
  [
    ("text,a,b\nA,0.5,0.6\n", {}, ["a.csv:2", "up to 1", "_are_logits"]),
    ("text,a,b\nA,-1,2\n", {}, ["a.csv:2", "_are_logits"]),
    ("text,a,b\nA,-0.0005,1.0005\n", {}, ["a.csv:2", "_are_logits"]),
    (
      "text,a,b\nA,1_0,0\n",
      {"soft_labels_are_logits": True},
      ["a.csv:2", "2 finite numbers"],
    ),
    (
      'text,label\nA,"[true, 0]"\n',
      {"soft_label_columns": [], "labels": ["a", "b"]},
      ["a.csv:2", "2 finite numbers"],
    ),
    ("text,a,b\nA,nan,1\n", {}, ["a.csv:2", "2 finite numbers"]),
    ("text,a,b\nA,x,1\n", {}, ["a.csv:2", "a, b"]),
    ("text,a,b\nA,1,0\n", {"labels": ["a"]}, ["2 columns", "1 classes"]),
    (
      "text,label\nA,1\n",
      {"soft_label_columns": []},
      ["--soft_label_columns", "--labels"],
    ),
    (
      'text,label\nA,"[1, 0, 0]"\n',
      {"soft_label_columns": [], "labels": ["a", "b"]},
      ["a.csv:2", "2 finite numbers"],
    ),
  ],
)
def test_what_is_no_probability_per_class_is_refused(
  tmp_path, text, flags, facts
):
  with pytest.raises(errors.InputError) as raised:
    read(tmp_path, text, **{"soft_label_columns": ["a", "b"], **flags})
  assert all(fact in str(raised.value) for fact in facts), str(raised.value)


def test_a_student_learns_what_its_teacher_writes(tmp_path):
  """The two commands of docs/classification.md."""
  words = "the sea town is was good fine bad poor".split()
  vocabulary = tiny_model.write_vocabulary(tmp_path, words)
  config = tiny_model.tiny(
    vocab_size=32, max_position_embeddings=16, num_hidden_layers=1
  )
  (tmp_path / "config.json").write_text(config.to_json_string())
  rows = [
    f'the {noun} is "{word}"\t{label}\n'
    for noun in ("sea", "town")
    for word, label in (
      ("good", "a"),
      ("fine", "a"),
      ("bad", "b"),
      ("poor", "b"),
    )
  ]
  table = tmp_path / "all.tsv"
  table.write_text("text\tlabel\n" + "".join(rows))
  model = {
    "bert_config_file": tmp_path / "config.json",
    "vocab_file": vocabulary,
    "max_seq_length": 16,
    "learning_rate": 5e-3,
    "train_batch_size": 8,
    "num_train_epochs": 80,
    "optimizer": "adamw",
  }
  script_runner.succeed(
    "run_classifier.py",
    do_train=True,
    do_predict=True,
    train_file=table,
    predict_file=table,
    output_dir=tmp_path / "teacher",
    **model,
  )
  predictions = tmp_path / "teacher" / "predictions.tsv"
  assert predictions.read_text().split("\n")[0].split("\t")[3:5] == ["a", "b"]
  done = script_runner.succeed(
    "run_classifier.py",
    do_train=True,
    do_eval=True,
    train_file=predictions,
    eval_file=table,
    losses="soft_labels",
    soft_label_columns="a,b",
    distillation_temperature=2,
    output_dir=tmp_path / "student",
    **model,
  )
  # Seven of eight texts; a student without training has a half.
  assert script_runner.results_in(tmp_path / "student")["eval_accuracy"] > 0.8
  assert "quotes in its cells are read as in a CSV" in done.err
