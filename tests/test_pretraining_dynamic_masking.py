"""Masks that are made anew each time a sequence is read."""

import numpy as np
import pytest
import tensorflow as tf

import tiny_model
from pretraining import data, dynamic_masking, masking_rule

CLS, SEP, MASK, FIRST, VOCAB = 2, 3, 4, 5, 1000
ROWS, LENGTH, PREDICTIONS = 64, 128, 20


def sequences(rows=ROWS, length=LENGTH):
  """[CLS] words [SEP] of random lengths; a third of the pieces go on a word."""
  rng = np.random.default_rng(0)
  used = rng.integers(3, length + 1, rows)
  place, last = np.arange(length), used[:, None] - 1
  ids = rng.integers(FIRST, VOCAB, (rows, length))
  ids = np.where(place < last, ids, np.where(place == last, SEP, 0))
  ids[:, 0] = CLS
  starts = (rng.random((rows, length)) < 0.67) | (place == 1)
  starts &= (place > 0) & (place < last)
  return {
    "input_ids": ids.astype(np.int32),
    "input_mask": (place <= last).astype(np.int32),
    "word_starts": starts.astype(np.int32),
    "segment_ids": np.zeros((rows, length), np.int32),
  }


def masking(size=VOCAB, max_predictions=PREDICTIONS, **options):
  tokens = [*tiny_model.SPECIAL, *range(FIRST, size)]
  vocabulary = data.Vocabulary(
    {str(token): index for index, token in enumerate(tokens)}
  )
  defaults = {
    "masked_lm_prob": 0.15, "whole_words": False, "runs": None, "seed": 12345
  }
  return dynamic_masking.Masking(
    vocabulary, max_predictions, **{**defaults, **options}
  )


def apply(batch, step=0, first_row=0, rows=None, **options):
  masked = tf.function(masking(**options).apply)(
    {name: tf.constant(value) for name, value in batch.items()},
    tf.constant(step, tf.int64), rows=rows or len(batch["input_ids"]),
    first_row=tf.constant(first_row)
  )
  return {name: value.numpy() for name, value in masked.items()}


KINDS = [
  {}, {"whole_words": True}, {"runs": "spans"}, {"runs": "ngrams"},
  # More than there are places for.
  {"masked_lm_prob": 0.5},
]


@pytest.mark.parametrize("options", KINDS)
def test_predictions_are_what_stood_there_and_as_many_as_asked_for(options):
  batch = sequences()
  masked = apply(batch, **options)
  assert set(masked) == {
    "input_ids", "input_mask", "segment_ids", "masked_lm_positions",
    "masked_lm_ids", "masked_lm_weights",
  }
  before, after = batch["input_ids"], masked["input_ids"]
  for row in range(ROWS):
    count = int(masked["masked_lm_weights"][row].sum())
    positions = masked["masked_lm_positions"][row]
    ids = masked["masked_lm_ids"][row]
    assert list(masked["masked_lm_weights"][row]) == (
      [1.0] * count + [0.0] * (PREDICTIONS - count)
    )
    assert list(positions[:count]) == sorted(set(positions[:count]))
    np.testing.assert_array_equal(ids[:count], before[row, positions[:count]])
    assert not positions[count:].any() and not ids[count:].any()
    assert not np.isin(ids[:count], [0, CLS, SEP]).any()
    untouched = np.setdiff1d(np.arange(LENGTH), positions[:count])
    np.testing.assert_array_equal(after[row, untouched], before[row, untouched])
  tokens = batch["input_mask"].sum(axis=1)
  share = options.get("masked_lm_prob", 0.15)
  expected = np.clip(np.round(tokens * share), 1, PREDICTIONS)
  counts = masked["masked_lm_weights"].sum(axis=1)
  if "runs" not in options and "whole_words" not in options:
    # A sequence can have fewer words than predictions.
    np.testing.assert_array_equal(counts, np.minimum(expected, tokens - 2))
  assert (counts <= expected).all()
  assert counts.sum() > 0.9 * np.minimum(expected, tokens - 2).sum()


