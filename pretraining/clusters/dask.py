"""Distributes work to the workers of a Dask cluster."""

from collections.abc import Callable, Iterator

from common import errors
from pretraining import clusters


def check(options: str) -> None:
  """Raises InputError: Dask's scheduler is not installed, or bad options."""
  _arguments(options)


def _arguments(options: str) -> dict:
  """Returns arguments of distributed.Client.

  They are the address of a scheduler ("tcp://host:8786", or its file,
  "scheduler_file=/disk/scheduler.json"), or the workers of a cluster on this
  machine: "n_workers=4 threads_per_worker=1".
  """
  with errors.needs_extra("dask"):
    import distributed  # noqa: F401
  return clusters.arguments(options, "Dask")


def in_order(
  options: str, function: Callable, blocks: list, *, results: str
) -> Iterator:
  """Yields function(block) for each block; see the folder's docstring."""
  del results  # Dask returns the results itself.
  arguments = _arguments(options)
  import distributed

  with distributed.Client(**arguments) as client:
    # Not pure: a shard that was removed since must be made again.
    futures = client.map(function, blocks, pure=False, retries=2)
    for future in futures:
      yield future.result()
