"""Runs create_pretraining_data.py as a user does."""

import json
import os
import pathlib
import re
import shutil

import numpy as np
import pytest

import script_flags
import script_runner
import small_corpus
import tiny_model
from common import errors, flags
from message_facts import says
from pretraining import vocabulary_notes
from records import tfrecord

SCRIPT = "create_pretraining_data.py"
GOLDEN = pathlib.Path(__file__).parent / "golden"
INPUTS = GOLDEN / "pretraining_data" / "inputs"


@pytest.fixture
def small(tmp_path):
  """Returns flags for a small text and vocabulary in tmp_path."""
  return {
    "input_file": small_corpus.write_text(tmp_path),
    "vocab_file": small_corpus.write_vocab(tmp_path),
    "output_file": str(tmp_path / "out" / "a.tfrecord"),
    "max_seq_length": 32,
    "max_predictions_per_seq": 5,
    "dupe_factor": 2,
  }


def run(code=0, **flags):
  return script_runner.run(SCRIPT, code=code, **flags)


def read_features(*paths):
  records = [r for path in paths for r in tfrecord.read_records(str(path))]
  return {
    name: np.stack([record[name] for record in records]) for name in records[0]
  }


def test_several_inputs_and_outputs(tmp_path):
  folder = tmp_path / "out"
  vocab = small_corpus.released_vocab(tmp_path)
  names = [f"multi_io.tfrecord-{index:05}-of-00003" for index in range(3)]
  finished = run(
    input_file=f"{INPUTS}/sample_text.txt,{INPUTS}/second_corpus.txt",
    output_file=",".join(f"{folder}/{name}" for name in names),
    vocab_file=vocab,
    dupe_factor=5,
    verbose=True,
  )
  for fact in (
    "Reading 2 file(s)",
    "documents: 4, sentences: 36, tokens: ",
    "Wrote 72 instances",
    "5/5 passes",
  ):
    assert fact in finished.err
  assert "single document" not in finished.err
  assert (
    sorted(
      name
      for name in os.listdir(folder)
      if not name.endswith(".vocabulary.manifest.json")
    )
    == names
  )
  features = read_features(*(folder / name for name in names))
  golden = np.load(GOLDEN / "pretraining_data" / "multi_io.npz")
  assert set(features) == set(golden)
  for feature, expected in golden.items():
    np.testing.assert_array_equal(features[feature], expected, feature)
  # The first records of all files are shown.
  shown = re.findall(r"Instance (\d): (\[CLS\] .*)", finished.err)
  assert [int(number) for number, _ in shown] == [0, 1, 2]
  tokens = pathlib.Path(vocab).read_text(encoding="utf-8").split("\n")
  assert [line for _, line in shown] == [
    line_of(next(tfrecord.read_records(str(folder / name))), tokens)
    for name in names
  ]


def line_of(record, tokens):
  """Returns the line that shows a record with a pair."""
  count = int(record["masked_lm_weights"].sum())
  used = int(record["input_mask"].sum())
  positions = record["masked_lm_positions"][:count].tolist()
  labels = " ".join(tokens[label] for label in record["masked_lm_ids"][:count])
  kind = ["actual", "random"][int(record["next_sentence_labels"][0])]
  words = " ".join(tokens[each] for each in record["input_ids"][:used])
  return (
    f"{words} | to predict at {positions}: {labels} | next sentence: {kind}"
  )


def test_a_single_document_works_with_a_warning(tmp_path):
  finished = run(
    input_file=f"{INPUTS}/single_doc.txt",
    output_file=f"{tmp_path}/a.tfrecord",
    vocab_file=small_corpus.released_vocab(tmp_path),
    max_seq_length=32,
    max_predictions_per_seq=5,
    dupe_factor=5,
  )
  assert "its text is a single document" in finished.err


