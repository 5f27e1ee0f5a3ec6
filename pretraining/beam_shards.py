"""Makes the shards of sharding on a cluster with Apache Beam.

Beam only distributes shards to workers, which write the same files as one
machine would, byte for byte. So every worker must be able to reach all files
(gs://..., a shared disk) and needs this project's package.
"""

import json

from absl import logging

from common import errors, file_io, json_files
from pretraining import record_maker, sharding

_makers = {}  # Of a worker: RecordOptions -> RecordMaker.


def make(run, runner, arguments):
  """Makes the missing shards of a run.

  Args:
    run: sharding.ShardedRun.
    runner: name of a Beam runner.
    arguments: list of that runner's flags ("--flink_master=...").

  Returns:
    A list of sharding.ShardResult, one for each shard.

  Raises:
    InputError: apache-beam is not installed, or as in ShardedRun.begin.
  """
  beam = _import_beam()
  # Here, once: workers only make what this process found missing.
  missing = run.begin()
  logging.info("%s makes %d shards", runner, len(missing))
  results_path = f"{run.manifest}.results"
  # The runner's own flags: this project knows none of them.
  runner_options = beam.options.pipeline_options.PipelineOptions(arguments)
  with beam.Pipeline(runner=runner, options=runner_options) as pipeline:
    results = (
      pipeline
      | "Shards" >> beam.Create(missing)
      # Otherwise Beam fuses the steps, and one worker gets all shards.
      | "Spread" >> beam.Reshuffle()
      | "Make" >> beam.Map(_make_shard, options=run.options)
    )
    _ = (
      results
      | "Gather" >> beam.combiners.ToList()
      | "Write" >> beam.Map(_write_results, path=results_path)
    )
  return run.end(_read_results(results_path))


def _import_beam():
  try:
    import apache_beam
  except ImportError as error:
    raise errors.InputError(
      "--runner needs Apache Beam: pip install apache-beam, or leave --runner "
      "out to use this machine's processors"
    ) from error
  return apache_beam


def _make_shard(shard, options):
  """Runs on a worker; keeps the tokenizer for the next shard."""
  # A frozen dataclass, so it can be a key.
  if options not in _makers:
    _makers[options] = record_maker.RecordMaker(options)
  seed = options.instances.random_seed
  result, _ = sharding.make_shard(_makers[options], seed, shard)
  return result


def _write_results(results, path):
  file_io.write_text(path, json.dumps(results))


def _read_results(path):
  values = json_files.read(path, kind=list)
  results = [sharding.ShardResult(*value) for value in values]
  # A file between two parts of the run, which nobody needs afterwards.
  file_io.remove(path)
  return results
