"""Tests [CLS] a [SEP] b [SEP], for one sequence and for many."""

import itertools

import numpy as np
import pytest

from text import input_sequences


@pytest.mark.parametrize(
  "length_a, length_b, max_length, expected",
  [
    (3, 2, 5, (3, 2)),
    (3, 2, 9, (3, 2)),
    (9, 2, 5, (3, 2)),
    (2, 9, 5, (2, 3)),
    (5, 5, 5, (3, 2)),  # Of equally long texts, the second is cut first.
    (2, 2, 1, (1, 0)),
    (1, 1, 0, (0, 0)),
  ],
)
def test_truncate_pair(length_a, length_b, max_length, expected):
  a, b = list(range(length_a)), list(range(length_b))
  input_sequences.truncate_pair(a, b, max_length, odd_to_longer=False)
  assert (a, b) == (list(range(expected[0])), list(range(expected[1])))


@pytest.mark.parametrize(
  "texts, ids, segments",
  [
    ([[5, 6]], [1, 5, 6, 2], [0, 0, 0, 0]),
    ([[5], [6, 7]], [1, 5, 2, 6, 7, 2], [0, 0, 0, 1, 1, 1]),
    ([[5], []], [1, 5, 2, 2], [0, 0, 0, 1]),  # An empty text has a [SEP].
  ],
)
def test_one_text_and_two(texts, ids, segments):
  built = input_sequences.build_inputs(
    *texts, frame=input_sequences.Frame(1, 2)
  )
  assert built == (ids, segments)


def test_many_pairs_are_truncated_like_single_pairs():
  """The longer text loses its last piece until both texts fit."""
  for a, b, room in itertools.product(range(12), range(12), range(1, 13)):
    expected = [a, b]
    while sum(expected) > room:
      expected[0 if expected[0] > expected[1] else 1] -= 1
    lengths = input_sequences.truncated_lengths(
      np.array([a]), np.array([b]), room
    )
    assert [lengths[0][0], lengths[1][0]] == expected, (a, b, room)


def filled(firsts, seconds, length):
  texts = [*firsts, *seconds]
  lengths = np.array([len(text) for text in texts], int)
  starts = np.cumsum(lengths) - lengths
  ids = np.concatenate([np.zeros(0, int), *texts]).astype(int)
  (start_a, start_b), (length_a, length_b) = (
    values.reshape(2, -1) for values in (starts, lengths)
  )
  spans = input_sequences.Spans(start_a, length_a, start_b, length_b)
  frame = input_sequences.Frame(1, 2)
  return input_sequences.fill_batch(ids, spans, length, frame)


def test_a_batch_is_its_sequences_padded():
  rng = np.random.RandomState(0)
  firsts = [rng.randint(5, 99, rng.randint(0, 6)).tolist() for _ in range(40)]
  seconds = [rng.randint(5, 99, rng.randint(0, 6)) for _ in range(40)]
  batch = filled(firsts, seconds, 13)
  assert {array.dtype.name for array in batch.values()} == {"int32"}
  for row, (first, second) in enumerate(zip(firsts, seconds)):
    ids, segments = input_sequences.build_inputs(
      first, second.tolist() or None, frame=input_sequences.Frame(1, 2)
    )
    padding = [0] * (13 - len(ids))
    assert batch["input_ids"][row].tolist() == ids + padding
    assert batch["segment_ids"][row].tolist() == segments + padding
    assert batch["input_mask"][row].tolist() == [1] * len(ids) + padding


def test_a_batch_may_have_only_first_texts_or_nothing():
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
  # Each half descends, so that long lengths follow short ones once.
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
    # A larger batch would not fit, unless the end or longer sequences follow.
    following = lengths[end - size : end + batch_size]
    if len(following) == size + batch_size and longest == following.max():
      assert (size + batch_size) * padded > most
  assert len(sizes) < len(lengths) / batch_size


def test_batches_have_one_size_if_shapes_are_fixed():
  assert input_sequences.batch_sizes([9, 2, 2, 1], 2, 0) == [2, 2]


@pytest.mark.parametrize(
  "rows, shape, ids, mask, segments",
  [
    # By default, a batch is as large as its sequences.
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
def test_padding_has_mask_zero(rows, shape, ids, mask, segments):
  batch = input_sequences.pad_batch(*rows, **shape)
  np.testing.assert_array_equal(batch["input_ids"], ids)
  np.testing.assert_array_equal(batch["input_mask"], mask)
  np.testing.assert_array_equal(batch["segment_ids"], segments)
  assert all(values.dtype == np.int32 for values in batch.values())
