"""The comparison of taggers: its data, and the peer's labels and scores."""

import argparse
import json
import pathlib
import random
import sys

import pytest

import tokenization
from common import errors
from tagging import dataset, scoring

# Benchmarks are run from their folder and import each other.
sys.path.append(str(pathlib.Path(__file__).parents[1] / "benchmarks"))

import finetuning_scores
import tagging_data
import tagging_peer

# name of the article -> its paragraphs
ARTICLES = {
  "one": ["Warsaw lies on the Vistula. It is near the town of Łódź."],
  "two": ["He saw Tesla's flat in New York City. In the U.S. he stayed on."],
  "three": [
    # Too short; with an accent that no letter takes; as it should be.
    "Too short. The q\u0301 is no letter of its own. He owned an iPod in 2008."
  ],
  "four": ["The rest of it is here again. From Warsaw to Paris they went."],
  "five": ["Warsaw and Paris are not small. The others are small towns."],
}


def make(tmp_path, **counts):
  """Runs tagging_data.py; returns the texts of its two files."""
  articles = [
    {"title": title, "paragraphs": [{"context": text} for text in texts]}
    for title, texts in ARTICLES.items()
  ]
  squad = tmp_path / "squad.json"
  squad.write_text(json.dumps({"data": articles}))
  folder = tmp_path / "made"
  tagging_data.make(argparse.Namespace(
    squad_file=squad, output_dir=folder,
    **{"train_sentences": 7, "dev_sentences": 2, **counts},
  ))
  return [
    (folder / name).read_text(encoding="utf-8")
    for name in ("train.conll", "dev.conll")
  ]


def rows_of(text):
  """Returns (words, tags) of each sentence, read by the project."""
  sentences = dataset.parse_sentences(
    enumerate(text.split("\n"), 1), "made", scheme="iob2"
  )
  return [(" ".join(s.words), " ".join(s.labels)) for s in sentences]


def test_words_that_had_a_capital_are_names(tmp_path):
  train, dev = make(tmp_path)
  assert rows_of(train) == [
    # Inside another sentence it has a capital, too.
    ("warsaw lies on the vistula .", "B-NAME O O O B-NAME O"),
    ("it is near the town of łódź .", "O O O O O O B-NAME O"),
    ("he saw tesla 's flat in new york city .",
     "O O B-NAME O O O B-NAME I-NAME I-NAME O"),
    ("in the u.s. he stayed on .", "O O B-NAME O O O O"),
    ("he owned an ipod in 2008 .", "O O O B-NAME O O O"),
    ("the rest of it is here again .", "O O O O O O O O"),
    ("from warsaw to paris they went .", "O B-NAME O B-NAME O O O"),
  ]
  assert rows_of(dev) == [
    ("warsaw and paris are not small .", "B-NAME O B-NAME O O O O"),
    ("the others are small towns .", "O O O O O O"),
  ]
  assert train.count("-DOCSTART-") == 4 and dev.count("-DOCSTART-") == 1


def test_the_same_file_gives_the_same_columns(tmp_path):
  assert make(tmp_path) == make(tmp_path)


def test_fewer_sentences_are_taken_at_equal_distances(tmp_path):
  everything, _ = make(tmp_path)
  fewer, _ = make(tmp_path, train_sentences=3)
  rows = rows_of(everything)
  assert rows_of(fewer) == [rows[0], rows[2], rows[4]]


def test_more_sentences_than_there_are_is_a_fault(tmp_path):
  with pytest.raises(errors.InputError, match="there are 2 sentences, 3 are"):
    make(tmp_path, dev_sentences=3)


def test_a_file_that_is_not_of_squad_is_a_fault(tmp_path):
  path = tmp_path / "other.json"
  path.write_text('{"data": [{"title": "no paragraphs"}]}')
  with pytest.raises(errors.InputError, match="other.json has no data, par"):
    tagging_data.read_articles(path)


def peer_scores_of_ours(gold, predicted):
  """Returns what the project's scorer says, under the peer's names."""
  found = scoring.entity_scores(gold, predicted)
  return {name: found[name] for name in ("precision", "recall", "f1")}


def test_a_hand_made_prediction_scores_the_same_in_both_programs():
  gold = [["B-NAME", "I-NAME", "O", "B-NAME"], ["O", "B-NAME", "B-NAME"]]
  predicted = [
    ["B-NAME", "I-NAME", "O", "O"],  # One of two.
    ["I-NAME", "I-NAME", "B-NAME"],  # Words 0 to 1, which is wrong, and 2.
  ]
  expected = {
    "precision": 2 / 3, "recall": 2 / 4, "f1": pytest.approx(4 / 7)
  }
  assert tagging_peer.scores(gold, predicted) == expected
  assert peer_scores_of_ours(gold, predicted) == expected


