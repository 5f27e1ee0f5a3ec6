"""The flags that choose the cluster whose workers write the shards."""

import functools
from collections.abc import Callable
from typing import Any

from common import flags, process_pool
from pretraining import clusters


def define() -> None:
  """Defines --engine, --engine_options and --beam_options."""
  flags.DEFINE_string(
    "engine",
    None,
    "The cluster whose workers make the files, which have the same bytes: "
    f"{', '.join(clusters.names())}, each with its extra (pip install "
    '"bert-tf2[dask]"), or the path of your own module.',
    needs="shard_size_mb",
  )
  flags.DEFINE_string(
    "engine_options",
    "",
    'Options of the engine. beam: its own flags ("--runner=FlinkRunner '
    '--flink_master=host:8081"). dask and ray: the address of the scheduler, '
    'or "n_workers=4", "num_cpus=4" for workers on this machine. spark: its '
    'properties ("spark.master=spark://host:7077").',
    needs="engine",
  )
  flags.DEFINE_string(
    "beam_options",
    None,
    "The same as --engine=beam --engine_options.",
    needs="shard_size_mb",
    not_with="engine",
  )


def _engine(values: Any) -> tuple[str | None, str]:
  """Returns the cluster's name, None for this machine, and its options."""
  if values.beam_options is not None:
    return "beam", values.beam_options
  return values.engine, values.engine_options


def check() -> None:
  """Raises InputError if the engine is not installed or refuses its options."""
  engine, options = _engine(flags.FLAGS)
  if engine:
    clusters.check(engine, options)


def in_order(settings: Any, manifest: str) -> Callable:
  """Returns the function that distributes shards as the flags say.

  Args:
    settings: the flags' values, with `num_processes`.
    manifest: path of the shards' manifest; a temporary file is next to it.
  """
  engine, options = _engine(settings)
  if not engine:
    return functools.partial(
      process_pool.in_order, processes=settings.num_processes
    )
  return functools.partial(
    clusters.in_order, engine, options, results=f"{manifest}.results"
  )