@pytest.mark.parametrize("options", KINDS[1:3])
def test_words_are_masked_wholly_or_not_at_all(options):
  batch = sequences()
  masked = apply(batch, masked_lm_prob=0.3, **options)
  words = np.cumsum(batch["word_starts"], axis=1)
  for row in range(ROWS):
    count = int(masked["masked_lm_weights"][row].sum())
    chosen = set(masked["masked_lm_positions"][row, :count])
    inner = (batch["input_ids"][row] > SEP) & (words[row] > 0)
    for word in {words[row, position] for position in chosen}:
      pieces = np.flatnonzero((words[row] == word) & inner)
      assert chosen.issuperset(pieces)


def test_a_word_that_is_too_long_is_passed_over():
  ids = [CLS, 10, 11, 12, 13, 14, 15, 16, 17, SEP]
  batch = {
    "input_ids": np.array([ids] * ROWS, np.int32),
    "input_mask": np.ones((ROWS, 10), np.int32),
    # One word of seven pieces, one of one; two may be predicted.
    "word_starts": np.array([[0, 1, 0, 0, 0, 0, 0, 0, 1, 0]] * ROWS, np.int32),
  }
  masked = apply(batch, whole_words=True, masked_lm_prob=0.2)
  np.testing.assert_array_equal(masked["masked_lm_positions"][:, 0], 8)
  assert masked["masked_lm_weights"].sum() == ROWS


@pytest.mark.parametrize("shares, is_mask, is_kept", [
  (masking_rule.Shares(), 0.8, 0.1), (masking_rule.Shares(0.0, 0.2), 0.0, 0.2)
])
def test_shares_become_mask_stay_and_another_word(shares, is_mask, is_kept):
  batch = sequences(rows=2048)
  masked = apply(batch, shares=shares)
  rows, slots = np.nonzero(masked["masked_lm_weights"])
  positions = masked["masked_lm_positions"][rows, slots]
  now = masked["input_ids"][rows, positions]
  before = batch["input_ids"][rows, positions]
  share_masked = np.mean(now == MASK)
  share_kept = np.mean(now == before)
  # Five standard deviations of 19,000 draws are 0.015 and 0.011.
  assert len(rows) > 15000
  assert share_masked == pytest.approx(is_mask, abs=0.015)
  # A random word may be the same one.
  assert share_kept == pytest.approx(is_kept, abs=0.015)
  replaced = now[(now != MASK) & (now != before)]
  assert replaced.min() < 20 and replaced.max() > VOCAB - 20
  assert replaced.max() < VOCAB


def test_the_largest_draw_is_the_last_word():
  largest, ids = np.float32(1 - 2**-23), tf.constant([0])
  for size in (5, 10, 1000, *range(2**15 - 3, 2**15 + 3)):
    token = masking(size)._replacements(ids, tf.constant([0.85]), largest)
    assert token == size - 1


def test_masks_are_a_function_of_seed_and_step():
  batch = sequences()
  once, again = apply(batch, step=3), apply(batch, step=3)
  for name, value in once.items():
    np.testing.assert_array_equal(again[name], value)
  for other in (apply(batch, step=4), apply(batch, step=3, seed=1)):
    first = [m["masked_lm_positions"][:, 0] for m in (other, once)]
    assert np.mean(first[0] == first[1]) < 0.5


def runs_in_a_loop(batch, keys, budgets, lengths):
  """Which tokens dynamic_masking takes, and where their runs start."""
  taken = np.zeros((ROWS, LENGTH), bool)
  first = np.zeros((ROWS, LENGTH), int)
  ids, starts = batch["input_ids"], batch["word_starts"]
  for row in range(ROWS):
    left = budgets[row]
    words = []
    for place in range(LENGTH):
      if ids[row, place] < FIRST:
        words.append(None)  # Nothing runs over [CLS], [SEP] and padding.
      elif starts[row, place]:
        words.append([place])
      elif words[-1] is not None:
        words[-1].append(place)
    real = [number for number, word in enumerate(words) if word]
    for start in sorted(real, key=lambda n: keys[row, words[n][0]]):
      beginning = words[start][0]
      for word in words[start : start + lengths[row, beginning]]:
        if not word or taken[row, word[0]] or len(word) > left:
          break
        taken[row, word] = True
        first[row, word] = beginning
        left -= len(word)
  return taken, first


