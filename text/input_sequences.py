"""Builds a model's inputs from one or two texts: [CLS] a [SEP] b [SEP].

Pre-training, fine-tuning and feature extraction share this module.
`build_inputs` takes a list of token ids per text; `fill_batch` takes parts of
one long array of ids, such as windows. No TensorFlow. Letters: B batch, T
tokens.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Lengths = int | np.ndarray  # A number, or an array of numbers.
# The names of a model's inputs, int32 [B, T] each.
NAMES = ("input_ids", "input_mask", "segment_ids")

# As in the original: this separates the two texts of a line.
TEXT_SEPARATOR = " ||| "
# Batches with more tokens than this are hardly more efficient.
_MAX_BATCH_TOKENS = 2048
# The length of a trimmed batch is rounded up to a multiple of this number.
LENGTH_MULTIPLE = 8


class Frame(NamedTuple):
  """The ids around texts; see tokenization.Specials for the attributes."""

  cls_id: int
  sep_id: int
  between: int = 1
  segment_b: int = 1
  odd_to_longer: bool = False

  def room(self, length: int, is_pair: Any = True) -> Any:
    """Returns how many pieces fit into `length` tokens with these ids.

    If `is_pair` is an array, the result is an array of the same size.
    """
    return length - 2 - self.between * is_pair


class Spans(NamedTuple):
  """Selects the texts of B sequences from an array of ids; int arrays [B].

  Attributes:
    start_a, length_a: position and length of the first text in the array.
    start_b, length_b: position and length of the second text, or length 0.
  """

  start_a: np.ndarray
  length_a: np.ndarray
  start_b: np.ndarray
  length_b: np.ndarray


def truncated_lengths(
  lengths_a: Lengths,
  lengths_b: Lengths,
  room: Lengths,
  *,
  odd_to_longer: bool = False,
) -> tuple[Any, Any]:
  """Returns the lengths to which two texts of a sequence are truncated.

  Until both fit, the longer text (the second if both are equally long) loses
  its last word piece, so a short question stays whole next to a long passage.
  For `odd_to_longer` see tokenization.Specials. Pre-training truncates
  differently: see instance_maker.
  """
  # Each text gets half of the room, and what the other text leaves of its half.
  # The first text's half is the larger one, or depends on the lengths. With
  # room 5: (9, 2) -> (3, 2), (5, 5) -> (3, 2) or (2, 3), (2, 9) -> (2, 3).
  is_first = np.greater(lengths_a, lengths_b) if odd_to_longer else True
  half_a = (room + is_first) // 2
  left_a = np.minimum(lengths_a, np.maximum(half_a, room - lengths_b))
  left_b = np.minimum(lengths_b, np.maximum(room - half_a, room - lengths_a))
  return left_a, left_b


def truncate_pair(
  tokens_a: list, tokens_b: list, max_length: int, *, odd_to_longer: bool
) -> None:
  """Truncates two lists in place to their `truncated_lengths`.

  max_length is the room for both, without [CLS] and [SEP].
  """
  left_a, left_b = truncated_lengths(
    len(tokens_a), len(tokens_b), max_length, odd_to_longer=odd_to_longer
  )
  del tokens_a[left_a:], tokens_b[left_b:]


def window_starts(
  length: int, room: int, stride: int, max_windows: int = 0
) -> range:
  """Returns the start positions of the windows of a text.

  The first window that reaches the end of the text is the last. An empty text
  has one window.

  Args:
    length: number of word pieces in the text.
    room: number of word pieces in a window.
    stride: distance between starts; it is capped at `room`, because a longer
      stride would skip word pieces.
    max_windows: maximum number of windows; 0: no limit.
  """
  # 10 pieces, room 4, stride 3: windows start at 0, 3 and 6.
  stride = min(stride, room)
  count = 1 + max(0, -(-(length - room) // stride))
  if max_windows:
    count = min(count, max_windows)
  return range(0, count * stride, stride)


def fill_batch(
  ids: np.ndarray, spans: Spans, max_seq_length: int, frame: Frame
) -> dict[str, np.ndarray]:
  """Builds the input sequences of a batch from parts of an array of ids.

      [CLS] does ink dry ? [SEP] it dries soon ##er . [SEP] [PAD]
    s   0    0    0   0  0   0   1    1    1    1   1   1     0
    m   1    1    1   1  1   1   1    1    1    1   1   1     0

  As in the original: an empty second text gets no [SEP].
  `ids` has the concatenated ids of all texts. The spans must fit into
  max_seq_length. Padding gets id 0, whatever id [PAD] has in the vocabulary,
  because no token's output depends on it.

  Returns:
    int32 [B, T] each: input_ids, input_mask (m above), segment_ids (s above).
  """
  rows = np.arange(len(spans.start_a))  # [B]
  # [B]: the position of the first text's [SEP], and whether text b has tokens.
  first_sep, is_pair = 1 + spans.length_a, spans.length_b > 0
  start_b = first_sep + np.where(is_pair, frame.between, 1)
  ends = start_b + np.where(is_pair, spans.length_b + 1, 0)
  input_ids = np.zeros([len(rows), max_seq_length], np.int32)
  input_ids[:, 0] = frame.cls_id
  for positions in (first_sep, start_b - 1, ends - 1):
    input_ids[rows, positions] = frame.sep_id
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


def _copy(
  ids: np.ndarray,
  starts: np.ndarray,
  lengths: np.ndarray,
  target: np.ndarray,
  columns: npt.ArrayLike,
) -> None:
  """Copies ids[start : start + length] to target[row, column :], for all rows.

  Instead of a loop over rows, it computes the source and target positions of
  all ids at once.
  """
  # For lengths [2, 3], `before` is 0 0 2 2 2, and `offsets` is 0 1 0 1 2.
  before = np.repeat(np.cumsum(lengths) - lengths, lengths)
  offsets = np.arange(lengths.sum()) - before
  # `columns` is one column for all rows (1 for text a), or one for each row.
  columns = np.broadcast_to(columns, lengths.shape)
  rows = np.repeat(np.arange(len(lengths)), lengths)  # [all ids]
  sources = np.repeat(starts, lengths) + offsets
  target[rows, np.repeat(columns, lengths) + offsets] = ids[sources]


def build_inputs(
  ids_a: list[int], ids_b: list[int] | None = None, *, frame: Frame
) -> tuple[list[int], list[int]]:
  """Joins one or two texts with the special tokens, without padding.

  Returns (input_ids, segment_ids). If there is no second text, `ids_b` must be
  None, not empty.
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
  """Returns sizes of batches, which are larger for short sequences.

  A batch has at least `batch_size` sequences. It has more if its tokens with
  padding exceed neither 2,048 (more would not be faster) nor the tokens of
  `batch_size` sequences of `max_length` (more would need more memory).

  Args:
    lengths: number of tokens of each sequence, or of each example's sequences
      together, in the order in which they form batches.
    batch_size: the number of sequences in a batch of long sequences.
    max_length: the maximum number of tokens of a sequence.

  Returns:
    The number of sequences in each batch, a multiple of batch_size. The last
    batch may have fewer.
  """
  max_tokens = min(_MAX_BATCH_TOKENS, batch_size * max_length)
  sizes, start = [], 0
  while start < len(lengths):
    longest = lengths[start]
    padded = max(1, -(-longest // LENGTH_MULTIPLE)) * LENGTH_MULTIPLE
    fitting = lengths[start : start + max_tokens // padded]
    # `lengths` may consist of several sorted windows. End the batch before a
    # longer sequence, where the next window starts.
    longer = (n for n, length in enumerate(fitting) if length > longest)
    parts = max(1, next(longer, len(fitting)) // batch_size)
    sizes.append(parts * batch_size)
    start += sizes[-1]
  return sizes


def batches_by_length(
  lengths: list[int], batch_size: int, max_length: int = 0
) -> Iterator[list[int]]:
  """Divides sequences into batches of similar length.

  Args:
    lengths: number of tokens of each sequence.
    batch_size: number of sequences in each batch except the last.
    max_length: 0, or the maximum length of a sequence: batches of short
      sequences are then larger (see `batch_sizes`).

  Yields:
    The indices of each batch's sequences. The longest come first, so that a
    batch that does not fit into memory fails at once.
  """
  order = sorted(range(len(lengths)), key=lambda n: -lengths[n])
  ordered, start = [lengths[n] for n in order], 0
  for size in batch_sizes(ordered, batch_size, max_length):
    yield order[start : start + size]
    start += size


def in_batches(
  sequences: Sequence, compute: Callable, batch_size: int, max_length: int
) -> list:
  """Computes a value for each sequence, in batches of similar length.

  Args:
    sequences: pairs of input ids and segment ids.
    compute: function of a batch (dict of int32 arrays [B, T]) and of the
      indices of its sequences; returns B values.
    batch_size: B for long sequences; it is larger for short sequences.
    max_length: the maximum length of a sequence; see `batch_sizes`.

  Returns:
    The values, in the order of `sequences`.
  """
  results = [None] * len(sequences)
  lengths = [len(ids) for ids, _ in sequences]
  for indices in batches_by_length(lengths, batch_size, max_length):
    batch = pad_batch(*zip(*(sequences[n] for n in indices)))
    for index, value in zip(indices, compute(batch, indices)):
      results[index] = value
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
    segment_ids: a list of segment ids for each list; None: all are 0.
    rows: B, with rows of padding up to this number; None: no padding rows.
    length: T; None: the length of the longest list.
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
