"""Tests what each engine asks of its package, with stand-ins for the packages.

test_pretraining_clusters.py runs the engines whose packages are installed.
"""

import os
import sys
import types

import pytest

from common import errors, process_pool, run_settings
from pretraining import cluster_flags, clusters
from pretraining.clusters import beam, dask, ray, spark


def double(block):
  return 2 * block


@pytest.fixture
def package(monkeypatch):
  """Returns a function that puts a module of some attributes into place."""

  def add(name, **attributes):
    module = types.ModuleType(name)
    vars(module).update(attributes)
    monkeypatch.setitem(sys.modules, name, module)
    return module

  return add


@pytest.mark.parametrize(
  "options, expected",
  [
    ("", {}),
    ("tcp://host:8786", {"address": "tcp://host:8786"}),
    (
      "n_workers=4 processes=false pure=true name=a=b",
      {"n_workers": 4, "processes": False, "pure": True, "name": "a=b"},
    ),
  ],
)
def test_options_are_an_address_or_arguments(options, expected):
  found = clusters.arguments(options, "Dask")
  assert found == expected
  assert list(map(type, found.values())) == list(map(type, expected.values()))


class Client:
  """Stands in for distributed.Client."""

  def __init__(self, **arguments):
    self.arguments, self.is_open = arguments, False

  def __enter__(self):
    self.is_open = True
    return self

  def __exit__(self, *_):
    self.is_open = False

  def map(self, function, blocks, **options):
    assert self.is_open
    # A pure function's result may be an earlier one.
    assert options == {"pure": False, "retries": 2}
    return [
      types.SimpleNamespace(result=lambda block=block: function(block))
      for block in blocks
    ]


def test_dask_computes_each_block_again(package):
  clients = []
  package(
    "distributed", Client=lambda **a: clients.append(Client(**a)) or clients[-1]
  )
  dask.check("")
  results = dask.in_order("n_workers=2", double, [1, 2, 3], results="r")
  assert list(results) == [2, 4, 6]
  (client,) = clients
  assert client.arguments == {"n_workers": 2} and not client.is_open


@pytest.mark.parametrize(
  "options, expected",
  [
    ("", {"include_dashboard": False}),
    ("num_cpus=4", {"include_dashboard": False, "num_cpus": 4}),
    # The cluster's dashboard is not this program's.
    ("ray://host:10001", {"address": "ray://host:10001"}),
  ],
)
def test_ray_is_quiet_and_computes_one_block_per_core(
  package, options, expected
):
  started, ended = [], []

  class Session:
    def __enter__(self):
      return self

    def __exit__(self, *_):
      ended.append(1)

  def remote(**settings):
    assert settings == {"num_cpus": 1, "max_retries": 2}
    return lambda function: types.SimpleNamespace(remote=function)

  package(
    "ray",
    init=lambda **arguments: started.append(arguments) or Session(),
    remote=remote,
    get=lambda reference: reference,
  )
  ray.check(options)
  assert list(ray.in_order(options, double, [3, 1], results="r")) == [6, 2]
  assert started == [{"log_to_driver": False, **expected}] and ended == [1]


class Spark:
  """Stands in for a session of Spark and its builder."""

  def __init__(self):
    self.properties, self.stopped, self.parts = {}, False, None
    self.sparkContext = self.builder = self

  def appName(self, name):
    assert name
    return self

  def config(self, name, value):
    self.properties[name] = value
    return self

  def getOrCreate(self):
    return self

  def parallelize(self, blocks, parts):
    self.blocks, self.parts = blocks, parts
    return self

  def map(self, function):
    self.blocks = [function(block) for block in self.blocks]
    return self

  def collect(self):
    return self.blocks

  def stop(self):
    self.stopped = True