def test_whole_words_and_compression(small, tmp_path):
  small["output_file"] += ".gz"
  run(**small, do_whole_word_mask=True)
  assert tfrecord.is_gzip(small["output_file"])
  ids = read_features(small["output_file"])
  piece = small_corpus.TOKENS.index("##s")
  assert (ids["masked_lm_ids"] == piece).any()
  # "##s" is masked only together with the piece before it.
  for labels in ids["masked_lm_ids"].tolist():
    assert labels[0] != piece or labels[1] == 0


def test_dynamic_masking_goes_through_the_text_once(small):
  del small["dupe_factor"], small["max_predictions_per_seq"]
  run(**small, dynamic_masking=True, packing="full_sentences")
  features = read_features(small["output_file"])
  assert sorted(features) == [
    "input_ids",
    "input_mask",
    "segment_ids",
    "word_starts",
  ]
  words = pathlib.Path(small["input_file"]).read_text().split()
  # Every word occurs once, and the sequences are nearly full.
  assert features["word_starts"].sum() == len(words)
  assert features["input_mask"].sum(1).mean() > 24


FULL = {"packing": "full_sentences"}
DYNAMIC = {"dynamic_masking": True, "max_predictions_per_seq": None}
PHRASES = {"masking": "phrases", "phrases_file": "{folder}/phrases"}
UNITS = {"units": "phrases"}


@pytest.mark.parametrize(
  "given, expected",
  [
    ({"dupe_factor": None}, {"dupe_factor": 10, "short_seq_prob": 0.1}),
    (FULL, {**FULL, "short_seq_prob": 0.0, "masking": "pieces"}),
    ({**FULL, "short_seq_prob": 0.5}, {**FULL, "short_seq_prob": 0.5}),
    ({"do_whole_word_mask": True}, {"masking": "whole_words", "units": None}),
    (
      {**DYNAMIC, "dupe_factor": None},
      {"masking": "none", "dupe_factor": 1, "packing": "sentence_pairs"},
    ),
    ({**DYNAMIC, **PHRASES}, {**UNITS, "masking": "none", "dupe_factor": 2}),
    (
      {**PHRASES, "mask_shares": "70,15,15"},
      {**UNITS, "masking": "phrases", "mask_shares": [0.7, 0.5]},
    ),
    ({**DYNAMIC, "masking": "spans"}, "no effect with --dynamic_masking"),
  ],
)
def test_the_options_that_flags_select(small, tmp_path, given, expected):
  """The manifest of shards has them."""
  (tmp_path / "phrases").write_text("the cat\n")
  flags = {
    name: value.format(folder=tmp_path) if name == "phrases_file" else value
    for name, value in given.items()
  }
  flags = {**small, **flags, "shard_size_mb": 1}
  if isinstance(expected, str):
    script_runner.refuse(SCRIPT, expected, **flags)
    return
  finished = run(**flags)
  assert "1 shard(s), described in " in finished.err
  manifest = json.loads((tmp_path / "out/a.tfrecord.manifest.json").read_text())
  assert {name: manifest[name] for name in expected} == expected
  shards = manifest["shards"].values()
  count = sum(shard["records"] for shard in shards)
  assert f"Wrote {count} instances to " in finished.err


def test_no_file_is_written_without_a_record(small, tmp_path):
  pathlib.Path(small["input_file"]).write_text("the cat\n\nthe dog\n")
  names = [f"{tmp_path}/out/{number}" for number in range(50)]
  small["output_file"] = ",".join(names)
  script_runner.refuse(SCRIPT, "cannot fill 50 files; name fewer in", **small)
  assert not any(map(os.path.exists, names))


UNKNOWN = re.compile(r"(\d+\.\d\d) % of the tokens are \[UNK\]")
WARNING = "of the tokens are [UNK], and the model learns nothing"