def test_any_prediction_scores_the_same_in_both_programs():
  """Also one that breaks IOB2: a network may predict I after O."""
  rng = random.Random(1)
  tags = ["O", "B-NAME", "I-NAME", "B-PLACE", "I-PLACE"]
  for _ in range(300):
    lengths = [rng.randint(1, 8) for _ in range(4)]
    gold = [rng.choices(tags, k=length) for length in lengths]
    predicted = [[rng.choice([t, rng.choice(tags)]) for t in g] for g in gold]
    assert tagging_peer.scores(gold, predicted) == pytest.approx(
      peer_scores_of_ours(gold, predicted)
    )


def test_nothing_found_and_nothing_there_is_zero():
  gold = [["O", "O"]]
  assert tagging_peer.scores(gold, gold) == peer_scores_of_ours(gold, gold)


class Encoded(dict):
  """Inputs as transformers gives them: with the words of the pieces."""

  def word_ids(self, number):
    return self["words"][number]


def words_of_pieces(tokenizer, sentences, max_seq_length):
  """Stands in for a fast tokenizer of transformers; returns Encoded."""
  ids, numbers = [], []
  cls_id, sep_id = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
  for words in sentences:
    pieces = [(n, p) for n, w in enumerate(words) for p in tokenizer.encode(w)]
    pieces = pieces[: max_seq_length - 2]
    ids.append([cls_id, *(piece for _, piece in pieces), sep_id])
    numbers.append([None, *(number for number, _ in pieces), None])
  return Encoded(input_ids=ids, words=numbers)


@pytest.fixture
def tokenizer(tmp_path):
  pieces = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "war", "##saw", "lies", "near", "."
  ]
  (tmp_path / "vocab.txt").write_text("".join(f"{p}\n" for p in pieces))
  return tokenization.FullTokenizer(str(tmp_path / "vocab.txt"))


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
  ours, theirs = (
    dataset.read_sentences(str(path)), tagging_peer.read_columns(path)
  )
  assert theirs == [(s.words, s.labels) for s in ours]
  names = dataset.label_list(ours)
  numbers = dataset.label_ids(ours, names, path)
  windows = dataset.make_windows(ours, tokenizer, 16)

  def encode(sentences, **options):
    assert options.pop("is_split_into_words") and options.pop("truncation")
    return words_of_pieces(tokenizer, sentences, options["max_length"])

  encoded = tagging_peer.tokenize(encode, theirs, 16)
  for window, (inputs, pieces), labels in zip(
    windows, encoded, numbers, strict=True
  ):
    assert inputs["input_ids"] == window.input_ids
    assert pieces == window.positions
    found = tagging_peer.with_labels(inputs, pieces, labels)["labels"]
    expected = dataset.window_label_ids(window, numbers)
    assert [max(label, -1) for label in found] == expected
  # [CLS] war ##saw lies near war ##saw [SEP]
  assert encoded[0][1] == [1, 3, 4, 5]


def test_a_word_that_is_cut_off_is_a_fault_of_the_peer():
  with pytest.raises(SystemExit, match="1 of a sentence's 3 words have no"):
    tagging_peer.first_pieces([None, 0, 0, 1, None], 3)


def parsed(monkeypatch, *flags):
  """Returns the arguments of finetuning_scores.py for tags."""
  monkeypatch.setattr(
    sys, "argv",
    ["finetuning_scores.py", "--task=ner", "--data_dir=names",
     "--weights=minilm", "--peer_python=python", *flags],
  )
  return finetuning_scores.parse_arguments()


def test_both_programs_are_given_the_same_files_and_settings(monkeypatch):
  arguments = parsed(monkeypatch)
  ours = map(str, finetuning_scores.our_command(arguments, 2, "out"))
  theirs = map(str, finetuning_scores.peer_command(arguments, 2))
  flags = {"--seed=2", "--learning_rate=0.0001", "--max_seq_length=128"}
  files = {"--train_file=names/train.conll", "--eval_file=names/dev.conll"}
  assert flags | files < set(ours)
  files = {
    "--data_dir=names", "--train_file=train.conll", "--predict_file=dev.conll"
  }
  assert flags | files | {"--task=ner"} < set(theirs)


def test_a_part_of_the_sentences_is_not_asked_for_here(monkeypatch, capsys):
  with pytest.raises(SystemExit):
    parsed(monkeypatch, "--max_train_examples=5")
  assert "write a shorter --train_file" in capsys.readouterr().err
