"""What a frozen encoder gives for each window, computed once and stored.

Its states are the same for every choice of features that are compared. A
record holds its real tokens only: [t, N H] float32, N outputs of the encoder of
width H. For BERT base, all twelve layers and 200,000 words of text this takes
some 8 GB.
"""

import numpy as np
import tensorflow as tf

import modeling
from records import pipeline, tfrecord
from tagging import bilstm
from training import frozen_states

_HELD_BYTES = 1 << 29  # States that are held in memory before they are written.


def ensure(
  path: str, model, data, names: list[str], *, strategy: tf.distribute.Strategy,
  batch_size: int, trim: bool
):
  """Writes the states of all windows, unless they are there already.

  Args:
    path: the TFRecord file.
    model: taggers.TaggingModel with its weights and a frozen encoder.
    data: input_data.TaggingData.
    names: some of bilstm.FEATURES, all that will read the file.
    strategy, batch_size: of the prediction.
    trim: whether batches may be cut to their longest sequence; if not, the
      stored states are padded.

  Returns:
    input_data.TaggingData of records with states, in the order of `data`.
  """
  stored = bilstm.states_read(names, model.config.num_hidden_layers)
  width = len(stored) * model.config.hidden_size  # N H
  kept = ("input_mask", "label_ids")
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
    states = tf.pad(states, [[0, 0], [0, missing], [0, 0]])
    return {"states": states, **{name: full[name] for name in kept}}

  def serialize(outputs):
    return [
      tfrecord.serialize_example({
        # Real tokens alone, or all T positions where shapes must not vary.
        "states": np.ravel(states[: mask.sum()] if trim else states),
        "input_mask": mask, "label_ids": labels,
      })
      for states, mask, labels in zip(*outputs.values(), strict=True)
    ]

  # At least a batch, however large its states are.
  batches = max(1, _HELD_BYTES // (4 * batch_size * length * width))
  frozen_states.ensure(
    path, model.bert, data, of_batch, serialize,
    strategy=strategy, batch_size=batch_size, window=batch_size * batches,
    joins_short=False, states=stored, is_padded=not trim,
  )
  states = tf.io.FixedLenFeature([length, width], tf.float32)
  if trim:
    # Parsed to [B, longest of the batch, N H].
    states = tf.io.FixedLenSequenceFeature(
      [width], tf.float32, allow_missing=True
    )
  features = {name: data.features[name] for name in kept}
  return data._replace(records=path, features={**features, "states": states})


def restore(
  states: tf.Tensor, input_mask: tf.Tensor, stored: list[int],
  num_hidden_layers: int
) -> modeling.BertOutput:
  """Returns stored states as the encoder's output; None where there is none.

  Args:
    states: float32 [B, t, N H], t <= T.
    input_mask: integers [B, T].
    stored: the N numbers of bilstm.states_read.
    num_hidden_layers: of the model.
  """
  # The parser pads to the longest of the batch, the mask has all T.
  missing = tf.shape(input_mask)[1] - tf.shape(states)[1]
  states = tf.pad(states, [[0, 0], [0, missing], [0, 0]])
  outputs = dict(zip(stored, tf.split(states, len(stored), axis=-1)))
  layers = range(1, num_hidden_layers + 1)
  return modeling.BertOutput(
    embedding_output=outputs.get(0),
    all_encoder_layers=tuple(outputs.get(number) for number in layers),
    sequence_output=None, pooled_output=None, attention_probs=None
  )
