"""Computes the hidden states of a frozen encoder once and stores them.

An encoder that is not trained gives the same states in every epoch, so they are
written next to the records (the feature-based approach of arXiv 1810.04805,
section 5.3).
"""

from collections.abc import Callable

import tensorflow as tf
from absl import logging

from records import cached_records, pipeline
from training import evaluation_loop

_FORMAT = 1


def store(
  path: str,
  encoder: tf.Module,
  data,
  of_batch: Callable,
  serialize: Callable,
  *,
  strategy: tf.distribute.Strategy,
  batch_size: int,
  window: int,
  joins_short: bool = True,
  **decided,
) -> None:
  """Writes the hidden states of all records, unless they exist already.

  Args:
    encoder: the module whose weights determine the states.
    data: an object with `records`, a TFRecord file, and their `features`.
    of_batch: the function of an evaluation_loop.Predictor.
    serialize: function of its outputs; returns a list of records.
    strategy, batch_size, window, joins_short: as in the Predictor.
    **decided: other settings that determine the states.
  """
  # Without the pooler, which is trained with the head or not read.
  weights = [v for v in encoder.variables if "/pooler/" not in v.name]
  predictor = evaluation_loop.Predictor(
    strategy, of_batch, joins_short=joins_short
  )

  def write(writer):
    logging.info("computing the encoder's states of %s", data.records)
    for outputs in predictor.windows(
      pipeline.sequential_records([data.records]),
      data.features,
      batch_size=batch_size,
      window=window,
    ):
      writer.write_all(serialize(outputs))
    return {}

  fingerprint = {
    "format": _FORMAT,
    "encoder": cached_records.weights_sha256(weights),
    "compute_dtype": encoder.compute_dtype.name,
    "records": cached_records.file_sha256(data.records),
    **decided,
  }
  cached_records.ensure(path, fingerprint, write)
