"""Distributes work to the workers of a Ray cluster."""

from collections.abc import Callable, Iterator

from common import errors
from pretraining import clusters


def check(options: str) -> None:
  """Raises InputError: Ray is not installed, or bad options."""
  _arguments(options)


def _arguments(options: str) -> dict:
  """Returns arguments of ray.init.

  They are the address of a cluster ("auto", "ray://host:10001"), or the size
  of a cluster on this machine: "num_cpus=4".
  """
  with errors.needs_extra("ray"):
    import ray  # noqa: F401
  # Ray's dashboard and its workers' output are of no use here.
  quiet = {"log_to_driver": False}
  if not options or "=" in options:
    quiet["include_dashboard"] = False
  return {**quiet, **clusters.arguments(options, "Ray")}


def in_order(
  options: str, function: Callable, blocks: list, *, results: str
) -> Iterator:
  """Yields function(block) for each block; see the folder's docstring."""
  del results  # Ray returns the results itself.
  arguments = _arguments(options)
  import ray

  with ray.init(**arguments):
    task = ray.remote(num_cpus=1, max_retries=2)(lambda block: function(block))
    for reference in [task.remote(block) for block in blocks]:
      yield ray.get(reference)
