"""Tests that restarts and the number of processes do not change the shards."""

import functools
import hashlib
import json
import os
import pathlib

import pytest

from common import errors, file_io, process_pool
from message_facts import says
from pretraining import data, record_maker, sharding
from records import tfrecord
from sharded_runs import (
  assert_expected,
  contents,
  make_record_options,
  make_run,
)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
  run = make_run(tmp_path_factory.mktemp("expected"))
  run.make()
  return {
    name: data
    for name, data in contents(run).items()
    if not name.endswith(".json")
  }


def test_names():
  assert sharding.shard_names("d/x.gz", 2) == [
    "d/x-00000-of-00002.gz",
    "d/x-00001-of-00002.gz",
  ]
  assert sharding.shard_names("x", 1) == ["x-00000-of-00001"]
  assert tfrecord.manifest_name("d/x.gz") == "d/x.manifest.json"


def test_a_shard_is_what_its_text_alone_would_give(tmp_path, expected):
  run = make_run(tmp_path)
  results = run.make()
  assert_expected(run, expected)
  assert sum(result.records for result in results) > 600
  maker = record_maker.RecordMaker(run.options)
  for shard, result in zip(run.shards, results):
    text = tmp_path / "shard.txt"
    lines = data.read_lines(shard.pieces, joined=False)
    text.write_text("\n".join(lines))
    corpus = maker.read(data.whole_files([str(text)]), joined=True)
    with tfrecord.RecordWriter(str(tmp_path / "alone")) as writer:
      count = maker.write(corpus, [writer], seed=12345 + shard.number)
    assert count == result.records
    assert (tmp_path / "alone").read_bytes() == (
      expected[os.path.basename(shard.output)]
    )


@pytest.mark.parametrize("num_processes", [2, 3])
def test_any_number_of_processes(tmp_path, expected, num_processes):
  run = make_run(tmp_path)
  run.make(functools.partial(process_pool.in_order, processes=num_processes))
  assert_expected(run, expected)


def test_a_failed_run_keeps_its_finished_shards(tmp_path, expected):
  run = make_run(tmp_path)
  text = tmp_path / "b.txt"
  whole = text.read_bytes()
  text.write_bytes(b"\xff" + whole[1:])
  with pytest.raises(errors.InputError, match="b.txt:1: not UTF-8"):
    run.make()
  text.write_bytes(whole)
  unchanged = os.stat(run.shards[0].output)
  run.make()
  assert_expected(run, expected)
  assert os.stat(run.shards[0].output) == unchanged


def test_only_what_is_missing_or_cut_off_is_made_again(tmp_path, expected):
  run = make_run(tmp_path)
  run.make()
  unchanged = os.stat(run.shards[0].output)
  os.remove(run.shards[1].output)
  os.truncate(run.shards[2].output, 100)
  make_run(tmp_path).make()
  assert_expected(run, expected)
  assert os.stat(run.shards[0].output) == unchanged


def test_recorded_shards_are_not_read_again(tmp_path):
  """Their entries stay, unless an entry lacks a value or has another one."""
  run = make_run(tmp_path)
  first = run.make()
  manifest = json.loads(pathlib.Path(run.manifest).read_text())
  entries = list(manifest["shards"].values())
  for entry in entries[:3]:
    entry["sha256"] = "kept"
  entries[1]["more"] = 1
  del entries[2]["records"]
  file_io.write_text(run.manifest, json.dumps(manifest))
  again = make_run(tmp_path).make()
  assert again[0] == first[0]._replace(sha256="kept")
  assert again[1:] == first[1:]


@pytest.mark.parametrize(
  "options, message",
  [
    ({"dupe_factor": 3}, says("dupe_factor", "10", "3")),
    ({"masking": "whole_words"}, "with masking pieces, now it is whole_words"),
    ({"mask_shares": (1.0, 0.5)}, "with mask_shares None, now it is "),
  ],
)
def test_other_flags_are_refused(tmp_path, options, message):
  make_run(tmp_path).make()
  with pytest.raises(errors.InputError, match=message):
    make_run(tmp_path, **options).make()


@pytest.mark.parametrize("name", ["a.txt", "vocab.txt"])
def test_a_text_or_vocabulary_that_changed_is_refused(tmp_path, name):
  run = make_run(tmp_path)
  run.make()
  with open(tmp_path / name, "a") as stream:
    stream.write("more\n")
  files = [str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]
  again = sharding.ShardedRun(
    run.options, files, str(tmp_path / "out/a.tfrecord"), shard_bytes=1000
  )
  with pytest.raises(errors.InputError, match="made with .* now it is"):
    again.make()


@pytest.mark.parametrize("name", ["phrases.txt", "own.py"])
def test_an_extension_or_its_file_that_changed_is_refused(tmp_path, name):
  """Their contents count, and not where they are."""
  path = tmp_path / name
  if name == "own.py":
    path.write_text("def groups(text, rng): return iter(text.pieces()[:1])\n")
    options = {"masking": str(path)}
  else:
    path.write_text("the cat\n")
    options = {
      "masking": "phrases",
      "units": "phrases",
      "unit_options": (("phrases_file", str(path)),),
    }
  make_run(tmp_path, **options).make()
  make_run(tmp_path, **options).make()
  path.write_text(path.read_text() + "\n")
  with pytest.raises(errors.InputError, match=rf"made with .*{name}.* now it"):
    make_run(tmp_path, **options).make()


