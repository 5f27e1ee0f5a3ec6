"""[CLS] a [SEP] b [SEP], for one sequence and for many."""

import itertools

import numpy as np
import pytest

import tokenization
from text import input_sequences


@pytest.mark.parametrize(
  "length_a, length_b, max_length, kept",
  [
    (3, 2, 5, (3, 2)),
    (3, 2, 9, (3, 2)),
    (9, 2, 5, (3, 2)),
    (2, 9, 5, (2, 3)),
    (5, 5, 5, (3, 2)),  # The second loses first where both are equal.
    (2, 2, 1, (1, 0)),
    (1, 1, 0, (0, 0)),
  ],
)
def test_truncate_pair(length_a, length_b, max_length, kept):
  a, b = list(range(length_a)), list(range(length_b))
  input_sequences.truncate_pair(a, b, max_length)
  assert (a, b) == (list(range(kept[0])), list(range(kept[1])))


@pytest.mark.parametrize(
  "texts, ids, segments",
  [
    ([[5, 6]], [1, 5, 6, 2], [0, 0, 0, 0]),
    ([[5], [6, 7]], [1, 5, 2, 6, 7, 2], [0, 0, 0, 1, 1, 1]),
    ([[5], []], [1, 5, 2, 2], [0, 0, 0, 1]),  # With its [SEP].
  ],
)
def test_one_text_and_two(texts, ids, segments):
  found = input_sequences.build_inputs(*texts, frame=tokenization.Frame(1, 2))
  assert found == (ids, segments)


def test_many_pairs_are_cut_as_one_by_one():
  """One by one: the longer text loses its last piece until both fit."""
  for a, b, room in itertools.product(range(12), range(12), range(1, 13)):
    left = [a, b]
    while sum(left) > room:
      left[0 if left[0] > left[1] else 1] -= 1
    found = input_sequences.truncated_lengths(
      np.array([a]), np.array([b]), room
    )
    assert [found[0][0], found[1][0]] == left, (a, b, room)


def filled(firsts, seconds, length):
  texts = [*firsts, *seconds]
  lengths = np.array([len(text) for text in texts], int)
  starts = np.cumsum(lengths) - lengths
  ids = np.concatenate([np.zeros(0, int), *texts]).astype(int)
  (start_a, start_b), (length_a, length_b) = (
    values.reshape(2, -1) for values in (starts, lengths)
  )
  spans = input_sequences.Spans(start_a, length_a, start_b, length_b)
  frame = tokenization.Frame(1, 2)
  return input_sequences.fill_batch(ids, spans, length, frame)


def test_a_batch_is_its_sequences_padded():
  rng = np.random.RandomState(0)
  firsts = [rng.randint(5, 99, rng.randint(0, 6)).tolist() for _ in range(40)]
  seconds = [rng.randint(5, 99, rng.randint(0, 6)) for _ in range(40)]
  batch = filled(firsts, seconds, 13)
  assert {array.dtype.name for array in batch.values()} == {"int32"}
  for row, (first, second) in enumerate(zip(firsts, seconds)):
    ids, segments = input_sequences.build_inputs(
      first, second.tolist() or None, frame=tokenization.Frame(1, 2)
    )
    padding = [0] * (13 - len(ids))
    assert batch["input_ids"][row].tolist() == ids + padding
    assert batch["segment_ids"][row].tolist() == segments + padding
    assert batch["input_mask"][row].tolist() == [1] * len(ids) + padding


def test_a_batch_may_have_first_texts_alone_or_nothing():
  batch = filled([[7], []], [[], []], 4)
  assert batch["input_ids"].tolist() == [[1, 7, 2, 0], [1, 2, 0, 0]]
  assert filled([], [], 4)["input_ids"].shape == (0, 4)


@pytest.mark.parametrize("stride", [3, 6, 60])
@pytest.mark.parametrize("length", range(20))
def test_windows_reach_each_token_and_stop_at_the_end(length, stride):
  starts = input_sequences.window_starts(length, 6, stride)
  reached = {token for start in starts for token in range(start, start + 6)}
  assert reached >= set(range(length))
  assert starts[0] == 0 and starts.step == min(stride, 6)
  assert len(starts) == 1 or starts[-2] + 6 < length
  assert len(input_sequences.window_starts(length, 6, stride, 1)) == 1


def test_batches_are_sorted_by_length_and_hold_everything():
  batches = list(input_sequences.batches_by_length([2, 9, 5, 1, 7], 2))
  assert batches == [[1, 4], [2, 0], [3]]


@pytest.mark.parametrize("batch_size", [1, 3, 8])
@pytest.mark.parametrize("max_length", [16, 512])
def test_batches_of_short_sequences_are_larger(batch_size, max_length):
  random = np.random.default_rng(0)
  # Sorted in two windows: in the middle, long ones follow short ones.
  lengths = np.concatenate(
    [-np.sort(-random.integers(1, max_length + 1, 500)) for _ in range(2)]
  )
  sizes = input_sequences.batch_sizes(lengths, batch_size, max_length)
  assert all(size % batch_size == 0 for size in sizes)
  assert sum(sizes[:-1]) < len(lengths) <= sum(sizes)
  most = min(2048, batch_size * max_length)
  ends = np.cumsum(sizes)
  for size, end in zip(sizes, ends):
    longest = lengths[end - size : end].max()
    padded = -(-longest // 8) * 8
    assert size == batch_size or size * padded <= most
    # One more would not fit, unless the end or longer ones are near.
    following = lengths[end - size : end + batch_size]
    if len(following) == size + batch_size and longest == following.max():
      assert (size + batch_size) * padded > most
  assert len(sizes) < len(lengths) / batch_size


def test_batches_of_one_size_where_shapes_are_fixed():
  assert input_sequences.batch_sizes([9, 2, 2, 1], 2, 0) == [2, 2]


@pytest.mark.parametrize(
  "rows, shape, ids, mask, segments",
  [
    # As large as its sequences, unless another size is asked for.
    (
      ([[5], [6, 7]],),
      {},
      [[5, 0], [6, 7]],
      [[1, 0], [1, 1]],
      [[0, 0], [0, 0]],
    ),
    (
      ([[5, 6]], [[0, 1]]),
      {"rows": 2, "length": 3},
      [[5, 6, 0], [0, 0, 0]],
      [[1, 1, 0], [0, 0, 0]],
      [[0, 1, 0], [0, 0, 0]],
    ),
  ],
)
def test_padding_has_no_mask(rows, shape, ids, mask, segments):
  batch = input_sequences.pad_batch(*rows, **shape)
  np.testing.assert_array_equal(batch["input_ids"], ids)
  np.testing.assert_array_equal(batch["input_mask"], mask)
  np.testing.assert_array_equal(batch["segment_ids"], segments)
  assert all(values.dtype == np.int32 for values in batch.values())
