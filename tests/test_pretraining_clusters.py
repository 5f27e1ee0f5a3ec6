"""Tests that clusters make the same shards as one process, byte for byte."""

import functools
import importlib.util
import os
import pathlib

import pytest

import script_runner
import sharded_runs
from common import errors
from pretraining import clusters

SCRIPT = "create_pretraining_data.py"
# DirectRunner falls back to this if it cannot download another runner.
LOCAL = "--runner=FnApiRunner"
THREADS = (
  f"{LOCAL} --direct_num_workers=2 --direct_running_mode=multi_threading"
)
PROCESSES = THREADS.replace("threading", "processing")


WAYS = {
  "beam": ("beam", LOCAL),
  "beam, threads": ("beam", THREADS),
  "beam, processes": ("beam", PROCESSES),
  "dask, threads": ("dask", "processes=false n_workers=1 dashboard_address=:0"),
  "dask, processes": ("dask", "n_workers=2 dashboard_address=:0"),
  "ray": ("ray", "num_cpus=2"),
  "spark": ("spark", "spark.master=local[2] spark.ui.enabled=false"),
}
PACKAGES = {
  "beam": "apache_beam",
  "dask": "distributed",
  "ray": "ray",
  "spark": "pyspark",
}


def in_order(run, way):
  """Returns the function that distributes a run's shards, or skips."""
  engine, options = WAYS[way]
  if importlib.util.find_spec(PACKAGES[engine]) is None:
    pytest.skip(f'needs pip install "bert-tf2[{engine}]"')
  return functools.partial(
    clusters.in_order, engine, options, results=f"{run.manifest}.results"
  )


@pytest.fixture
def apache_beam():
  return pytest.importorskip(
    "apache_beam", reason='needs pip install "bert-tf2[beam]"'
  )


def test_every_engine_is_tested():
  assert set(clusters.names()) == set(PACKAGES)


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


# Two ways are tested by default, if they are installed; all ways in the
# nightly job.
@pytest.mark.parametrize(
  "way",
  [
    name
    if name in ("beam", "dask, threads")
    else pytest.param(name, marks=pytest.mark.slow)
    for name in WAYS
  ],
)
def test_bytes_are_the_same_and_only_missing_shards_are_made(
  tmp_path, expected, way
):
  run = sharded_runs.make_run(tmp_path / "beam")
  make_in_order = in_order(run, way)
  run.make(make_in_order)
  sharded_runs.assert_expected(run, expected)
  unchanged = os.stat(run.shards[0].output)
  os.remove(run.shards[1].output)
  os.truncate(run.shards[2].output, 100)
  run.make(make_in_order)
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
  run.make(in_order(run, "beam"))
  sharded_runs.assert_expected(run, expected)
  assert os.stat(run.shards[0].output) == unchanged


def test_bad_text_gives_one_sentence_and_other_shards_are_made(
  tmp_path, apache_beam
):
  run = sharded_runs.make_run(tmp_path / "beam")
  with open(tmp_path / "beam" / "b.txt", "r+b") as stream:
    stream.write(b"\xff")
  with pytest.raises(errors.InputError, match=r"^\S*b.txt:1: not UTF-8 \("):
    run.make(in_order(run, "beam"))
  names = sorted(os.listdir(tmp_path / "beam" / "out"))
  assert len(names) == 6 and names[-1] == "a.tfrecord.manifest.json"


@pytest.mark.parametrize("way", ["beam", "dask, threads"])
def test_a_failing_engine_is_named_with_the_fault(tmp_path, way):
  run = sharded_runs.make_run(tmp_path / "beam")
  with pytest.raises(errors.InputError) as raised:
    list(in_order(run, way)(functools.partial(divmod, 1), [0]))
  engine, _ = WAYS[way]
  for fact in (f"--engine={engine}", "ZeroDivisionError", "same command"):
    assert fact in str(raised.value)


@pytest.mark.parametrize("engine", ["dask", "ray", "spark"])
def test_options_that_are_no_pairs_are_refused(engine):
  pytest.importorskip(PACKAGES[engine])
  with pytest.raises(errors.InputError, match="=2.* NAME=VALUE"):
    clusters.check(engine, "a=1 =2")


def test_an_unknown_engine_is_refused_with_the_known_ones():
  with pytest.raises(errors.InputError, match="--engine=dusk.*dask"):
    clusters.check("dusk", "")


def test_a_users_own_engine_makes_the_shards(tmp_path, expected):
  path = tmp_path / "mine.py"
  path.write_text(
    "def check(options): pass\n"
    "def in_order(options, function, blocks, *, results):\n"
    "  return [function(block) for block in reversed(blocks)][::-1]\n"
  )
  run = sharded_runs.make_run(tmp_path / "beam")
  run.make(functools.partial(clusters.in_order, str(path), "", results="r"))
  sharded_runs.assert_expected(run, expected)


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
    clusters.check("beam", options)


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
