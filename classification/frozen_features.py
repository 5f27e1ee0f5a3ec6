"""What a frozen encoder makes of each example, computed once and kept.

An encoder that is not trained gives the same states in every epoch. So they
are written next to the records, and training the pooler and the classifier on
them takes seconds (the feature-based approach of arXiv 1810.04805, section
5.3). Letters: W sequences of an example, H width.
"""

import tensorflow as tf
from absl import logging

from common import tfrecord
from training import cached_records, distribution, evaluation_loop, pipeline

_FORMAT = 1
_COMPUTED_TOGETHER = 1 << 14  # Examples whose states are held in memory.


def ensure(path, model, data, *, strategy, batch_size):
  """Writes the states of all examples, unless they are there already.

  Args:
    path: the TFRecord file.
    model: classifier.ClassifierModel with its weights; the same weights
      and records give the same states, so that is what decides whether
      those in the file are taken again.
    data: input_data.ClassifierData of the examples.
    strategy: tf.distribute.Strategy of the model.
    batch_size: examples in a batch.

  Returns:
    input_data.ClassifierData of records that hold first_states and
    sequence_mask, in the order of `data`.
  """
  # The pooler is trained with the classifier, so it changes nothing here.
  encoder = [
    variable for variable in model.bert.variables
    if "/pooler/" not in variable.name
  ]
  fingerprint = {
    "format": _FORMAT,
    "encoder": cached_records.weights_sha256(encoder),
    "compute_dtype": model.bert.compute_dtype.name,
    "records": cached_records.file_sha256(data.records),
  }

  def write(writer):
    logging.info("computing the encoder's features of %s", data.records)
    for outputs in _computed(model, data, strategy, batch_size):
      # A feature of a record is one row of numbers: [W, H] becomes [W H].
      rows = {
        name: values.reshape(len(values), -1)
        for name, values in outputs.items()
      }
      writer.write_all(tfrecord.serialize_examples(rows))
    return {"num_records": data.num_records}

  cached_records.ensure(path, fingerprint, write)
  sequences, width = data.max_sequences, model.config.hidden_size
  return data._replace(
    records=path,
    features={
      "first_states": tf.io.FixedLenFeature([sequences, width], tf.float32),
      "sequence_mask": tf.io.FixedLenFeature([sequences], tf.int64),
      **{
        name: feature for name, feature in data.features.items()
        if name in ("label_ids", "is_real_example")
      },
    },
  )


def _computed(model, data, strategy, batch_size):
  """Returns an iterator of dicts of arrays [n, ...], n some thousands."""
  skip_empty = not distribution.is_tpu(strategy)

  def of_batch(batch):
    states, mask = model.first_states(
      pipeline.trim_to_longest(batch), skip_empty=skip_empty
    )
    missing = data.max_sequences - tf.shape(mask)[1]  # Of W.
    return {
      "first_states": tf.cast(
        # As wide as the widest example of all, since records have one size.
        tf.pad(states, [[0, 0], [0, missing], [0, 0]]), tf.float32
      ),
      "sequence_mask": tf.pad(mask, [[0, 0], [0, missing]]),
      "label_ids": batch["label_ids"],
      "is_real_example": batch["is_real_example"],
    }

  return evaluation_loop.Predictor(strategy, of_batch).windows(
    pipeline.sequential_records([data.records]),
    data.features,
    batch_size=batch_size,
    window=_COMPUTED_TOGETHER,
  )
