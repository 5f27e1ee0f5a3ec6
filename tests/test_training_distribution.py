"""Tests which strategy the flags select, and which process writes the files.

The tests need no TPU: they replace only the calls that would reach one.
"""

import json
import os
import types

import numpy as np
import pytest
import tensorflow as tf

import two_replicas
from common import errors, flag_values
from message_facts import says
from training import distribution


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch):
  monkeypatch.delenv("TF_CONFIG", raising=False)


ADDRESS = "grpc://10.0.0.2:8470"


@pytest.mark.parametrize(
  "name, options, fault",
  [
    *(
      (name, {"use_tpu": True}, f"contradicts .*={name}; drop")
      for name in sorted(
        {*flag_values.DISTRIBUTION_STRATEGIES} - {"auto", "tpu"}
      )
    ),
    ("auto", {"tpu_name": ADDRESS}, "no effect without --use_tpu"),
    ("mirrored", {"master": ADDRESS}, "no effect without --use_tpu"),
  ],
)
def test_flags_that_contradict_each_other(name, options, fault):
  with pytest.raises(errors.InputError, match=fault):
    distribution.make_strategy(name, **options)


def test_one_device_or_none():
  strategy = distribution.make_strategy("one_device")
  assert isinstance(strategy, tf.distribute.OneDeviceStrategy)
  assert distribution.make_strategy("off") is tf.distribute.get_strategy()
  assert not tf.distribute.has_strategy()


@pytest.mark.parametrize("name", ["auto", "mirrored"])
def test_several_devices_are_mirrored(name):
  strategy = distribution.make_strategy(name)
  assert isinstance(strategy, tf.distribute.MirroredStrategy)
  assert strategy.num_replicas_in_sync == 2
  assert not distribution.is_multi_worker(strategy)
  assert not distribution.is_tpu(strategy)


def give_devices(monkeypatch, **devices):
  """Makes TensorFlow list the given devices, such as GPU=["GPU:0"]."""
  by_type = {
    device_type: [types.SimpleNamespace(name=name) for name in names]
    for device_type, names in devices.items()
  }
  monkeypatch.setattr(
    tf.config, "list_logical_devices", lambda name: by_type.get(name, [])
  )


def test_a_second_run_may_exchange_other_shapes():
  for length in (3, 5):
    strategy = distribution.make_strategy("mirrored")

    @tf.function
    def total(strategy=strategy, length=length):
      return strategy.run(
        lambda: tf.distribute.get_replica_context().all_reduce(
          "sum", tf.ones([length])
        )
      )

    sums = strategy.experimental_local_results(total())
    assert [value.numpy().tolist() for value in sums] == [[2.0] * length] * 2


def test_auto_selects_all_available_devices(monkeypatch):
  give_devices(monkeypatch, CPU=["CPU:0"])
  strategy = distribution.make_strategy()
  assert isinstance(strategy, tf.distribute.OneDeviceStrategy)
  give_devices(monkeypatch, CPU=["CPU:0"], GPU=["GPU:0", "GPU:1"])
  monkeypatch.setattr(tf.distribute, "MirroredStrategy", lambda names: names)
  assert distribution.make_strategy() == ("GPU:0", "GPU:1")


@pytest.mark.parametrize("count, calls", [(0, []), (1, []), (3, [3])])
def test_the_cpu_is_split_only_on_request(monkeypatch, count, calls):
  counts = []
  monkeypatch.setattr(
    tf.config,
    "set_logical_device_configuration",
    lambda device, configurations: counts.append(len(configurations)),
  )
  distribution.make_strategy("off", num_logical_cpus=count)
  assert counts == calls


@pytest.mark.parametrize("name", ["auto", "multi_worker_mirrored"])
def test_workers_are_joined_before_devices_are_listed(monkeypatch, name):
  def list_devices(device_type):
    raise AssertionError("Collective ops must be configured at startup")

  strategy = object()
  monkeypatch.setenv("TF_CONFIG", '{"cluster": {"worker": ["a:1", "b:1"]}}')
  monkeypatch.setattr(tf.config, "list_logical_devices", list_devices)
  monkeypatch.setattr(
    tf.distribute, "MultiWorkerMirroredStrategy", lambda: strategy
  )
  assert distribution.make_strategy(name) is strategy


@pytest.mark.parametrize("is_set", [True, False])
def test_a_schedulers_workers_become_tf_config(monkeypatch, is_set):
  """Unless it is set: then it counts."""
  monkeypatch.setenv("SM_HOSTS", '["a", "b"]')
  monkeypatch.setenv("SM_CURRENT_HOST", "b")
  monkeypatch.setenv("TF_CONFIG", "own")
  if not is_set:
    monkeypatch.delenv("TF_CONFIG")
  found = []
  monkeypatch.setattr(
    tf.distribute,
    "MultiWorkerMirroredStrategy",
    lambda: found.append(os.environ["TF_CONFIG"]),
  )
  distribution.make_strategy("multi_worker_mirrored")
  if is_set:
    assert found == ["own"]
  else:
    assert json.loads(found[0]) == {
      "cluster": {"worker": ["a:20000", "b:20000"]},
      "task": {"type": "worker", "index": 1},
    }


@pytest.mark.parametrize(
  "cluster",
  [
    "not JSON",
    '{"cluster": {"worker": ["a:1"]}, "task": {"type": "guest", "index": 0}}',
    '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 3}}',
  ],
)
def test_a_malformed_tf_config_is_one_sentence(monkeypatch, cluster):
  monkeypatch.setenv("TF_CONFIG", cluster)
  with pytest.raises(errors.InputError, match="TF_CONFIG describes no cluster"):
    distribution.make_strategy()


