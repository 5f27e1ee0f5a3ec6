"""Ragged ids -> inputs of the model, as TensorFlow operations.

What input_sequences.py does to lists, done to a batch inside a graph, and the
windows of a long context. Letters: B examples, W windows, T sequence length,
(N) a length that differs from row to row.
"""

from typing import NamedTuple

import tensorflow as tf


class ModelInputs(NamedTuple):
  """Inputs of modeling.BertModel, int32 [B, T], T that of the longest row."""

  input_ids: tf.Tensor
  input_mask: tf.Tensor
  segment_ids: tf.Tensor


class Windows(NamedTuple):
  """Question and a stretch of its context, for every stretch.

  Attributes:
    inputs: ModelInputs [W, T].
    examples: int64 [W], the example of each window, ascending.
    starts: int64 [W], first piece of the context that is in the window.
    lengths: int64 [W], how many pieces of the context are.
    offsets: int64 [W], where in the sequence the first of them is.
  """

  inputs: ModelInputs
  examples: tf.Tensor
  starts: tf.Tensor
  lengths: tf.Tensor
  offsets: tf.Tensor


def first_of(ragged, counts):
  """Returns the first `counts` [B] or fewer values of each row [B, (N)]."""
  rows = ragged.value_rowids()
  within = tf.range(tf.size(rows, tf.int64)) - tf.gather(
    ragged.row_starts(), rows
  )
  counts = tf.broadcast_to(tf.cast(counts, tf.int64), [ragged.nrows()])
  kept = within < tf.gather(counts, rows)
  return tf.RaggedTensor.from_value_rowids(
    tf.boolean_mask(ragged.flat_values, kept),
    tf.boolean_mask(rows, kept),
    nrows=ragged.nrows(),
  )


def kept_of_pair(lengths_a, lengths_b, room):
  """Returns what `input_sequences.truncate_pair` leaves of two lengths.

  Taking from the longer one, and from the second where they are equal, gives
  the first at least the larger half of the room.

  Args:
    lengths_a, lengths_b: int64 [B].
    room: integer, for both together.

  Returns:
    Two int64 [B].
  """
  larger_half = room - room // 2
  kept_a = tf.minimum(lengths_a, tf.maximum(room - lengths_b, larger_half))
  return kept_a, tf.minimum(lengths_b, room - kept_a)


def single_inputs(ids, *, max_seq_length, cls_id, sep_id):
  """Returns ModelInputs of "[CLS] ids [SEP]", the end cut off if need be.

  Args:
    ids: ragged int32 [B, (N)].
    max_seq_length: integer.
    cls_id, sep_id: ids of the special tokens.
  """
  ids = first_of(ids, max_seq_length - 2)
  cls, sep = _columns(ids, cls_id, sep_id)
  return _padded(tf.concat([cls, ids, sep], 1))


def pair_inputs(ids_a, ids_b, *, max_seq_length, cls_id, sep_id):
  """Returns ModelInputs of "[CLS] a [SEP] b [SEP]", shortened if need be.

  Args:
    ids_a, ids_b: ragged int32 [B, (N)].
    max_seq_length, cls_id, sep_id: as for `single_inputs`.
  """
  kept_a, kept_b = kept_of_pair(
    ids_a.row_lengths(), ids_b.row_lengths(), max_seq_length - 3
  )
  return _joined(
    first_of(ids_a, kept_a), first_of(ids_b, kept_b), cls_id, sep_id
  )


def windows(
  question_ids,
  context_ids,
  *,
  max_seq_length,
  doc_stride,
  max_query_length,
  cls_id,
  sep_id,
):
  """Cuts contexts into windows that overlap, each behind its question.

  A context without a piece gets one window, with nothing in it.

  Args:
    question_ids, context_ids: ragged int32 [B, (N)].
    max_seq_length: integer, at least max_query_length + 4.
    doc_stride: from one window to the next, in pieces.
    max_query_length: longer questions are cut off.
    cls_id, sep_id: ids of the special tokens.

  Returns:
    Windows.
  """
  question_ids = first_of(question_ids, max_query_length)
  question, lengths = question_ids.row_lengths(), context_ids.row_lengths()
  room = max_seq_length - 3 - question
  stride = tf.minimum(room, doc_stride)
  counts = 1 + -(-tf.maximum(lengths - room, 0) // stride)
  examples = tf.repeat(tf.range(tf.size(counts, tf.int64)), counts)
  number = tf.range(tf.size(examples, tf.int64)) - tf.gather(
    tf.cumsum(counts, exclusive=True), examples
  )
  starts = number * tf.gather(stride, examples)
  kept = tf.minimum(
    tf.gather(lengths, examples) - starts, tf.gather(room, examples)
  )
  first = tf.gather(context_ids.row_starts(), examples) + starts
  indices = tf.ragged.range(first, first + kept)
  stretch = tf.ragged.map_flat_values(
    lambda i: tf.gather(context_ids.flat_values, i), indices
  )
  return Windows(
    inputs=_joined(tf.gather(question_ids, examples), stretch, cls_id, sep_id),
    examples=examples,
    starts=starts,
    lengths=kept,
    offsets=tf.gather(question, examples) + 2,
  )


def is_max_context(windows, context_lengths):
  """Whether a window sees a piece with more context than the others do.

  As in the original: the smaller of what is left and right of the piece
  counts, and a hundredth of the window's length; the first of equal ones.

  Args:
    windows: Windows.
    context_lengths: int64 [B], pieces of each context.

  Returns:
    bool ragged [W, (N)], for the pieces of each window.
  """
  pieces = tf.ragged.range(windows.lengths)
  window = pieces.value_rowids()
  length = tf.gather(windows.lengths, window)
  left = pieces.flat_values
  score = tf.cast(tf.minimum(left, length - 1 - left), tf.float64)
  score += 0.01 * tf.cast(length, tf.float64)
  # The number of a piece among those of all contexts.
  before = tf.cumsum(context_lengths, exclusive=True)
  piece = left + tf.gather(
    tf.gather(before, windows.examples) + windows.starts, window
  )
  count = tf.reduce_sum(context_lengths)
  best = tf.math.unsorted_segment_max(score, piece, count)
  is_best = tf.equal(score, tf.gather(best, piece))
  none = tf.size(windows.starts, tf.int64)
  first = tf.math.unsorted_segment_min(
    tf.where(is_best, window, none), piece, count
  )
  return pieces.with_flat_values(tf.equal(window, tf.gather(first, piece)))


def _columns(ragged, *values):
  """Returns a ragged [B, 1] of each value."""
  return [
    tf.RaggedTensor.from_tensor(
      tf.fill([ragged.nrows(), 1], tf.constant(value, ragged.dtype))
    )
    for value in values
  ]


def _joined(ids_a, ids_b, cls_id, sep_id):
  cls, sep = _columns(ids_a, cls_id, sep_id)
  segments_a = tf.concat([cls, ids_a, sep], 1)
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
