"""Selects the devices of a run, on one machine, several machines or a TPU.

`make_strategy` turns the flags of `common_flags.define_device_flags` into a
tf.distribute.Strategy. A run builds its model in the strategy's scope.
"""

import functools
import json
import os

import numpy as np
import tensorflow as tf

from common import errors, flag_values
from running import schedulers

COMPUTE_DTYPES = {name: tf.as_dtype(name) for name in flag_values.DTYPES}


def make_strategy(
  name: str = "auto",
  *,
  use_tpu: bool = False,
  tpu_name: str | None = None,
  tpu_zone: str | None = None,
  gcp_project: str | None = None,
  master: str | None = None,
  num_tpu_cores: int = 8,
  num_logical_cpus: int = 0,
) -> tf.distribute.Strategy:
  """Returns the strategy for a run's flags.

  Raises InputError: flags contradict each other, TF_CONFIG describes no
  cluster, or a TPU cannot be reached or has too few cores.

  Args:
    name: one of flag_values.DISTRIBUTION_STRATEGIES. "auto" selects the TPU if
      `use_tpu` is true, all workers if TF_CONFIG is set, else all GPUs or, on a
      machine without a GPU, all logical CPUs. "off" selects TensorFlow's
      default strategy, which does not distribute.
    tpu_name, tpu_zone, gcp_project, master: where the TPU is. `tpu_name` is
      a name or a grpc:// address; `master` is an address, used if `tpu_name`
      is None.
    num_logical_cpus: splits the CPU into this many devices, to try a
      distributed run on a machine without accelerators. This works only before
      TensorFlow initializes its devices.
  """
  if use_tpu and name not in ("auto", "tpu"):
    raise errors.InputError(
      f"--use_tpu contradicts --distribution_strategy={name}; drop one"
    )
  if num_logical_cpus > 1:
    tf.config.set_logical_device_configuration(
      tf.config.list_physical_devices("CPU")[0],
      [tf.config.LogicalDeviceConfiguration()] * num_logical_cpus,
    )
  if use_tpu or name == "tpu":
    address = tpu_name or master
    return _tpu_strategy(address, tpu_zone, gcp_project, num_tpu_cores)
  if tpu_name or master:
    raise errors.InputError(
      "--tpu_name and --master have no effect without --use_tpu; pass "
      "--use_tpu, or for several machines without TPUs set TF_CONFIG"
    )
  return _strategy_without_tpu(name)


def _strategy_without_tpu(name: str):
  if name == "auto" and "TF_CONFIG" in os.environ:
    name = "multi_worker_mirrored"
  # Workers must connect before the devices are listed, because listing
  # initializes the devices.
  if name == "multi_worker_mirrored":
    return _multi_worker_strategy()
  gpus = tf.config.list_logical_devices("GPU")
  devices = gpus or tf.config.list_logical_devices("CPU")
  if name == "auto":
    name = "mirrored" if len(devices) > 1 else "one_device"
  if name == "mirrored":
    return _mirrored_strategy(tuple(device.name for device in devices))
  if name == "one_device":
    return tf.distribute.OneDeviceStrategy(devices[0].name)
  return tf.distribute.get_strategy()


@functools.cache
def _mirrored_strategy(devices: tuple[str, ...]) -> tf.distribute.Strategy:
  """Returns the one strategy of this process for these devices.

  Each MirroredStrategy numbers its exchanges of gradients from 1, and
  TensorFlow keeps the shape of each number for the life of the process. So a
  second strategy, for a model of another shape, would fail in its first step.
  """
  return tf.distribute.MirroredStrategy(devices)


def _multi_worker_strategy() -> tf.distribute.Strategy:
  if "TF_CONFIG" not in os.environ:
    config = schedulers.tf_config(os.environ)
    if config:
      os.environ["TF_CONFIG"] = json.dumps(config)
  try:
    return tf.distribute.MultiWorkerMirroredStrategy()
  except ValueError as error:
    raise errors.InputError(
      f"TF_CONFIG describes no cluster with this process as a worker: {error}; "
      f"its value is {os.environ.get('TF_CONFIG')!r}"
    ) from error


def _tpu_strategy(
  address: str | None, zone: str | None, project: str | None, num_cores: int
) -> tf.distribute.Strategy:
  """Connects to a TPU and returns a strategy over `num_cores` of its cores."""
  try:
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
      tpu=address, zone=zone, project=project
    )
    tf.config.experimental_connect_to_cluster(resolver)
    # This clears the TPU's memory, so it must precede all tensors.
    topology = tf.tpu.experimental.initialize_tpu_system(resolver)
  except Exception as error:  # Cloud libraries raise their own exceptions.
    # The other lines of TensorFlow's message list devices and kernels.
    reason = str(error).partition("\n")[0].rstrip(" .:")
    raise errors.InputError(
      f"cannot reach a TPU at {address or 'this machine'}: {reason}; check "
      "--tpu_name, --tpu_zone and --gcp_project"
    ) from error
  # The number of hosts times the cores of each host.
  available_cores = topology.num_tasks * topology.num_tpus_per_task
  if num_cores > available_cores:
    raise errors.InputError(
      f"--num_tpu_cores={num_cores}, but the TPU has {available_cores} cores"
    )
  assignment = None
  if num_cores < available_cores:
    # Without an assignment the strategy takes all cores.
    assignment = tf.tpu.experimental.DeviceAssignment.build(
      topology, num_replicas=num_cores
    )
  return tf.distribute.TPUStrategy(
    resolver, experimental_device_assignment=assignment
  )


def is_chief(strategy: tf.distribute.Strategy) -> bool:
  """Returns whether this process is the chief, which writes the files."""
  resolver = strategy.cluster_resolver
  if resolver is None or resolver.task_type in (None, "", "chief"):
    return True
  # In a cluster without a chief, the first worker writes.
  has_chief = "chief" in resolver.cluster_spec().as_dict()
  return not has_chief and resolver.task_id == 0


def all_gather(
  strategy: tf.distribute.Strategy, values: list[float]
) -> np.ndarray:
  """Returns the N numbers of every replica, float64 [replicas, N]."""

  def gather() -> tf.Tensor:
    # float64 represents step counts exactly.
    replica_values = tf.constant([values], tf.float64)
    replica = tf.distribute.get_replica_context()
    return replica.all_gather(replica_values, axis=0)

  rows = strategy.run(gather)
  return strategy.experimental_local_results(rows)[0].numpy()


def default_jit_compile(strategy: tf.distribute.Strategy) -> bool:
  """Returns the value of --jit_compile=auto: True on a GPU, else False.

  Compiling takes too long on a CPU. On a TPU, TensorFlow always compiles.
  """
  return not is_tpu(strategy) and bool(tf.config.list_logical_devices("GPU"))


def is_tpu(strategy: tf.distribute.Strategy) -> bool:
  """Returns whether the replicas are cores of a TPU."""
  return isinstance(strategy, tf.distribute.TPUStrategy)


def is_multi_worker(strategy: tf.distribute.Strategy) -> bool:
  """Returns whether several processes train together."""
  return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