class FakeTpu:
  """Fakes a TPU with two hosts of four cores each, and records the calls."""

  # Chips at (0..1, 0..1, 0) with two cores each, two chips per host.
  topology = tf.tpu.experimental.Topology(
    mesh_shape=[2, 2, 1, 2],
    device_coordinates=np.array(
      [[[x, y, 0, core] for y in (0, 1) for core in (0, 1)] for x in (0, 1)]
    ),
  )

  def __init__(self, monkeypatch):
    self.calls = []
    self.failing = {}
    fakes = (
      (tf.distribute.cluster_resolver, "TPUClusterResolver", "resolver"),
      (tf.config, "experimental_connect_to_cluster", None),
      (tf.tpu.experimental, "initialize_tpu_system", self.topology),
    )
    for module, name, answer in fakes:
      monkeypatch.setattr(module, name, self._fake(name, answer))

    class TPUStrategy:
      def __init__(self, resolver, experimental_device_assignment):
        self.resolver = resolver
        self.assignment = experimental_device_assignment

    monkeypatch.setattr(tf.distribute, "TPUStrategy", TPUStrategy)

  def _fake(self, name, answer):
    def call(*args, **kwargs):
      self.calls.append((name, *args, kwargs))
      if name in self.failing:
        raise self.failing[name]
      return answer

    return call


@pytest.fixture
def tpu(monkeypatch):
  return FakeTpu(monkeypatch)


@pytest.mark.parametrize("options", [{"use_tpu": True}, {"name": "tpu"}])
def test_all_cores_of_a_tpu(tpu, options):
  strategy = distribution.make_strategy(
    tpu_name="mine", tpu_zone="zone", gcp_project="project", **options
  )
  where = {"tpu": "mine", "zone": "zone", "project": "project"}
  assert tpu.calls == [
    ("TPUClusterResolver", where),
    ("experimental_connect_to_cluster", "resolver", {}),
    ("initialize_tpu_system", "resolver", {}),
  ]
  assert strategy.resolver == "resolver"
  assert strategy.assignment is None
  assert distribution.is_tpu(strategy)
  assert not distribution.default_jit_compile(strategy)


@pytest.mark.parametrize(
  "tpu_name, master, address",
  [(None, ADDRESS, ADDRESS), ("mine", ADDRESS, "mine"), (None, None, None)],
)
def test_the_tpus_name_overrides_its_address(tpu, tpu_name, master, address):
  distribution.make_strategy(use_tpu=True, tpu_name=tpu_name, master=master)
  assert tpu.calls[0][1]["tpu"] == address


@pytest.mark.parametrize("cores", [1, 2, 4])
def test_some_cores_of_a_tpu(tpu, cores):
  strategy = distribution.make_strategy(use_tpu=True, num_tpu_cores=cores)
  assert strategy.assignment.num_replicas == cores
  assert strategy.assignment.topology is tpu.topology
  with pytest.raises(errors.InputError, match=says("9", "TPU", "8")):
    distribution.make_strategy(use_tpu=True, num_tpu_cores=9)


@pytest.mark.parametrize(
  "call, error",
  [
    ("TPUClusterResolver", OSError("Name or service not known")),
    ("TPUClusterResolver", Exception("no credentials")),
    (
      "initialize_tpu_system",
      tf.errors.UnavailableError(None, None, "connection refused"),
    ),
  ],
)
def test_a_tpu_that_cannot_be_reached_is_one_sentence(tpu, call, error):
  tpu.failing[call] = error
  reason = getattr(error, "message", str(error))
  with pytest.raises(
    errors.InputError, match=f"cannot reach a TPU at mine: {reason}; check"
  ):
    distribution.make_strategy(use_tpu=True, tpu_name="mine")


def process(task_type, task_id, **cluster):
  resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
    tf.train.ClusterSpec(cluster), task_type=task_type, task_id=task_id
  )
  return types.SimpleNamespace(cluster_resolver=resolver)


WORKERS = ["a:1", "b:1"]


@pytest.mark.parametrize(
  "strategy, expected",
  [
    (process("worker", 0, worker=WORKERS), True),
    (process("worker", 1, worker=WORKERS), False),
    (process("chief", 0, chief=["c:1"], worker=WORKERS), True),
    (process("worker", 0, chief=["c:1"], worker=WORKERS), False),
    (process("worker", 1, chief=["c:1"], worker=WORKERS), False),
    (process("", None), True),
    (tf.distribute.get_strategy(), True),
  ],
)
def test_one_process_is_the_chief(strategy, expected):
  assert distribution.is_chief(strategy) is expected


@pytest.mark.parametrize(
  "make", [tf.distribute.get_strategy, two_replicas.strategy]
)
def test_numbers_of_all_replicas_are_gathered(make):
  strategy = make()
  rows = distribution.all_gather(strategy, [3, 2.0**40 + 1])
  np.testing.assert_array_equal(
    rows, [[3, 2.0**40 + 1]] * strategy.num_replicas_in_sync
  )


def test_xla_compiles_by_default_on_a_gpu(monkeypatch):
  strategy = distribution.make_strategy("one_device")
  assert not distribution.default_jit_compile(strategy)
  give_devices(monkeypatch, GPU=["GPU:0"])
  assert distribution.default_jit_compile(strategy)
