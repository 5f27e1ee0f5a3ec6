"""Ragged ids -> inputs of the model, as TensorFlow operations.

What input_sequences.py does to lists, done to a batch inside a graph. Letters:
B examples, T sequence length, (N) a length that differs from row to row.
"""

from typing import NamedTuple

import tensorflow as tf


class ModelInputs(NamedTuple):
  """Inputs of modeling.BertModel, int32 [B, T], T that of the longest row."""

  input_ids: tf.Tensor
  input_mask: tf.Tensor
  segment_ids: tf.Tensor


def checked(config, **inputs) -> dict:
  """Returns inputs, if they fit each other and the modeling.BertConfig.

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


def first_of(ragged, counts):
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


def single_inputs(ids, *, max_seq_length, cls_id, sep_id):
  """Returns ModelInputs of "[CLS] ids [SEP]", the end cut off if need be.

  Args:
    ids: ragged int32 [B, (N)].
    max_seq_length: integer.
    cls_id, sep_id: ids of the special tokens.
  """
  ids = first_of(ids, max_seq_length - 2)
  cls, sep = _columns(ids, cls_id, sep_id)  # [B, 1]
  return _padded(tf.concat([cls, ids, sep], 1))


def pair_inputs(ids_a, ids_b, *, max_seq_length, cls_id, sep_id):
  """Returns ModelInputs of "[CLS] a [SEP] b [SEP]", shortened if need be.

  As in the original: a second text without any piece counts as none.

  Args:
    ids_a, ids_b: ragged int32 [B, (N)].
    max_seq_length, cls_id, sep_id: as for `single_inputs`.
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
  return _joined(
    first_of(ids_a, kept_a), first_of(ids_b, kept_b), cls_id, sep_id,
    end_of_b=lengths_b > 0,
  )


def _columns(ragged, *values):
  """Returns a ragged [B, 1] of each value."""
  return [
    tf.RaggedTensor.from_tensor(
      tf.fill([ragged.nrows(), 1], tf.constant(value, ragged.dtype))
    )
    for value in values
  ]


def _joined(ids_a, ids_b, cls_id, sep_id, *, end_of_b=None):
  """Returns ModelInputs of "[CLS] a [SEP] b [SEP]".

  Args:
    ids_a, ids_b: ragged int32 [B, (N)].
    cls_id, sep_id: ids of the special tokens.
    end_of_b: bool [B], whether the last [SEP] is there; None: everywhere.
  """
  cls, sep = _columns(ids_a, cls_id, sep_id)
  segments_a = tf.concat([cls, ids_a, sep], 1)
  # As in the original: no second text, no second [SEP].
  if end_of_b is not None:
    sep = first_of(sep, tf.cast(end_of_b, tf.int64))
  segments_b = tf.concat([ids_b, sep], 1)
  return _padded(
    tf.concat([segments_a, segments_b], 1),
    tf.concat([tf.zeros_like(segments_a), tf.ones_like(segments_b)], 1),
  )


def _padded(ids, segments=None):
  input_ids = ids.to_tensor()
  return ModelInputs(
    input_ids=input_ids,
    input_mask=tf.ones_like(ids).to_tensor(),
    segment_ids=(
      tf.zeros_like(input_ids) if segments is None else segments.to_tensor()
    ),
  )
