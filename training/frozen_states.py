"""Computes the hidden states of a frozen encoder once and stores them.

A frozen encoder computes the same states in every epoch, so they are stored
next to the records (the feature-based approach of arXiv 1810.04805, section
5.3).
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
  compute_states: Callable,
  serialize: Callable,
  *,
  strategy: tf.distribute.Strategy,
  batch_size: int,
  window: int,
  joins_short: bool = True,
  **other_settings,
) -> None:
  """Writes the hidden states of all records to `path`, unless it has them.

  Args:
    path: the TFRecord file to write.
    encoder: the module whose weights determine the states.
    data: an object with `records`, a TFRecord file, and their `features`.
    compute_states: the function of the evaluation_loop.Predictor.
    serialize: function of the Predictor's outputs; returns a list of records.
    strategy, batch_size, window, joins_short: as in the Predictor.
    **other_settings: other settings that determine the states.
  """
  # The states do not depend on the pooler, which may be trained with the head.
  weights = [v for v in encoder.variables if "/pooler/" not in v.name]
  predictor = evaluation_loop.Predictor(
    strategy, compute_states, joins_short=joins_short
  )

  def write(writer) -> dict:
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
    **other_settings,
  }
  cached_records.ensure(path, fingerprint, write)