def test_the_share_of_unknown_tokens(small, tmp_path):
  """The share is logged for a single file and for shards."""
  text = "the cat sat .\nthe dog {} .\n\non the mat .\nthe cat ran .\n" * 9
  path = pathlib.Path(small["input_file"])
  path.write_text(text.replace("{}", "ran"))
  finished = run(**small)
  assert UNKNOWN.findall(finished.err) == ["0.00"]
  assert WARNING not in finished.err
  path.write_text(text.replace("{}", "zzz zzz zzz"))
  for shards in ({}, {"shard_size_mb": 1, "output_file": tmp_path / "shards"}):
    finished = run(**{**small, **shards})
    assert UNKNOWN.findall(finished.err) == ["16.67"]
    assert WARNING in finished.err


def test_shards_are_finished_by_the_next_run(small, tmp_path):
  small["shard_size_mb"] = 0.002
  finished = run(**small, num_processes=2)
  assert "100.0%" in finished.err
  folder = tmp_path / "out"
  names = sorted(os.listdir(folder))
  assert names[-1] == "a.tfrecord.manifest.json"
  shards = [folder / name for name in names[:-1]]
  assert [shard.name for shard in shards] == [
    f"a.tfrecord-{n:05}-of-{len(shards):05}" for n in range(len(shards))
  ]
  assert len(shards) > 1
  manifest = json.loads((folder / names[-1]).read_text())
  assert manifest["shard_bytes"] == 2000
  before = [shard.read_bytes() for shard in shards]
  shards[1].unlink()
  log = run(**small).err
  assert f"{len(shards) - 1} of {len(shards)} shards are finished" in log
  assert [shard.read_bytes() for shard in shards] == before
  script_runner.refuse(
    SCRIPT,
    "were made with dupe_factor 2, now it is 1",
    **{**small, "dupe_factor": 1},
  )


