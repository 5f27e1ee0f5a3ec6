"""Finds the machines of a run in the environment of Slurm or SageMaker.

TensorFlow reads TF_CONFIG, which Kubernetes' TFJob and Vertex AI set. From the
variables of Slurm and SageMaker, `tf_config` makes the same value. It is an
alternative to tf.distribute's SlurmClusterResolver, which sorts hosts by name
("n10" before "n2"), so that a process may take another's address.
"""

import itertools
import json
import re
from collections.abc import Iterator, Mapping

from common import errors

_FIRST_PORT, _NUM_PORTS = 20000, 10000


def tf_config(environment: Mapping[str, str]) -> dict | None:
  """Returns the value of TF_CONFIG, None outside of Slurm and SageMaker.

  Raises InputError: a variable has an unknown form.

  Args:
    environment: for example, os.environ. Slurm sets its variables in a step
      (srun); a job's script, outside of srun, is one process.
  """
  if "SLURM_STEP_NODELIST" in environment and "SLURM_PROCID" in environment:
    return _slurm(environment)
  if "SM_HOSTS" in environment:
    return _sagemaker(environment)
  return None


def _slurm(environment: Mapping[str, str]) -> dict:
  names = ("SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE", "SLURM_PROCID")
  nodes, tasks, rank = (environment.get(name, "") for name in names)
  try:
    hosts = list(_slurm_hosts(nodes))
    counts = list(_slurm_counts(tasks or "1"))
    # Steps of several jobs may share a machine.
    job = int(environment.get("SLURM_JOB_ID", "0"))
    index = int(rank)
  except ValueError as error:
    shown = " ".join(f"{name}={environment.get(name)}" for name in names)
    raise errors.InputError(
      f"Slurm's variables are not understood ({error}): {shown}; set TF_CONFIG"
    ) from error
  first_port = _FIRST_PORT + job % _NUM_PORTS
  workers = [
    f"{host}:{first_port + number}"
    for host, count in zip(hosts, counts)
    for number in range(count)
  ]
  return _config(workers, index)


def _slurm_hosts(nodes: str) -> Iterator[str]:
  """Yields the hosts of "n[09-10,12],login": n09, n10, n12, login."""
  # A part is text outside of brackets with any number of bracketed lists.
  parts = re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", nodes)
  if not parts or ",".join(parts) != nodes:
    raise ValueError(f"expected a list of hosts, got {nodes!r}")
  for part in parts:
    pieces = re.split(r"\[([^\]]*)\]", part)
    # Every second piece is the content of a pair of brackets.
    choices = [
      list(_slurm_numbers(piece)) if number % 2 else [piece]
      for number, piece in enumerate(pieces)
    ]
    yield from map("".join, itertools.product(*choices))


def _slurm_numbers(ranges: str) -> Iterator[str]:
  """Yields the numbers of "08-10,12": 08, 09, 10, 12."""
  for part in ranges.split(","):
    first, _, last = part.partition("-")
    for number in range(int(first), int(last or first) + 1):
      yield str(number).zfill(len(first))


def _slurm_counts(tasks: str) -> Iterator[int]:
  """Yields the numbers of "2(x3),1": 2, 2, 2, 1."""
  for part in tasks.split(","):
    match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
    if not match:
      raise ValueError(f"expected numbers of tasks, got {tasks!r}")
    yield from [int(match[1])] * int(match[2] or 1)


def _sagemaker(environment: Mapping[str, str]) -> dict:
  hosts_text, own = environment["SM_HOSTS"], environment.get("SM_CURRENT_HOST")
  try:
    hosts = json.loads(hosts_text)
    index = hosts.index(own)
  except (ValueError, AttributeError) as error:
    raise errors.InputError(
      f"SageMaker's variables are not understood: SM_HOSTS={hosts_text}, "
      f"SM_CURRENT_HOST={own}; set TF_CONFIG"
    ) from error
  return _config([f"{host}:{_FIRST_PORT}" for host in hosts], index)


def _config(workers: list[str], index: int) -> dict:
  if index >= len(workers):
    raise errors.InputError(
      f"this process is number {index} of the workers {', '.join(workers)}; "
      "start one process per task, or set TF_CONFIG"
    )
  return {
    "cluster": {"worker": workers},
    "task": {"type": "worker", "index": index},
  }
