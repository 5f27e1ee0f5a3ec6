"""What a frozen encoder gives for each window, computed once and stored.

Its states are the same in every epoch and for every choice of features that
are compared, so they are written next to the records. A record holds its real
tokens only: [t, N H] float32, N outputs of the encoder of width H. For BERT
base, all twelve layers and 200,000 words of text this takes some 8 GB.
"""

import numpy as np
import tensorflow as tf
from absl import logging

import modeling
from common import tfrecord
from tagging import bilstm
from training import cached_records, evaluation_loop, pipeline

_FORMAT = 1
_HELD_BYTES = 1 << 29  # States that are held in memory before they are written.


def ensure(path, model, data, names, *, strategy, batch_size, trim):
  """Writes the states of all windows, unless they are there already.

  Args:
    path: the TFRecord file.
    model: taggers.TaggingModel with its weights and a frozen encoder.
    data: input_data.TaggingData.
    names: some of bilstm.FEATURES, all that will read the file.
    strategy: tf.distribute.Strategy of the model.
    batch_size: windows in a batch, over all replicas.
    trim: whether batches may be cut to their longest sequence; if not, the
      stored states are padded.

  Returns:
    input_data.TaggingData of records with states, in the order of `data`.
  """
  stored = bilstm.states_read(names, model.config.num_hidden_layers)
  # Without the pooler, which no tag reads.
  encoder = [v for v in model.bert.variables if "/pooler/" not in v.name]
  fingerprint = {
    "format": _FORMAT,
    "encoder": cached_records.weights_sha256(encoder),
    "compute_dtype": model.bert.compute_dtype.name,
    "records": cached_records.file_sha256(data.records),
    "states": stored,
    "is_padded": not trim,
  }

  def write(writer):
    logging.info("computing the encoder's states of %s", data.records)
    for outputs in _computed(
      model, data, stored, strategy=strategy, batch_size=batch_size, trim=trim
    ):
      for states, mask, labels in zip(*outputs.values(), strict=True):
        # Real tokens alone, or all T positions where shapes must not vary.
        size = mask.sum() if trim else len(mask)
        record = {"states": np.ravel(states[:size]), "input_mask": mask,
                  "label_ids": labels}
        writer.write(tfrecord.serialize_example(record))
    return {"num_records": len(data.windows)}

  cached_records.ensure(path, fingerprint, write)
  return data._replace(
    records=path,
    features=_features(data, len(stored) * model.config.hidden_size, trim),
  )


def _features(data, width, trim):
  """Returns the features of the records, dict from name to those of tf.io."""
  features = {n: data.features[n] for n in ("input_mask", "label_ids")}
  (length,) = features["input_mask"].shape
  states = tf.io.FixedLenFeature([length, width], tf.float32)
  if trim:
    # Parsed to [B, longest of the batch, N H].
    states = tf.io.FixedLenSequenceFeature(
      [width], tf.float32, allow_missing=True
    )
  return {**features, "states": states}


def _computed(model, data, stored, *, strategy, batch_size, trim):
  """Returns an iterator of dicts of arrays [n, T, ...], n as memory allows."""
  (length,) = data.features["input_mask"].shape

  def of_batch(batch):
    full = batch
    if trim:
      batch = pipeline.trim_to_longest(batch)
    output = model.bert.encode(batch)
    outputs = (output.embedding_output, *output.all_encoder_layers)
    # [B, T', N H]
    states = tf.concat(
      [tf.cast(outputs[number], tf.float32) for number in stored], axis=-1
    )
    # Padded to T for the predictor, which joins batches; cut when written.
    missing = length - tf.shape(states)[1]
    return {
      "states": tf.pad(states, [[0, 0], [0, missing], [0, 0]]),
      "input_mask": full["input_mask"],
      "label_ids": full["label_ids"],
    }

  # Bytes of a batch: float32.
  width = len(stored) * model.config.hidden_size
  num_bytes = 4 * batch_size * length * width
  predictor = evaluation_loop.Predictor(strategy, of_batch, joins_short=False)
  return predictor.windows(
    pipeline.sequential_records([data.records]),
    data.features,
    batch_size=batch_size,
    # At least a batch, however large its states are.
    window=batch_size * max(1, _HELD_BYTES // num_bytes),
  )


def restore(states, input_mask, stored, num_hidden_layers):
  """Returns stored states as the encoder's output.

  Args:
    states: float32 [B, t, N H], t <= T.
    input_mask: integers [B, T].
    stored: the N numbers of bilstm.states_read.
    num_hidden_layers: of the model.

  Returns:
    modeling.BertOutput with None where nothing was stored.
  """
  # The parser pads to the longest of the batch, the mask has all T.
  missing = tf.shape(input_mask)[1] - tf.shape(states)[1]
  states = tf.pad(states, [[0, 0], [0, missing], [0, 0]])
  outputs = dict(zip(stored, tf.split(states, len(stored), axis=-1)))
  layers = range(1, num_hidden_layers + 1)
  return modeling.BertOutput(
    embedding_output=outputs.get(0),
    all_encoder_layers=tuple(outputs.get(number) for number in layers),
    sequence_output=None,
    pooled_output=None,
    attention_probs=None,
  )
