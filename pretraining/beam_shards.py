"""Makes the shards of sharding on a cluster with Apache Beam.

Beam only distributes shards to workers, which write the same files as one
machine would, byte for byte. So every worker must be able to reach all files
(gs://..., a shared disk) and needs this project's package.
"""

import functools
import json

from absl import logging

from common import errors, file_io, json_files
from pretraining import sharding


def make(
  run: sharding.ShardedRun, runner: str, arguments: list[str]
) -> list[sharding.ShardResult]:
  """Makes the missing shards of a run.

  Args:
    run: whose shards are made.
    runner: name of a Beam runner.
    arguments: that runner's flags ("--flink_master=...").

  Returns:
    A result for each shard.

  Raises:
    InputError: apache-beam is not installed, or as in ShardedRun.begin.
  """
  beam = _import_beam()
  # Here, once: workers only make what this process found missing.
  missing = run.begin()
  logging.info("%s makes %d shards", runner, len(missing))
  path = f"{run.manifest}.results"
  # The runner's own flags: this project knows none of them.
  runner_options = beam.options.pipeline_options.PipelineOptions(arguments)
  with beam.Pipeline(runner=runner, options=runner_options) as pipeline:
    _ = (
      pipeline
      | "Shards" >> beam.Create(missing)
      # Otherwise Beam fuses the steps, and one worker gets all shards.
      | "Spread" >> beam.Reshuffle()
      | "Make" >> beam.Map(functools.partial(sharding.make_shard, run.options))
      | "Gather" >> beam.combiners.ToList()
      | "Write" >> beam.Map(_write_results, path=path)
    )
  results = [
    sharding.ShardResult(*result) for result, _ in json_files.read(path, list)
  ]
  # A file between two parts of the run, which nobody needs afterwards.
  file_io.remove(path)
  return run.end(results)


def _import_beam():
  try:
    import apache_beam
  except ImportError as error:
    raise errors.InputError(
      "--runner needs Apache Beam: pip install apache-beam, or leave --runner "
      "out to use this machine's processors"
    ) from error
  return apache_beam


def _write_results(results, path):
  file_io.write_text(path, json.dumps(results))
