"""create_pretraining_data.py as a user types it."""

import gzip
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import data_files

ROOT = pathlib.Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden"
INPUTS = GOLDEN / "pretraining_data" / "inputs"


def run(tmp_path, *arguments):
  """Runs the script in tmp_path with the uncased vocabulary as vocab.txt."""
  packed = GOLDEN / "tokenization" / "uncased_vocab.txt.gz"
  (tmp_path / "vocab.txt").write_bytes(gzip.decompress(packed.read_bytes()))
  return subprocess.run(
    [
      sys.executable,
      str(ROOT / "create_pretraining_data.py"),
      "--vocab_file=vocab.txt",
      *arguments,
    ],
    cwd=tmp_path,
    capture_output=True,
    text=True,
    check=False,
  )


def read_features(*paths):
  records = []
  for path in paths:
    records.extend(data_files.read_records(path))
  return {
    name: np.stack([record[name] for record in records]) for name in records[0]
  }


def test_several_inputs_and_outputs(tmp_path):
  names = [f"multi_io.tfrecord-{index:05}-of-00003" for index in range(3)]
  done = run(
    tmp_path,
    f"--input_file={INPUTS}/sample_text.txt,{INPUTS}/second_corpus.txt",
    f"--output_file=out/{',out/'.join(names)}",
    "--dupe_factor=5",
  )
  assert done.returncode == 0, done.stderr
  assert "Wrote 72 instances" in done.stderr
  assert "Instance 0: [CLS] " in done.stderr
  assert sorted(os.listdir(tmp_path / "out")) == names
  features = read_features(*(str(tmp_path / "out" / name) for name in names))
  golden = np.load(GOLDEN / "pretraining_data" / "multi_io.npz")
  assert set(features) == set(golden)
  for feature, expected in golden.items():
    np.testing.assert_array_equal(features[feature], expected, feature)


def test_a_single_document_works_with_a_warning(tmp_path):
  done = run(
    tmp_path,
    f"--input_file={INPUTS}/single_doc.txt",
    "--output_file=a.tfrecord",
    "--max_seq_length=32",
    "--max_predictions_per_seq=5",
    "--dupe_factor=5",
  )
  assert done.returncode == 0, done.stderr
  assert "The text is a single document" in done.stderr
  features = read_features(str(tmp_path / "a.tfrecord"))
  golden = np.load(GOLDEN / "pretraining_data" / "single_doc.npz")
  np.testing.assert_array_equal(features["input_ids"], golden["input_ids"])


@pytest.mark.parametrize(
  "arguments, sentence",
  [
    (
      [f"--input_file={INPUTS}/bad_utf8.txt"],
      "bad_utf8.txt:2: not UTF-8",
    ),
    (
      [f"--input_file={INPUTS}/odd_corpus.txt", "--vocab_file=none.txt"],
      "no such vocabulary file: none.txt",
    ),
    (
      [f"--input_file={INPUTS}/odd_corpus.txt", "--output_file=vocab.txt/a"],
      "vocab.txt",
    ),
  ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
  tmp_path, arguments, sentence
):
  done = run(tmp_path, "--output_file=a.tfrecord", *arguments)
  assert done.returncode == 1
  last = done.stderr.strip().split("\n")[-1]
  assert last.startswith("create_pretraining_data.py: error: ")
  assert sentence in last
  assert "Traceback" not in done.stderr
  assert os.listdir(tmp_path) == ["vocab.txt"]
