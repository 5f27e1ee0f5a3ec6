"""finetuning_scores.py and its tagging peer: equal pieces and settings."""

import argparse
import json

import pytest

import finetuning_scores
import tagging_peer
import tiny_model
import tokenization
from message_facts import says
from tagging import data, windowing


class Encoded(dict):
  """Stands in for transformers' BatchEncoding, with the word of each piece."""

  def word_ids(self, number):
    return self["words"][number]


def encode_words(tokenizer, sentences, max_seq_length):
  """Stands in for a fast tokenizer of transformers; returns Encoded."""
  ids, word_ids = [], []
  cls_id, sep_id = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
  for words in sentences:
    pieces = [(n, p) for n, w in enumerate(words) for p in tokenizer.encode(w)]
    pieces = pieces[: max_seq_length - 2]
    ids.append([cls_id, *(piece for _, piece in pieces), sep_id])
    word_ids.append([None, *(number for number, _ in pieces), None])
  return Encoded(input_ids=ids, words=word_ids)


@pytest.fixture
def tokenizer(tmp_path):
  pieces = ["war", "##saw", "lies", "near", "."]
  return tokenization.FullTokenizer(
    tiny_model.write_vocabulary(tmp_path, pieces)
  )


COLUMNS = """-DOCSTART- O

warsaw B-NAME
lies O
near O
warsaw B-NAME

near O
. O"""


def test_both_programs_train_on_the_same_pieces(tmp_path, tokenizer):
  path = tmp_path / "names.conll"
  path.write_text(COLUMNS)
  sentences, columns = data.read(str(path)), tagging_peer.read_columns(path)
  assert columns == [(s.words, s.labels) for s in sentences]
  names = data.label_list(sentences)
  label_ids = data.label_ids(sentences, names, path)
  windows = windowing.make_windows(sentences, tokenizer, 16)

  def encode(sentences, **options):
    assert options.pop("is_split_into_words") and options.pop("truncation")
    return encode_words(tokenizer, sentences, options["max_length"])

  encoded = tagging_peer.tokenize(encode, columns, 16)
  for window, (row, pieces), labels in zip(
    windows, encoded, label_ids, strict=True
  ):
    assert row["input_ids"] == window.input_ids
    assert pieces == window.positions
    peer_labels = tagging_peer.with_labels(row, pieces, labels)["labels"]
    expected = [-1] * len(window.input_ids)
    for position, label in zip(window.positions, labels, strict=True):
      expected[position] = label
    assert [max(label, -1) for label in peer_labels] == expected
  # [CLS] war ##saw lies near war ##saw [SEP]
  assert encoded[0][1] == [1, 3, 4, 5]
  with pytest.raises(SystemExit, match=says("1", "3", "have no")):
    tagging_peer.first_pieces([None, 0, 0, 1, None], 3)


def test_both_programs_are_given_the_same_files_and_settings():
  arguments = finetuning_scores.parse_arguments(
    [
      "--task=ner",
      "--data_dir=names",
      "--weights=minilm",
      "--peer_python=python",
    ]
  )
  here = map(str, finetuning_scores.our_command(arguments, 2, "out"))
  *_, peer = finetuning_scores.peer_command(arguments, 2)
  same = {"seed": 2, "learning_rate": 0.0001, "max_seq_length": 128}
  flags = {f"--{name}={value}" for name, value in same.items()}
  files = {"--train_file=names/train.conll", "--eval_file=names/dev.conll"}
  assert flags | files < set(here)
  files = {
    "data_dir": "names",
    "train_file": "train.conll",
    "predict_file": "dev.conll",
  }
  peers = same | files | {"task": "ner"}
  assert (
    peers.items()
    < {
      name: value
      for name, value in json.loads(peer).items()
      if not isinstance(value, list)
    }.items()
  )


@pytest.mark.parametrize(
  "task, rows", [("mnli", "names\none\n"), ("cola", "names\n")]
)
def test_a_shortened_task_has_the_first_rows_but_is_scored_on_all(
  tmp_path, task, rows
):
  source, shortened = tmp_path / "task", tmp_path / "shortened"
  source.mkdir()
  for name in ("train", "dev_matched", "dev_mismatched"):
    (source / f"{name}.tsv").write_text("names\none\ntwo\nthree\n")
  arguments = argparse.Namespace(
    task=task, data_dir=source, max_train_examples=1, max_eval_examples=None
  )
  assert finetuning_scores.shortened(arguments, shortened) == shortened
  assert (shortened / "train.tsv").read_text() == rows
  for table in ("dev_matched.tsv", "dev_mismatched.tsv"):  # Not shortened.
    assert (shortened / table).read_text() == (source / table).read_text()
  arguments.max_train_examples = None
  finetuning_scores.shortened(arguments, shortened)
  assert (shortened / "train.tsv").read_text() == "names\none\ntwo\nthree\n"


def test_a_shortened_file_has_the_first_sentences_or_questions():
  assert finetuning_scores.first_examples(COLUMNS, "ner", 2) == (
    "-DOCSTART- O\n\nwarsaw B-NAME\nlies O\nnear O\nwarsaw B-NAME\n"
  )
  paragraphs = [{"qas": [1, 2]}, {"qas": [3]}, {"qas": [4]}]
  text = json.dumps({"data": [{"paragraphs": paragraphs}]})
  shortened = json.loads(finetuning_scores.first_examples(text, "squad", 3))
  assert shortened == {
    "data": [{"paragraphs": [{"qas": [1, 2]}, {"qas": [3]}]}]
  }


def test_stored_runs_are_not_repeated(tmp_path, monkeypatch, capsys):
  metrics = {"f1": 0.5, "precision": 0.5, "recall": 0.5}
  started = []

  def run(side, arguments, seed):
    started.append((side, seed))
    return {"metrics": metrics, "wall": 60.0, "processor": 120.0}

  monkeypatch.setattr(finetuning_scores, "run", run)
  flags = [
    "--task=ner",
    "--data_dir=names",
    "--weights=minilm",
    f"--runs_file={tmp_path / 'runs.jsonl'}",
  ]
  for seeds in ("1", "1,2"):
    arguments = finetuning_scores.parse_arguments([*flags, f"--seeds={seeds}"])
    runs = finetuning_scores.all_runs(arguments)
  assert started == [("ours", 1), ("ours", 2)]
  finetuning_scores.print_table("ner", runs)
  row = "| ner | f1 | ours | 2 | 0.5000 | 0.5000 | 0.0000 | 1.0 | 2.0 |"
  assert row in capsys.readouterr().out
