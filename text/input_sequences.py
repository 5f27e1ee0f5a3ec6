"""Builds inputs of a model from one or two texts: [CLS] a [SEP] b [SEP].

It uses NumPy and lists of ids, and no TensorFlow. Pre-training, fine-tuning and
feature extraction share it. `build_inputs` takes texts that are encoded one by
one; `fill_batch` takes parts of one long array of ids, such as windows.
Letters: B sequences, T tokens.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

import tokenization

# The features of sequences that a model reads, int32 [B, T] each.
NAMES = ("input_ids", "input_mask", "segment_ids")

# As in the original: this separates the two texts of a line.
TEXT_SEPARATOR = " ||| "
# Above this many tokens, larger batches hardly speed up matrix products.
_TOKENS_TOGETHER = 2048
# Batches that are cut to their longest sequence have a multiple of this length.
LENGTH_MULTIPLE = 8


class Spans(NamedTuple):
  """Selects the ids of B sequences from an array; int arrays [B].

  Attributes:
    start_a, length_a: the first text's part of an array of ids.
    start_b, length_b: the second text's part; length 0 if it has none.
  """

  start_a: np.ndarray
  length_a: np.ndarray
  start_b: np.ndarray
  length_b: np.ndarray


def truncated_lengths(lengths_a, lengths_b, room: int) -> tuple:
  """Returns the lengths to keep of two texts that share a sequence.

  Until both fit, the longer text (the second if both are equally long) loses
  its last piece: a short question keeps its words while a long passage is cut.
  (Pre-training cuts differently: see instance_maker.)
  """
  # Cutting the longer text leaves two halves, the larger half for a, unless one
  # text needs less than its half.
  # Room for 5 gives (9, 2) -> (3, 2), (5, 5) -> (3, 2), (2, 9) -> (2, 3).
  left_a = np.minimum(lengths_a, np.maximum(-(-room // 2), room - lengths_b))
  left_b = np.minimum(lengths_b, np.maximum(room // 2, room - lengths_a))
  return left_a, left_b


def truncate_pair(tokens_a: list, tokens_b: list, max_length: int) -> None:
  """Shortens two lists in place to their `truncated_lengths`.

  max_length is the room for both, without [CLS] and [SEP].
  """
  left_a, left_b = truncated_lengths(len(tokens_a), len(tokens_b), max_length)
  del tokens_a[left_a:], tokens_b[left_b:]


def window_starts(
  length: int, room: int, stride: int, max_windows: int = 0
) -> range:
  """Returns the start positions of the windows of a text.

  The last window is the first that reaches the end of the text. A text without
  pieces has one window.

  Args:
    length: pieces of the text.
    room: pieces in a window.
    stride: distance between starts; it is reduced to `room` if it is larger,
      because that would skip pieces.
    max_windows: maximum number of windows; 0: all.
  """
  # 10 pieces, room 4, stride 3: windows start at 0, 3 and 6.
  stride = min(stride, room)
  count = 1 + max(0, -(-(length - room) // stride))
  if max_windows:
    count = min(count, max_windows)
  return range(0, count * stride, stride)


def fill_batch(
  ids: np.ndarray, spans: Spans, max_seq_length: int, frame: tokenization.Frame
) -> dict[str, np.ndarray]:
  """Builds sequences from parts of an array; all of them must fit.

      [CLS] does ink dry ? [SEP] it does , ##soon . [SEP] [PAD]
    s   0    0    0   0  0   0   1  1   1    1    1   1     0
    m   1    1    1   1  1   1   1  1   1    1    1   1     0

  As in the original: an empty second text gets no [SEP].
  `ids` are the concatenated pieces of all texts; `spans` are [B]. The id of
  padding is 0 in any vocabulary, since no token's outputs depend on it.

  Returns:
    int32 [B, T] each: input_ids, input_mask (m above), segment_ids (s above).
  """
  rows = np.arange(len(spans.start_a))  # [B]
  # [B]: the place of the first text's [SEP], and whether text b has pieces.
  first_sep, is_pair = 1 + spans.length_a, spans.length_b > 0
  start_b = first_sep + np.where(is_pair, frame.between, 1)
  ends = start_b + np.where(is_pair, spans.length_b + 1, 0)
  input_ids = np.zeros([len(rows), max_seq_length], np.int32)
  input_ids[:, 0] = frame.cls_id
  for places in (first_sep, start_b - 1, ends - 1):
    input_ids[rows, places] = frame.sep_id
  _copy(ids, spans.start_a, spans.length_a, input_ids, 1)
  _copy(ids, spans.start_b, spans.length_b, input_ids, start_b)
  columns = np.arange(max_seq_length)  # [T]
  input_mask = columns < ends[:, None]  # [B, T]
  segment_ids = input_mask & (columns >= start_b[:, None])  # [B, T]
  return {
    "input_ids": input_ids,
    "input_mask": input_mask.astype(np.int32),
    "segment_ids": segment_ids.astype(np.int32) * frame.segment_b,
  }


def _copy(ids, starts, lengths, target, columns):
  """Copies ids[start : start + length] of each row to its place in target.

  There is no loop over rows: source and target places of all pieces are
  computed together, from the number of pieces before each row.
  """
  # For lengths [2, 3], before is 0 0 2 2 2, offsets are 0 1 0 1 2.
  before = np.repeat(np.cumsum(lengths) - lengths, lengths)
  offsets = np.arange(lengths.sum()) - before  # 0, 1, ... in each row.
  # `columns` is one place for all rows (1 for text a), or one for each.
  columns = np.broadcast_to(columns, lengths.shape)
  rows = np.repeat(np.arange(len(lengths)), lengths)  # [all pieces]
  sources = np.repeat(starts, lengths) + offsets
  target[rows, np.repeat(columns, lengths) + offsets] = ids[sources]


def build_inputs(
  ids_a: list[int], ids_b: list[int] | None = None, *, frame: tokenization.Frame
) -> tuple[list[int], list[int]]:
  """Joins one or two texts with the special tokens, without padding.

  If there is no second text, `ids_b` is None, not empty.
  """
  separators = [frame.sep_id] * (1 if ids_b is None else frame.between)
  input_ids = [frame.cls_id, *ids_a, *separators]
  segment_ids = [0] * len(input_ids)
  if ids_b is not None:
    input_ids += [*ids_b, frame.sep_id]
    segment_ids += [frame.segment_b] * (len(ids_b) + 1)
  return input_ids, segment_ids


def batch_sizes(
  lengths: Sequence[int], batch_size: int, max_length: int
) -> list[int]:
  """Returns sizes of batches, larger for short sequences; shapes then vary.

  A batch has at most 2,048 tokens with padding, because more would not be
  faster, and at most as many as `batch_size` sequences of `max_length`, because
  more would need more memory. It has at least `batch_size` sequences.

  Args:
    lengths: tokens of each sequence, or of all sequences of an example, in
      their order.
    batch_size: the number of sequences in a batch of long sequences.
    max_length: the maximum number of tokens of a sequence.

  Returns:
    Multiples of batch_size, the number of sequences in each batch. The last
    batch may have fewer.
  """
  max_tokens = min(_TOKENS_TOGETHER, batch_size * max_length)
  sizes, start = [], 0
  while start < len(lengths):
    longest = lengths[start]
    padded = max(1, -(-longest // LENGTH_MULTIPLE)) * LENGTH_MULTIPLE
    fitting = lengths[start : start + max_tokens // padded]
    # A batch ends before a longer sequence, where another sorted window starts.
    longer = (n for n, length in enumerate(fitting) if length > longest)
    parts = max(1, next(longer, len(fitting)) // batch_size)
    sizes.append(parts * batch_size)
    start += sizes[-1]
  return sizes


def batches_by_length(
  lengths: list[int], batch_size: int, max_length: int = 0
) -> Iterator[list[int]]:
  """Cuts sequences into batches of nearly equal length.

  Args:
    lengths: tokens of each sequence.
    batch_size: sequences in each batch except the last.
    max_length: makes batches of short sequences larger, see `batch_sizes`,
      unless it is 0.

  Yields:
    Positions in `lengths`, the longest first, so that a batch that does not
    fit into memory fails at once.
  """
  order = sorted(range(len(lengths)), key=lambda n: -lengths[n])
  ordered, start = [lengths[n] for n in order], 0
  for size in batch_sizes(ordered, batch_size, max_length):
    yield order[start : start + size]
    start += size


def in_batches(sequences: Sequence, compute: Callable, batch_size: int) -> list:
  """Computes sequences of similar length together.

  Args:
    sequences: pairs of ids and segment ids.
    compute: function of a batch, dict of int32 arrays [B, T], and of the
      numbers of its sequences; returns B values.
    batch_size: B for long sequences; short sequences have a larger B.

  Returns:
    A value for each sequence, in order.
  """
  results = [None] * len(sequences)
  lengths = [len(ids) for ids, _ in sequences]
  most = max(lengths, default=0)
  for places in batches_by_length(lengths, batch_size, most):
    batch = pad_batch(*zip(*(sequences[n] for n in places)))
    for place, value in zip(places, compute(batch, places)):
      results[place] = value
  return results


def pad_batch(
  input_ids: Sequence,
  segment_ids: Sequence | None = None,
  *,
  rows: int | None = None,
  length: int | None = None,
) -> dict[str, np.ndarray]:
  """Pads sequences of different lengths to the arrays of a batch.

  Args:
    input_ids: lists of ids, with [CLS] and [SEP].
    segment_ids: as many lists of segment ids; None: all are 0.
    rows: B, to fill a batch up with rows of padding; None: number of lists.
    length: T; None: the longest list's length.
  """
  shape = rows or len(input_ids), length or max(map(len, input_ids))
  batch = {name: np.zeros(shape, np.int32) for name in NAMES}
  for row, ids in enumerate(input_ids):
    size = len(ids)
    batch["input_ids"][row, :size] = ids
    batch["input_mask"][row, :size] = 1
    if segment_ids is not None:
      batch["segment_ids"][row, :size] = segment_ids[row]
  return batch
