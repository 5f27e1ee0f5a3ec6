"""Runs that write two small files as six shards, to test shard writers."""

import hashlib
import json
import os

import small_corpus
from pretraining import sharding


def make_record_options(folder, **options):
  return small_corpus.record_options(
    **{
      "vocab_file": small_corpus.write_vocab(folder),
      "max_seq_length": 32,
      "max_predictions_per_seq": 5,
      **options,
    }
  )


def make_run(folder, output="out/a.tfrecord", **options):
  """Returns a run that writes two files in `folder` as six shards."""
  files = [
    small_corpus.write_text(folder, f"{name}.txt", 20, seed=seed)
    for seed, name in enumerate("ab")
  ]
  size = sum(map(os.path.getsize, files))
  run = sharding.ShardedRun(
    make_record_options(folder, **options),
    files,
    str(folder / output),
    shard_bytes=-(-size // 6),
  )
  assert len(run.shards) == 6
  return run


def contents(run):
  """Returns {name: bytes} of all files in the output folder."""
  folder = os.path.dirname(run.manifest)
  bytes_by_name = {}
  for name in os.listdir(folder):
    with open(os.path.join(folder, name), "rb") as stream:
      bytes_by_name[name] = stream.read()
  return bytes_by_name


def assert_expected(run, expected):
  """Checks a finished run's files, and their entries in its manifest."""
  written = contents(run)
  manifest = json.loads(written.pop(os.path.basename(run.manifest)))
  assert written == expected
  for name, data in written.items():
    shard = manifest["shards"][name]
    assert shard["bytes"] == len(data)
    assert shard["sha256"] == hashlib.sha256(data).hexdigest()
