"""Distributes work to the workers of a Ray cluster."""

from collections.abc import Callable, Iterator

from common import errors
from pretraining import clusters

_DEFAULTS = {"include_dashboard": "false", "log_to_driver": "false"}
_VALUES = {"true": True, "false": False}


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
  if options and "=" not in options:
    return {"address": options, "log_to_driver": False}
  values = {**_DEFAULTS, **clusters.key_values(options, "Ray")}
  return {
    name: int(value) if value.isdecimal() else _VALUES.get(value, value)
    for name, value in values.items()
  }


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