def test_a_model_folder_sets_the_text_options(small, tmp_path):
  folder = tmp_path / "model"
  folder.mkdir()
  words = small_corpus.WORDS
  tiny_model.write_shape(folder, words, max_position_embeddings=16)
  (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
  del small["max_seq_length"], small["vocab_file"]
  finished = run(**small, model_dir=folder)
  assert re.search(says("do_lower_case", "tokenizer_config.json"), finished.err)
  expected = pathlib.Path(small["output_file"]).read_bytes()
  assert read_features(small["output_file"])["input_ids"].shape[1] == 16
  run(
    **small,
    vocab_file=folder / "vocab.txt",
    max_seq_length=16,
    do_lower_case=False,
  )
  assert pathlib.Path(small["output_file"]).read_bytes() == expected
  os.remove(folder / "vocab.txt")
  for options, message in (
    ({"model_dir": folder}, "lacks vocab.txt or"),
    ({"model_dir": tmp_path / "none"}, "no such folder"),
    ({}, "Flag --vocab_file or --model_dir must have a value"),
  ):
    script_runner.refuse(SCRIPT, message, **small, **options)


@pytest.mark.parametrize(
  "flags, message",
  [
    ({"input_file": f"{INPUTS}/bad_utf8.txt"}, "bad_utf8.txt:2: not UTF-8"),
    ({"input_file": "/nowhere/*.txt"}, "no file matches '/nowhere/*.txt'"),
    ({"input_file": "{folder}/blank.txt"}, "blank.txt: no text in it"),
    ({"vocab_file": "{folder}/none.txt"}, "no such file"),
    ({"vocab_file": "{folder}/blank.txt"}, "blank.txt: no token in it"),
    ({"output_file": "{folder}/blank.txt/a"}, "blank.txt is not a folder"),
    ({"output_file": "a,./a"}, "--output_file: ./a and a are the same file"),
    ({"output_file": "a,,b"}, "an empty name"),
    ({"input_file": None}, "Flag --input_file must have a value"),
    ({"max_predictions_per_seq": -1}, "-1 is not an integer"),
    ({"dupe_factor": 0}, "--dupe_factor=0: 0 is not a positive integer"),
    (
      {"shard_size_mb": 1, "output_file": "a,b"},
      "with --shard_size_mb, give one name",
    ),
  ],
)
def test_bad_input_leaves_no_files(small, tmp_path, flags, message):
  (tmp_path / "blank.txt").write_text("\n\n")
  before = set(os.listdir(tmp_path))
  flags = {
    name: value.format(folder=tmp_path) if isinstance(value, str) else value
    for name, value in flags.items()
  }
  script_runner.refuse(SCRIPT, message, **{**small, **flags})
  out = tmp_path / "out"
  assert set(os.listdir(tmp_path)) - {"out"} == before
  assert not out.exists() or not os.listdir(out)


@pytest.mark.parametrize(
  "name, least, most",
  [
    ("max_seq_length", 5, 65536),
    ("max_predictions_per_seq", 0, 65536),
    ("dupe_factor", 1, None),
    ("masked_lm_prob", 0, 1),
    ("short_seq_prob", 0, 1),
  ],
)
def test_bounds_of_numbers(name, least, most):
  with script_flags.defined("create_pretraining_data"):
    parser = flags.FLAGS[name].parser
  assert (parser.lower_bound, parser.upper_bound) == (least, most)


@pytest.mark.parametrize(
  "flags, num_positions, num_masked",
  [
    ({"max_seq_length": 16, "max_predictions_per_seq": None}, 20, {1, 2}),
    ({"max_predictions_per_seq": 0}, 0, {0}),
    ({"masked_lm_prob": 0.0}, 5, {1}),
  ],
)
def test_extreme_values_that_the_original_accepts(
  small, flags, num_positions, num_masked
):
  """The cases: 20 predictions in 16 tokens, no predictions, probability 0."""
  run(**{**small, **flags})
  weights = read_features(small["output_file"])["masked_lm_weights"]
  assert weights.shape[1] == num_positions
  assert set(weights.sum(axis=1)) == num_masked


def test_a_pipe_is_refused(tmp_path):
  os.mkfifo(tmp_path / "pipe")
  script_runner.refuse(
    SCRIPT,
    "is not a regular file",
    input_file=tmp_path / "pipe",
    output_file=tmp_path / "out",
    vocab_file=tiny_model.write_vocabulary(tmp_path, []),
  )


def test_records_of_another_vocabulary_are_refused(tmp_path):
  """The vocabulary's checksum is next to a file, or in the shards' manifest."""
  (tmp_path / "text.txt").write_text("a b a.\nb a b a.\n\nb b a.\na a b.\n" * 9)
  for name, words in (("one.txt", "ab."), ("other.txt", "ba.")):
    tiny_model.write_vocabulary(tmp_path, words, name)
  flags = {"max_seq_length": 16, "max_predictions_per_seq": 2}
  for shards in (None, 1):
    output = tmp_path / f"{shards}.tfrecord"
    script_runner.succeed(
      SCRIPT,
      input_file=tmp_path / "text.txt",
      output_file=output,
      vocab_file=tmp_path / "one.txt",
      shard_size_mb=shards,
      **flags,
    )
    files = tfrecord.find_files(str(output))
    assert files
    vocabulary_notes.check(files, str(tmp_path / "one.txt"))
    with pytest.raises(
      errors.InputError, match="written with a different vocabulary"
    ):
      vocabulary_notes.check(files, str(tmp_path / "other.txt"))
  # A pattern matches only records, not the files next to them.
  assert tfrecord.find_files(str(tmp_path / "None.*")) == [
    str(tmp_path / "None.tfrecord")
  ]
  config = tiny_model.tiny(vocab_size=8, max_position_embeddings=16)
  (tmp_path / "c.json").write_text(config.to_json_string())
  noted = tmp_path / "None.tfrecord"
  plain = shutil.copy(noted, tmp_path / "plain.tfrecord")  # Without its note.
  for files in (
    {"input_file": noted},
    {"input_file": plain, "eval_input_file": noted},
  ):
    script_runner.refuse(
      "run_pretraining.py",
      "written with a different vocabulary",
      do_train=True,
      do_eval=True,
      **files,
      output_dir=tmp_path / "out",
      bert_config_file=tmp_path / "c.json",
      vocab_file=tmp_path / "other.txt",
      **flags,
    )
