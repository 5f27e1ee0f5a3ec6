"""A folder of transformers gives its ids; others give those of the original."""

import json

import numpy as np
import pytest
import tensorflow as tf

import tiny_model
import tokenization
from checkpoints import model_writer, tokenizer_files
from classification import data, sequences
from exports import graph_tokenizer, raw_text
from features import text_batches
from script_runner import ROOT
from text import input_sequences
from variants import vocabularies, vocabulary_files

PATH = ROOT / "tests" / "golden" / "like_transformers" / "ids.json"
GOLDEN = json.loads(PATH.read_text(encoding="utf-8"))
CASES = {case["name"]: case for case in GOLDEN["cases"]}
LISTS = [name for name, case in CASES.items() if case["list"]]


def write_folder(folder, name, **more):
  """Writes the folder of a case; returns its VocabularyFiles."""
  folder.mkdir(exist_ok=True)
  case = CASES[name]
  for file, values in {**case["files"], **more}.items():
    (folder / file).write_text(json.dumps(values), encoding="utf-8")
  if case["list"]:
    text = "\n".join(GOLDEN["vocab"]) + "\n"
    (folder / "vocab.txt").write_text(text, encoding="utf-8")
  variant = case["files"]["config.json"]["model_type"]
  return vocabulary_files.of_folder(str(folder), variant)


def tokenizer_of(files):
  files.check()
  return vocabularies.make_tokenizer(
    files, do_lower_case=bool(files.do_lower_case)
  )


def ids_of(files):
  return [*map(tokenizer_of(files).encode, GOLDEN["texts"])]


def pairs_of(files):
  return [
    text_batches.make_encoder(tokenizer_of(files), length)(*pair)[0]
    for length in GOLDEN["lengths"]
    for pair in GOLDEN["pairs"]
  ]


@pytest.mark.parametrize("name", CASES)
def test_ids_and_truncated_pairs_are_those_of_transformers(tmp_path, name):
  case, files = CASES[name], write_folder(tmp_path, name)
  assert files.is_list == case["list"]
  assert ids_of(files) == case["ids"]
  assert pairs_of(files) == case["pairs"]
  ids, lengths, _ = tokenizer_of(files).encode_lines(GOLDEN["texts"])
  assert list(ids) == sum(case["ids"], [])
  # Training and evaluation build their records from the same spans.
  for number, length in enumerate(GOLDEN["lengths"]):
    options = sequences.InputOptions(
      task_kind="single",
      labels=("0",),
      max_seq_length=length,
      vocab_file=files.path,
      do_lower_case=bool(files.do_lower_case),
    )
    examples = [data.Example("", *pair, "0") for pair in GOLDEN["pairs"]]
    rows, *_ = sequences.encode(examples, options)
    first = number * len(examples)
    for row, expected in enumerate(case["pairs"][first:][: len(examples)]):
      mask = rows["input_mask"][row] > 0
      assert rows["input_ids"][row][mask].tolist() == expected


@pytest.mark.parametrize(
  "name",
  [
    pytest.param(name, marks=[pytest.mark.slow] * (number > 0))
    for number, name in enumerate(LISTS)
  ],
)
def test_a_saved_models_graph_gives_the_same(tmp_path, name):
  tokenizer = tokenizer_of(write_folder(tmp_path, name))
  graph = graph_tokenizer.GraphTokenizer(tokenizer)
  ids = graph.tokenize(tf.constant(GOLDEN["texts"])).ids
  assert ids.to_list() == CASES[name]["ids"]
  firsts, seconds = (
    graph.tokenize(tf.constant(texts)).ids for texts in zip(*GOLDEN["pairs"])
  )
  expected = iter(CASES[name]["pairs"])
  for length in GOLDEN["lengths"]:
    rows = raw_text.pair_inputs(firsts, seconds, length, tokenizer.frame)
    for row, mask in zip(rows["input_ids"], rows["input_mask"]):
      assert row[mask > 0].numpy().tolist() == next(expected)


@pytest.mark.parametrize("name", ["bert lower", "file lower", "roberta"])
def test_a_folder_of_this_project_keeps_the_rule_of_its_training(
  tmp_path, name
):
  """Also an export, whose files look like another program's."""
  theirs = write_folder(tmp_path / "theirs", name)
  ours = write_folder(tmp_path / "ours", name, **{"bert_config.json": {}})
  assert theirs.like_transformers and not ours.like_transformers
  assert pairs_of(ours) != pairs_of(theirs)
  for number, files in enumerate((theirs, ours)):
    case = bool(files.do_lower_case)
    final = tmp_path / f"final_{number}"
    final.mkdir()
    config = tiny_model.tiny()
    model_writer.write_config(str(final), config, files.path, case)
    export = tmp_path / f"export_{number}"
    export.mkdir()
    tokenizer_files.write(str(export), files.path, case, 12, fast=True)
    for folder in (final, export):
      again = vocabulary_files.of_folder(str(folder))
      assert ids_of(again) == ids_of(files)
      assert pairs_of(again) == pairs_of(files)
    # A conversion for transformers has only files that transformers writes.
    converted = tmp_path / f"converted_{number}"
    converted.mkdir()
    tokenizer_files.write(
      str(converted), files.path, case, 12, fast=True, keeps_rule=False
    )
    again = vocabulary_files.of_folder(str(converted))
    assert pairs_of(again) == CASES[name]["pairs"]
    assert ids_of(again) == CASES[name]["ids"]


def test_the_odd_piece_goes_to_one_text_only():
  sizes = np.arange(8)
  first, second = (each.ravel() for each in np.meshgrid(sizes, sizes))
  for room in range(12):
    for odd_to_longer in (False, True):
      cut = input_sequences.truncated_lengths(
        first, second, room, odd_to_longer=odd_to_longer
      )
      np.testing.assert_array_equal(sum(cut), np.minimum(first + second, room))
      # transformers keeps one more piece of the longer text.
      gap = cut[1] - cut[0]
      is_cut = (cut[0] < first) & (cut[1] < second) & (room % 2 == 1)
      longer = np.where(first > second, -1, 1) if odd_to_longer else -1
      assert (gap == longer)[is_cut].all()


def test_the_originals_rules_are_the_default(tmp_path):
  path = tiny_model.write_vocabulary(tmp_path, ["##a", "a", "\u03c2", "\u03c3"])
  tokenizer = tokenization.FullTokenizer(path)
  assert tokenizer.tokenize("a" * 200) == ["a"] + ["##a"] * 199
  assert tokenizer.tokenize("\u03a3\u03a3") == ["[UNK]"]
  assert not tokenizer.frame.odd_to_longer
