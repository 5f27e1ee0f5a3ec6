"""The shards of sharding, made on a cluster by Apache Beam.

Beam only hands shards to workers, which write the files that one machine
would write, byte for byte. So all files must lie where every worker reaches
them (gs://..., a shared disk), and the workers need this project's package.
"""

import json

import tensorflow as tf
from absl import logging

from common import errors, file_io
from pretraining import record_maker, sharding

_makers = {}  # Of a worker: its RecordMaker, by the recipe.


def make(run, runner, arguments):
  """Makes the shards of a run that are not there yet.

  Args:
    run: sharding.ShardedRun.
    runner: name of a Beam runner.
    arguments: list of that runner's options ("--flink_master=...").

  Returns:
    A list of sharding.ShardResult, one for each shard.

  Raises:
    InputError: apache-beam is not installed, or as sharding says.
  """
  beam = _import_beam()
  missing = run.begin()
  logging.info("%s makes %d shards", runner, len(missing))
  results_path = f"{run.manifest}.results"
  options = beam.options.pipeline_options.PipelineOptions(arguments)
  with beam.Pipeline(runner=runner, options=options) as pipeline:
    made = (
      pipeline
      | "Shards" >> beam.Create(missing)
      # A shard for itself, not a bundle of them, goes to a worker.
      | "Spread" >> beam.Reshuffle()
      | "Make" >> beam.Map(_make_shard, recipe=run.recipe)
    )
    _ = (
      made
      | "Gather" >> beam.combiners.ToList()
      | "Tell" >> beam.Map(_write_results, path=results_path)
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


def _make_shard(shard, recipe):
  """Runs on a worker; keeps the tokenizer for the next shard."""
  if recipe not in _makers:
    _makers[recipe] = record_maker.RecordMaker(recipe)
  seed = recipe.options.random_seed
  made, _ = sharding.make_shard(_makers[recipe], seed, shard)
  return made


def _write_results(made, path):
  file_io.write_text(path, json.dumps(made))


def _read_results(path):
  with tf.io.gfile.GFile(path) as stream:
    values = json.loads(stream.read())
    made = [sharding.ShardResult(*value) for value in values]
  tf.io.gfile.remove(path)
  return made