def test_runs_equal_those_of_a_plain_loop():
  batch = sequences()
  # A [SEP] within a sequence, as packed sentences have it.
  batch["input_ids"][:, 40] = np.where(batch["input_mask"][:, 40], SEP, 0)
  batch["word_starts"][:, 41] = batch["input_ids"][:, 41] >= FIRST
  batch["word_starts"][:, 40] = 0
  rng = np.random.default_rng(1)
  keys = rng.random((ROWS, LENGTH), np.float32)
  budgets = rng.integers(0, 25, ROWS).astype(np.int32)
  lengths = rng.integers(1, 11, (ROWS, LENGTH)).astype(np.int32)
  taken, first = dynamic_masking._choose_runs(
    tf.constant(batch["input_ids"] >= FIRST),
    *map(tf.constant, (batch["word_starts"], keys, budgets, lengths)),
  )
  expected = runs_in_a_loop(batch, keys, budgets, lengths)
  assert expected[0].sum() > 0.8 * budgets.sum()
  np.testing.assert_array_equal(taken, expected[0])
  np.testing.assert_array_equal(first, expected[1])


def test_lengths_of_spans_are_the_papers():
  numbers = tf.random.stateless_uniform([1, 100_000], seed=[1, 2])
  lengths = masking(runs="spans")._run_lengths(numbers).numpy()
  # Geometric with p 0.2, 1 to 10 alone; five standard deviations are 0.007.
  expected = 0.2 * 0.8 ** np.arange(10)
  expected /= expected.sum()
  shares = np.bincount(lengths[0], minlength=11)[1:] / lengths.size
  np.testing.assert_allclose(shares, expected, rtol=0, atol=0.007)
  assert round(lengths.mean(), 1) == 3.8
  almost_one = np.nextafter(np.float32(1), np.float32(0))
  edges = masking(runs="ngrams")._run_lengths(tf.constant([[0.0, almost_one]]))
  assert edges.numpy().tolist() == [[1, 3]]


@pytest.mark.parametrize("runs, expected", [("spans", True), ("ngrams", False)])
def test_spans_are_replaced_together_and_ngrams_token_by_token(runs, expected):
  """Whether [MASK] and other tokens mix within three neighbours."""
  batch = sequences(rows=512)
  batch["word_starts"] = (batch["input_ids"] >= FIRST).astype(np.int32)
  masked = masking(max_predictions=3, runs=runs).apply(
    {name: tf.constant(value) for name, value in batch.items()},
    tf.constant(0), rows=512, first_row=0,
  )
  masked = {name: value.numpy() for name, value in masked.items()}
  positions = masked["masked_lm_positions"]
  one_run = (np.diff(positions, axis=1) == 1).all(axis=1)
  now = np.take_along_axis(masked["input_ids"], positions, axis=1)[one_run]
  is_mask = (now == MASK).sum(axis=1)
  # Three neighbours may be two runs that touch: few are, and those may mix.
  mixed = np.mean((is_mask > 0) & (is_mask < 3))
  assert one_run.sum() > 50
  assert (mixed < 0.1) == expected, mixed


@pytest.mark.parametrize("options", KINDS[:3])
def test_replicas_see_their_rows_of_the_whole_batch(options):
  batch = sequences()
  whole = apply(batch, step=5, **options)
  half = ROWS // 2
  for first in (0, half):
    share = {name: v[first : first + half] for name, v in batch.items()}
    part = apply(share, step=5, first_row=first, rows=ROWS, **options)
    for name, value in part.items():
      np.testing.assert_array_equal(value, whole[name][first : first + half])


def test_more_predictions_than_tokens():
  masked = apply(sequences(rows=4, length=12))
  assert masked["masked_lm_positions"].shape == (4, PREDICTIONS)
  assert masked["masked_lm_weights"].sum() >= 4