@pytest.mark.parametrize(
  "options, is_local",
  [
    ("", True),
    ("spark.master=local[2] spark.ui.enabled=false", True),
    ("spark.master=spark://host:7077", False),
  ],
)
def test_spark_gets_its_properties_and_a_task_for_each_block(
  package, monkeypatch, options, is_local
):
  monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
  session = Spark()
  package("pyspark")
  package("pyspark.sql", SparkSession=session)
  spark.check(options)
  assert spark.in_order(options, double, [1, 2], results="r") == [2, 4]
  assert session.properties == clusters.key_values(options, "Spark")
  assert session.parts == 2 and session.stopped
  # Executors on other machines have their own Python.
  expected = sys.executable if is_local else None
  assert os.environ.get("PYSPARK_PYTHON") == expected
  session.stopped = False
  with pytest.raises(ZeroDivisionError):
    spark.in_order(options, lambda block: 1 // block, [0], results="r")
  assert session.stopped


class Step:
  """A transform of Beam: a name and a function of all elements."""

  def __init__(self, function):
    self.function = function

  def __rrshift__(self, name):
    return self


class Pipeline:
  """Stands in for a pipeline of Beam, which runs its steps at the end."""

  def __init__(self, options=None):
    self.options, self.steps = options, []

  def __or__(self, step):
    self.steps.append(step.function)
    return self

  def run(self):
    elements = None
    for function in self.steps:
      elements = function(elements)
    return self

  def wait_until_finish(self):
    pass


class Options:
  """Stands in for Beam's options; "x" is a wrong value."""

  def __init__(self, words):
    if words == ["exit"]:
      raise SystemExit(2)
    self.words = words

  def get_all_options(self):
    if "x" in self.words:
      raise ValueError("no\n  number")


@pytest.fixture
def fake_beam(package):
  options = package("apache_beam.options.pipeline_options")
  options.PipelineOptions = Options
  package("apache_beam.options", pipeline_options=options)
  return package(
    "apache_beam",
    Pipeline=Pipeline,
    Create=lambda values: Step(lambda _: values),
    # The order of the elements is lost.
    Reshuffle=lambda: Step(lambda elements: elements[::-1]),
    Map=lambda function: Step(lambda elements: list(map(function, elements))),
    combiners=types.SimpleNamespace(ToList=lambda: Step(lambda all_: [all_])),
  )


def test_beam_gives_the_results_in_order_and_leaves_no_file(
  fake_beam, tmp_path, caplog, monkeypatch
):
  path = tmp_path / "results"
  path.write_text("[[0, 99]]")  # Of a killed run.
  results = beam.in_order("--a 'b c'", double, [5, 7, 6], results=str(path))
  assert results == [10, 14, 12]
  assert not path.exists()
  assert beam.make_pipeline("--a 'b c'").options.words == ["--a", "b c"]
  caplog.set_level("DEBUG", logger="absl")
  path.write_text("[[0, 99]]")
  monkeypatch.setattr(Pipeline, "wait_until_finish", lambda _: 1 // 0)
  with pytest.raises(ZeroDivisionError):
    beam.in_order("", double, [5], results=str(path))
  assert "pipeline failed" in caplog.text and "Traceback" in caplog.text


@pytest.mark.parametrize(
  "options, fault", [("exit", "see above"), ("x", "no number"), ("'", "No clo")]
)
def test_options_that_beam_refuses(fake_beam, options, fault):
  with pytest.raises(errors.InputError) as raised:
    clusters.check("beam", options)
  assert f"--engine_options={options}: Beam refuses" in str(raised.value)
  assert fault in str(raised.value)


OWN = """
def check(options): pass

def in_order(options, function, blocks, *, results):
  if options == "late":
    yield function(blocks[0])
    raise RuntimeError("Traceback\\n  line 3\\nlost a worker\\n")
  for block in blocks:
    yield function(block)
"""


@pytest.fixture
def own(tmp_path):
  path = tmp_path / "own.py"
  path.write_text(OWN)
  return str(path)


def test_blocks_behind_a_fault_are_computed_and_the_first_fault_is_raised(own):
  computed = []

  def function(block):
    computed.append(block)
    if block in (2, 4):
      raise errors.InputError(f"block {block} is bad")
    return -block

  found = []
  with pytest.raises(errors.InputError, match="^block 2 is bad$"):
    for result in clusters.in_order(
      own, "", function, [1, 2, 3, 4], results=""
    ):
      found.append(result)
  assert found == [-1] and computed == [1, 2, 3, 4]
  whole = clusters.in_order(own, "", function, [5, 6], results="")
  assert list(whole) == [-5, -6]


def test_an_engine_that_fails_is_named_with_its_last_line(own):
  results = clusters.in_order(own, "late", double, [1, 2], results="")
  assert next(results) == 2
  with pytest.raises(errors.InputError) as raised:
    next(results)
  assert f"--engine={own}: RuntimeError: lost a worker; " in str(raised.value)


def test_no_cluster_is_started_for_no_block():
  results = clusters.in_order("no such engine", "", double, [], results="")
  assert list(results) == []


def settings_of(**changes):
  return run_settings.Settings(
    {
      "engine": None,
      "engine_options": "",
      "beam_options": None,
      "num_processes": 3,
      **changes,
    }
  )


def test_without_an_engine_the_processes_of_this_machine_are_used():
  chosen = cluster_flags.in_order(settings_of(), "m")
  assert chosen.func is process_pool.in_order
  assert (chosen.args, chosen.keywords) == ((), {"processes": 3})


@pytest.mark.parametrize(
  "flags, engine",
  [
    ({"engine": "dask", "engine_options": "a=1"}, ("dask", "a=1")),
    ({"beam_options": "--x"}, ("beam", "--x")),
    ({"beam_options": ""}, ("beam", "")),
  ],
)
def test_flags_choose_an_engine(flags, engine):
  chosen = cluster_flags.in_order(settings_of(**flags), "m")
  assert chosen.func is clusters.in_order
  assert (chosen.args, chosen.keywords) == (engine, {"results": "m.results"})


def test_an_engine_is_checked_if_there_is_one(monkeypatch):
  for flags in ({}, {"engine": "dusk"}):
    values = types.SimpleNamespace(**settings_of(**flags)._values)
    monkeypatch.setattr(cluster_flags.flags, "FLAGS", values)
    if flags:
      with pytest.raises(errors.InputError, match="--engine=dusk"):
        cluster_flags.check()
    else:
      cluster_flags.check()
