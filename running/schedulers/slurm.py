"""The tasks of a step of Slurm.

It is an alternative to tf.distribute's SlurmClusterResolver, which sorts hosts
by name ("n10" before "n2"), so that a process may take another's address. No
TensorFlow.
"""

import itertools
import re
from collections.abc import Iterator, Mapping

from common import errors
from running import schedulers

_NUM_PORTS = 10000


def workers(environment: Mapping[str, str]) -> tuple[list[str], int] | None:
  """Returns the addresses of the step's tasks and this task's number, or None.

  Slurm sets the variables in a step (srun). A job's script, outside of srun, is
  one process. Raises InputError: a variable has an unknown form.
  """
  names = ("SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE", "SLURM_PROCID")
  if names[0] not in environment or names[2] not in environment:
    return None
  nodes, tasks, rank = (environment.get(name, "") for name in names)
  try:
    hosts = list(_hosts(nodes))
    counts = list(_counts(tasks or "1"))
    # Steps of several jobs may share a machine.
    job = int(environment.get("SLURM_JOB_ID", "0"))
    index = int(rank)
  except ValueError as error:
    shown = " ".join(f"{name}={environment.get(name)}" for name in names)
    raise errors.InputError(
      f"Slurm's variables are not understood ({error}): {shown}; set TF_CONFIG"
    ) from error
  first_port = schedulers.FIRST_PORT + job % _NUM_PORTS
  addresses = [
    f"{host}:{first_port + number}"
    for host, count in zip(hosts, counts)
    for number in range(count)
  ]
  return addresses, index


def _hosts(nodes: str) -> Iterator[str]:
  """Yields the hosts of "n[09-10,12],login": n09, n10, n12, login."""
  # A part is text outside of brackets with any number of bracketed lists.
  parts = re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", nodes)
  if not parts or ",".join(parts) != nodes:
    raise ValueError(f"expected a list of hosts, got {nodes!r}")
  for part in parts:
    pieces = re.split(r"\[([^\]]*)\]", part)
    # Every second piece is the content of a pair of brackets.
    choices = [
      list(_numbers(piece)) if number % 2 else [piece]
      for number, piece in enumerate(pieces)
    ]
    yield from map("".join, itertools.product(*choices))


def _numbers(ranges: str) -> Iterator[str]:
  """Yields the numbers of "08-10,12": 08, 09, 10, 12."""
  for part in ranges.split(","):
    first, _, last = part.partition("-")
    for number in range(int(first), int(last or first) + 1):
      yield str(number).zfill(len(first))


def _counts(tasks: str) -> Iterator[int]:
  """Yields the numbers of "2(x3),1": 2, 2, 2, 1."""
  for part in tasks.split(","):
    match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
    if not match:
      raise ValueError(f"expected numbers of tasks, got {tasks!r}")
    yield from [int(match[1])] * int(match[2] or 1)
