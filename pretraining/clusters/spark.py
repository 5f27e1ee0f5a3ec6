"""Distributes work to the executors of a Spark cluster."""

import os
import sys
from collections.abc import Callable

from common import errors
from pretraining import clusters


def check(options: str) -> None:
  """Raises InputError: pyspark is not installed, or bad options."""
  _settings(options)


def _settings(options: str) -> dict[str, str]:
  """Returns Spark's properties, for example spark.master=spark://host:7077.

  Without spark.master, spark-submit's or this machine's cores are used.
  """
  with errors.needs_extra("spark"):
    import pyspark  # noqa: F401
  return clusters.key_values(options, "Spark")


def in_order(
  options: str, function: Callable, blocks: list, *, results: str
) -> list:
  """Returns function(block) for each block; see the folder's docstring."""
  del results  # Spark returns the results itself.
  settings = _settings(options)
  from pyspark.sql import SparkSession

  if settings.get("spark.master", "local").startswith("local"):
    # Spark's own default is the first python3 of the shell's path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
  builder = SparkSession.builder.appName("bert-create-pretraining-data")
  for name, value in settings.items():
    builder = builder.config(name, value)
  session = builder.getOrCreate()
  try:
    # A task is a block, so a lost executor costs the blocks that it had.
    spread = session.sparkContext.parallelize(blocks, len(blocks))
    return spread.map(function).collect()
  finally:
    session.stop()
