"""Tests that Beam makes the same shards as one machine, byte for byte."""

import functools
import os
import pathlib

import pytest

import script_runner
import sharded_runs
from common import errors
from pretraining import beam

SCRIPT = "create_pretraining_data.py"
# DirectRunner falls back to this if it cannot download another runner.
LOCAL = "--runner=FnApiRunner"
THREADS = (
  f"{LOCAL} --direct_num_workers=2 --direct_running_mode=multi_threading"
)
PROCESSES = THREADS.replace("threading", "processing")


@pytest.fixture
def apache_beam():
  return pytest.importorskip(
    "apache_beam", reason='needs pip install "bert-tf2[beam]"'
  )


@pytest.fixture
def expected(tmp_path):
  run = sharded_runs.make_run(tmp_path / "local", "out/a.tfrecord")
  run.make()
  return {
    os.path.basename(shard.output): pathlib.Path(shard.output).read_bytes()
    for shard in run.shards
  }


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
  for name in ("local", "beam"):
    (tmp_path / name).mkdir()
  # Worker processes must find the tests' modules.
  path = [str(script_runner.ROOT), str(script_runner.ROOT / "tests")]
  monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))


@pytest.mark.parametrize(
  "options", [LOCAL, THREADS, pytest.param(PROCESSES, marks=pytest.mark.slow)]
)
def test_bytes_are_the_same_and_only_missing_shards_are_made(
  tmp_path, apache_beam, expected, options
):
  run = sharded_runs.make_run(tmp_path / "beam")
  run.make(beam_options=options)
  sharded_runs.assert_expected(run, expected)
  unchanged = os.stat(run.shards[0].output)
  os.remove(run.shards[1].output)
  os.truncate(run.shards[2].output, 100)
  run.make(beam_options=options)
  sharded_runs.assert_expected(run, expected)
  assert os.stat(run.shards[0].output) == unchanged


def test_a_run_that_was_stopped_is_finished(tmp_path, apache_beam, expected):
  """Finished shards are kept, and a stale results file is ignored."""
  run = sharded_runs.make_run(tmp_path / "beam")
  run.make()
  pathlib.Path(run.manifest).write_text(
    pathlib.Path(run.manifest).read_text().split('"shards"')[0]
    + '"shards": {}}'
  )
  pathlib.Path(f"{run.manifest}.results").write_text("[]")
  os.remove(run.shards[3].output)
  unchanged = os.stat(run.shards[0].output)
  run.make(beam_options=LOCAL)
  sharded_runs.assert_expected(run, expected)
  assert os.stat(run.shards[0].output) == unchanged


def test_bad_text_gives_one_sentence_and_other_shards_are_made(
  tmp_path, apache_beam
):
  run = sharded_runs.make_run(tmp_path / "beam")
  with open(tmp_path / "beam" / "b.txt", "r+b") as stream:
    stream.write(b"\xff")
  with pytest.raises(errors.InputError, match=r"^\S*b.txt:1: not UTF-8 \("):
    run.make(beam_options=LOCAL)
  names = sorted(os.listdir(tmp_path / "beam" / "out"))
  assert len(names) == 6 and names[-1] == "a.tfrecord.manifest.json"


def test_a_failing_pipeline_names_the_fault(tmp_path, apache_beam):
  message = r"pipeline failed \(ZeroDivisionError.*Run the same command"
  with pytest.raises(errors.InputError, match=message):
    beam.in_order(
      LOCAL, functools.partial(divmod, 1), [0], results=str(tmp_path / "r")
    )


@pytest.mark.parametrize(
  "options, message",
  [
    ("--runner=Hadoop", "Beam refuses these flags: Unexpected pipeline runner"),
    ("--direct_num_workers=x", "Beam refuses these flags: see above"),
    ("'", "Beam refuses these flags: No closing quotation"),
  ],
)
def test_bad_options(apache_beam, options, message):
  with pytest.raises(errors.InputError, match=message):
    beam.make_pipeline(options)


def test_a_missing_package_is_reported_before_anything_is_read(
  tmp_path, monkeypatch
):
  run = sharded_runs.make_run(tmp_path / "local")
  flags = {
    "input_file": tmp_path / "local" / "a.txt",
    "vocab_file": run.options.vocab_file,
    "shard_size_mb": 0.0005,
    "output_file": tmp_path / "script" / "a",
  }
  (tmp_path / "apache_beam.py").write_text("raise ImportError(name=__name__)")
  monkeypatch.setenv("PYTHONPATH", str(tmp_path))
  with script_runner.start(SCRIPT, beam_options=LOCAL, **flags) as process:
    message = process.communicate()[1]
  assert message.startswith(f"{SCRIPT}: error: this needs apache_beam: run ")
  assert 'pip install "bert-tf2[beam]"' in message and process.returncode == 1
  assert not (tmp_path / "script").exists()
