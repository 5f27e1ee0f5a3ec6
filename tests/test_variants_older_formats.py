"""Vocabularies before tokenizer.json, compared with transformers."""

import base64
import json
import pickle

import pytest

import tiny_model
from checkpoints import model_writer
from common import errors
from features import text_batches
from script_runner import ROOT
from variants import vocabularies, vocabulary_files

PATH = ROOT / "tests" / "golden" / "older_tokenizers" / "ids.json"
GOLDEN = json.loads(PATH.read_text(encoding="utf-8"))
CASES = {case["name"]: case for case in GOLDEN["cases"]}
TEXTS = [text for text in GOLDEN["texts"] if not {"<", "["} & {*text}]


def write_folder(folder, name):
  """Writes the folder of a case; returns its VocabularyFiles."""
  folder.mkdir(exist_ok=True)
  case = CASES[name]
  for file, data in case["files"].items():
    (folder / file).write_bytes(base64.b64decode(data))
  config = json.dumps({"model_type": case["model_type"]})
  (folder / "config.json").write_text(config)
  if case["config"]:
    (folder / "tokenizer_config.json").write_text(json.dumps(case["config"]))
  return vocabulary_files.of_folder(str(folder), case["model_type"])


@pytest.mark.parametrize("name", CASES)
def test_ids_are_those_of_transformers(tmp_path, name):
  case, files = CASES[name], write_folder(tmp_path / "theirs", name)
  files.check()
  tokenizer = vocabularies.make_tokenizer(files)
  assert [*map(tokenizer.encode, TEXTS)] == case["ids"]
  encode = text_batches.make_encoder(tokenizer, 512)
  assert encode(*TEXTS[:2])[0] == case["pair"]
  assert tokenizer.mask_id == case["mask"]
  # An id that no file names would be beyond the model's embeddings.
  assert max(tokenizer.inv_vocab) <= max(case["mask"], *sum(case["ids"], []))
  words = TEXTS[0].split()
  assert sum(tokenizer.encode_words(words), []) == tokenizer.encode(TEXTS[0])
  # Worker processes get a copy.
  again = pickle.loads(pickle.dumps(tokenizer))
  assert [*map(again.encode, TEXTS)] == case["ids"]
  # A model of this project has the same files, which transformers reads, too.
  final = tmp_path / "final"
  final.mkdir()
  model_writer.write_config(str(final), tiny_model.tiny(), files.path, None)
  for file, data in case["files"].items():
    assert (final / file).read_bytes() == base64.b64decode(data)
  (final / "config.json").write_text(
    json.dumps({"model_type": case["model_type"]})
  )
  own = vocabulary_files.of_folder(str(final), case["model_type"])
  tokenizer = vocabularies.make_tokenizer(own)
  assert [*map(tokenizer.encode, TEXTS)] == case["ids"]


@pytest.mark.parametrize(
  "name, file, data, facts",
  [
    ("roberta", "merges.txt", b"#version: 0.2\na b\na b c\n", [":3", "a b c"]),
    ("roberta", "vocab.json", b"[1]", ["vocab.json"]),
    ("phobert", "vocab.txt", b"a@@ 3\nword\n", [":2", "word"]),
    ("phobert", "bpe.codes", b"a b 3\na\n", [":2", "'a'"]),
    ("albert", "spiece.model", b"\x0a\x7fabc", ["spiece.model", "copy it"]),
    ("albert", "spiece.model", b"\xff" * 30, ["spiece.model", "copy it"]),
    ("albert", "spiece.model", b"", ["0 pieces"]),
    (
      "albert",
      "spiece.model",
      b"\n\3\n\1a" * 5 + b"\x12\2\x18\2",
      ["algorithm 2"],
    ),
  ],
)
def test_damaged_files_are_named(tmp_path, name, file, data, facts):
  write_folder(tmp_path, name)
  (tmp_path / file).write_bytes(data)
  files = vocabulary_files.of_folder(str(tmp_path), CASES[name]["model_type"])
  with pytest.raises(errors.InputError) as refused:
    vocabularies.make_tokenizer(files)
  for fact in facts:
    assert fact in str(refused.value)


def test_normalized_tweets_are_refused(tmp_path):
  write_folder(tmp_path, "bertweet")
  (tmp_path / "tokenizer_config.json").write_text('{"normalization": true}')
  files = vocabulary_files.of_folder(str(tmp_path), "roberta")
  with pytest.raises(errors.InputError, match="normalization is true"):
    vocabularies.make_tokenizer(files)


def test_a_tokenizer_json_takes_precedence(tmp_path):
  assert write_folder(tmp_path, "roberta").path.endswith("vocab.json")
  (tmp_path / "tokenizer.json").write_text("{}")
  files = vocabulary_files.of_folder(str(tmp_path), "roberta")
  assert files.path.endswith("tokenizer.json")