def test_the_manifest_has_all_that_determines_the_records(tmp_path):
  """With other keys or values, files of earlier versions would be refused."""
  run = make_run(tmp_path, unit_options=(("a", 2), ("b_file", None)))
  run.make()
  manifest = json.loads(pathlib.Path(run.manifest).read_text())
  assert list(manifest.pop("shards")) == [shard.name for shard in run.shards]
  sizes = {
    str(tmp_path / name): (tmp_path / name).stat().st_size
    for name in ("a.txt", "b.txt")
  }
  assert sum(shard.text_bytes for shard in run.shards) == sum(sizes.values())
  vocabulary = (tmp_path / "vocab.txt").read_bytes()
  assert manifest == {
    "format": 2,
    "shard_bytes": -(-sum(sizes.values()) // 6),
    "inputs": sizes,
    "vocab_sha256": hashlib.sha256(vocabulary).hexdigest(),
    "max_seq_length": 32,
    "max_predictions_per_seq": 5,
    "random_seed": 12345,
    "dupe_factor": 10,
    "masked_lm_prob": 0.15,
    "short_seq_prob": 0.1,
    "masking": "pieces",
    "mask_shares": None,
    "packing": "sentence_pairs",
    "do_lower_case": True,
    "never_split": None,
    "segmented_text": False,
    "split_sentences": False,
    "language_smoothing": None,
    "units": None,
    "unit_options": {"a": 2, "b_file": None},
  }


def test_outputs_without_a_manifest_are_refused(tmp_path):
  run = make_run(tmp_path)
  file_io.write_text(run.shards[4].output, "")
  with pytest.raises(errors.InputError, match="00004-of-00006 exists, but"):
    run.make()


def test_a_damaged_manifest_is_named(tmp_path):
  run = make_run(tmp_path)
  file_io.write_text(run.manifest, "{")
  with pytest.raises(errors.InputError, match="manifest.json: not JSON"):
    run.make()
  for shards in ([], {"a-00000-of-00001": 3}):
    file_io.write_text(run.manifest, json.dumps({"shards": shards}))
    with pytest.raises(errors.InputError, match="manifest.json: shards is "):
      tfrecord.find_files(run.manifest)


def test_compressed_shards_hold_the_same_records(tmp_path, expected):
  run = make_run(tmp_path, "out/a.tfrecord.gz")
  shard = run.shards[3]
  sharding.make_shard(run.options, shard)
  plain = tmp_path / "plain"
  plain.write_bytes(expected["a.tfrecord-00003-of-00006"])
  assert tfrecord.is_gzip(shard.output)
  assert list(tfrecord.read_serialized(shard.output)) == list(
    tfrecord.read_serialized(str(plain))
  )


def run_of_text(folder, text, shard_bytes=400, **options):
  path = folder / "text.txt"
  path.write_text(text)
  return sharding.ShardedRun(
    make_record_options(folder, **options),
    [str(path)],
    str(folder / "out" / "a"),
    shard_bytes=shard_bytes,
  )


def test_text_that_gives_no_record_has_no_file(tmp_path):
  run = run_of_text(tmp_path, "the cat sat\n\n" * 31 + "\n" * 300)
  assert [result.records > 0 for result in run.make()] == [True, False]
  names = ["a-00000-of-00002", "a.manifest.json"]
  assert sorted(os.listdir(tmp_path / "out")) == names
  first = [run.shards[0].output]
  assert tfrecord.find_files(str(tmp_path / "out" / "a")) == first
  assert run.make()[1] == (1, 0, 0, "")
  # What has no record is not read again.
  manifest = pathlib.Path(run.manifest)
  manifest.write_text(manifest.read_text().replace('""', '"kept"'))
  assert run.make()[1] == (1, 0, 0, "kept")


@pytest.mark.parametrize("text", ["", "\n \n" * 400])
def test_a_text_without_any_record_leaves_nothing(tmp_path, text):
  run = run_of_text(tmp_path, text)
  with pytest.raises(
    errors.InputError, match="text gives no records; pass text"
  ):
    run.make()
  assert os.listdir(tmp_path / "out") == []


def test_shards_are_found_by_pattern_manifest_or_output(tmp_path):
  run = make_run(tmp_path, "out/a.tfrecord.gz")
  file_io.write_text(run.manifest, '{"shards": {}}')
  with pytest.raises(errors.InputError, match="some of its shards are missing"):
    tfrecord.find_files(run.manifest)
  with pytest.raises(errors.InputError, match="no record file matches"):
    tfrecord.find_files(f"{tmp_path}/out/*")
  os.remove(run.manifest)
  run.make()
  files = [shard.output for shard in run.shards]
  out = tmp_path / "out"
  for name in ("a.tfrecord.gz", "a.tfrecord.manifest.json", "*", "a*[0-9].gz"):
    assert tfrecord.find_files(f"{out}/{name}") == files
  both = tfrecord.find_files(f"{files[1]}, {run.manifest}")
  assert both == [files[1], *files]
  (out / "a,b").write_bytes(b"")
  assert tfrecord.find_files(f"{out}/a,b") == [f"{out}/a,b"]
