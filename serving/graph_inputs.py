"""Ragged ids -> inputs of the model, as TensorFlow operations.

What input_sequences.py does to lists, done to a batch inside a graph, and the
windows of long texts: those of run_squad.py, run_classifier.py and run_ner.py,
each cut by its script's rule. Letters: B examples, W windows, T sequence
length, (N) a length that differs from row to row.
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


def text_windows(
  ids_a,
  ids_b,
  *,
  max_seq_length,
  doc_stride,
  max_windows=0,
  cls_id,
  sep_id,
):
  """Slides windows over the longer text of each example, as run_classifier.py.

  Of two texts the shorter one is in every window, cut to half the room.

  Args:
    ids_a, ids_b: ragged int32 [B, (N)]; rows of ids_b without a piece: there
      is no second text.
    max_seq_length: integer.
    doc_stride: from one window to the next, in pieces.
    max_windows: at most this many for an example; 0: all.
    cls_id, sep_id: ids of the special tokens.

  Returns:
    ModelInputs [W, T], and int64 [W], the example of each window, ascending.
  """
  lengths_a, lengths_b = ids_a.row_lengths(), ids_b.row_lengths()
  has_b, slides_b = lengths_b > 0, lengths_b > lengths_a  # [B]
  room = max_seq_length - tf.where(has_b, 3, 2)
  room = tf.cast(room, tf.int64)
  # Of the text that does not slide; 0 where there is no second one.
  whole = tf.minimum(tf.minimum(lengths_a, lengths_b), room // 2)
  # Of the sliding text, in every window: int64 [B].
  room -= whole
  # A longer stride would leave out text between two windows.
  stride = tf.minimum(room, doc_stride)
  longer = tf.maximum(lengths_a, lengths_b)
  counts = _window_counts(longer, room, stride)
  if max_windows:
    counts = tf.minimum(counts, max_windows)
  examples, number = _numbered(counts)
  # From here on [W]; the last window of a text may be shorter.
  start = number * tf.gather(stride, examples)
  part = tf.minimum(
    tf.gather(room, examples), tf.gather(longer, examples) - start
  )
  whole, slides = tf.gather(whole, examples), tf.gather(slides_b, examples)
  zero = tf.zeros_like(start)  # [W]
  ids_a = _stretches(
    ids_a, examples, tf.where(slides, zero, start),
    tf.where(slides, whole, part),
  )
  ids_b = _stretches(
    ids_b, examples, tf.where(slides, start, zero),
    tf.where(slides, part, whole),
  )
  inputs = _joined(
    ids_a, ids_b, cls_id, sep_id, end_of_b=tf.gather(has_b, examples)
  )
  return inputs, examples


def windows_of_words(word_lengths, room):
  """Packs words into windows, greedily and never cut, as run_ner.py.

  Args:
    word_lengths: ragged int64 [B, (N)], pieces of each word, 1 to `room`.
    room: pieces in a window.

  Returns:
    int64 ragged [B, (N)]: the window of each word, from 0 in each row.
  """
  # Words of 2, 3, 1 and 4 pieces with room for 5: windows 0, 0, 1 and 1.
  ends = tf.cumsum(word_lengths.to_tensor(), axis=1)  # [B, N]
  # One more column: a text without a word has no maximum.
  total = tf.reduce_max(tf.pad(ends, [[0, 0], [1, 0]]), axis=1)

  def add_window(start, numbers):
    # The last word that ends within the room ends the window.
    fits = ends <= start[:, tf.newaxis] + room
    end = tf.reduce_max(
      tf.pad(tf.where(fits, ends, 0), [[0, 0], [1, 0]]), axis=1
    )
    is_later = ends > end[:, tf.newaxis]
    return end, numbers + tf.cast(is_later, tf.int64)

  # A loop over windows, of all rows together: there are few of them, and
  # where one begins depends on the one before it.
  _, numbers = tf.while_loop(
    lambda start, _: tf.reduce_any(start < total),
    add_window,
    [tf.zeros_like(total), tf.zeros_like(ends)],
  )
  return tf.RaggedTensor.from_tensor(
    numbers, lengths=word_lengths.row_lengths()
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
  question_ids = first_of(question_ids, max_query_length)  # [B, (N)]
  question, lengths = question_ids.row_lengths(), context_ids.row_lengths()
  room = max_seq_length - 3 - question
  # As in the original: from one window to the next at most all that it holds.
  stride = tf.minimum(room, doc_stride)
  counts = _window_counts(lengths, room, stride)
  examples, number = _numbered(counts)
  starts = number * tf.gather(stride, examples)
  kept = tf.minimum(
    tf.gather(lengths, examples) - starts, tf.gather(room, examples)
  )
  stretch = _stretches(context_ids, examples, starts, kept)
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
  pieces = tf.ragged.range(windows.lengths)  # [W, (N)]
  window = pieces.value_rowids()  # Of each piece, all in one row.
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
  # Two passes: the best score of each piece, then the first window with it.
  best = tf.math.unsorted_segment_max(score, piece, count)
  is_best = tf.equal(score, tf.gather(best, piece))
  # Above every number of a window.
  none = tf.size(windows.starts, tf.int64)
  first = tf.math.unsorted_segment_min(
    tf.where(is_best, window, none), piece, count
  )
  return pieces.with_flat_values(tf.equal(window, tf.gather(first, piece)))


def _window_counts(lengths, room, stride):
  """Returns int64 [B], how many windows of `room` pieces the texts need."""
  # One, and another for each stride of what it does not hold, rounded up.
  return 1 + -(-tf.maximum(lengths - room, 0) // stride)


def _numbered(counts):
  """Returns the example of each window, and its number among the example's.

  Args:
    counts: int64 [B], how many windows each example has.

  Returns:
    int64 [W], int64 [W].
  """
  # Counts [2, 1, 3]: examples 0 0 1 2 2 2, numbers 0 1 0 0 1 2.
  examples = tf.repeat(tf.range(tf.size(counts, tf.int64)), counts)
  before = tf.gather(tf.cumsum(counts, exclusive=True), examples)
  return examples, tf.range(tf.size(examples, tf.int64)) - before


def _stretches(ids, examples, starts, lengths):
  """Returns parts of the rows of ids [B, (N)], ragged [W, (N)].

  Args:
    ids: ragged [B, (N)].
    examples, starts, lengths: int64 [W], the row of each part and which of its
      pieces.
  """
  first = tf.gather(ids.row_starts(), examples) + starts
  return tf.ragged.map_flat_values(
    lambda i: tf.gather(ids.flat_values, i),
    tf.ragged.range(first, first + lengths),
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
