"""Ragged ids -> inputs of the model, as TensorFlow operations.

What input_sequences.py does to lists, done to a batch inside a graph. Letters:
B examples, T sequence length, (N) a length that differs from row to row.
"""

from typing import NamedTuple

import tensorflow as tf

import modeling


class ModelInputs(NamedTuple):
  """Inputs of modeling.BertModel, int32 [B, T], T that of the longest row."""

  input_ids: tf.Tensor
  input_mask: tf.Tensor
  segment_ids: tf.Tensor


def checked(config: modeling.BertConfig, **inputs) -> dict:
  """Returns inputs, if they fit each other and the model.

  A table that is asked for a row that it does not have gives zeros on some
  devices; so what comes from outside is checked, within the graph.
  """
  shape = tf.shape(inputs["input_ids"])  # [B, T]
  sizes = {
    "input_ids": config.vocab_size,
    "input_mask": 2,
    "segment_ids": config.type_vocab_size,
    "masked_lm_positions": shape[1],
  }
  for name, values in inputs.items():
    axes = 1 if name == "masked_lm_positions" else 2
    _refuse_unless(
      tf.reduce_all(tf.shape(values)[:axes] == shape[:axes]),
      f"{name} is of another shape than input_ids",
    )
    _refuse_unless(
      tf.reduce_all((values >= 0) & (values < sizes[name])),
      f"{name} has a number that is negative or too large for the model",
    )
  most = config.max_position_embeddings
  _refuse_unless(
    shape[1] <= most, f"input_ids has rows of more than {most}"
  )
  return inputs


def _refuse_unless(condition, sentence):
  tf.debugging.Assert(condition, [sentence])


def first_of(ragged: tf.RaggedTensor, counts) -> tf.RaggedTensor:
  """Returns the first `counts` [B] or fewer values of each row [B, (N)]."""
  rows = ragged.value_rowids()
  # The number of each value in its row.
  within = tf.range(tf.size(rows, tf.int64)) - tf.gather(
    ragged.row_starts(), rows
  )
  counts = tf.broadcast_to(tf.cast(counts, tf.int64), [ragged.nrows()])
  kept = within < tf.gather(counts, rows)  # Of the values of all rows.
  return tf.RaggedTensor.from_value_rowids(
    tf.boolean_mask(ragged.flat_values, kept),
    tf.boolean_mask(rows, kept),
    nrows=ragged.nrows(),
  )


def pair_inputs(
  ids_a: tf.RaggedTensor,
  ids_b: tf.RaggedTensor,
  *,
  max_seq_length: int,
  cls_id: int,
  sep_id: int,
) -> ModelInputs:
  """Joins "[CLS] a [SEP] b [SEP]" of int32 [B, (N)], shortened if need be.

  As in the original: a second text without any piece counts as none, "[CLS] a
  [SEP]".
  """
  lengths_a, lengths_b = ids_a.row_lengths(), ids_b.row_lengths()
  room = max_seq_length - 3
  # What `input_sequences.truncate_pair` leaves. It takes from the longer text,
  # and from the second where they are equal: so the first keeps at least the
  # larger half of the room.
  kept_a = tf.minimum(
    lengths_a, tf.maximum(room - lengths_b, room - room // 2)
  )
  kept_b = tf.minimum(lengths_b, room - kept_a)
  kept_a = tf.where(
    lengths_b > 0, kept_a, tf.minimum(lengths_a, max_seq_length - 2)
  )
  cls, sep = _columns(ids_a, cls_id, sep_id)  # [B, 1]
  first = tf.concat([cls, first_of(ids_a, kept_a), sep], 1)
  # As in the original: no second text, no second [SEP].
  sep = first_of(sep, tf.cast(lengths_b > 0, tf.int64))
  second = tf.concat([first_of(ids_b, kept_b), sep], 1)
  ids = tf.concat([first, second], 1)
  segments = tf.concat([tf.zeros_like(first), tf.ones_like(second)], 1)
  return ModelInputs(
    ids.to_tensor(), tf.ones_like(ids).to_tensor(), segments.to_tensor()
  )


def _columns(ragged, *values):
  """Returns a ragged [B, 1] of each value."""
  return [
    tf.RaggedTensor.from_tensor(
      tf.fill([ragged.nrows(), 1], tf.constant(value, ragged.dtype))
    )
    for value in values
  ]
