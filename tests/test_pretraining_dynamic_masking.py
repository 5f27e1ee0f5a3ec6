"""Masks that are made anew each time a sequence is read."""

import numpy as np
import pytest
import tensorflow as tf

from common import errors
from pretraining import dynamic_masking

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


def masking(**options):
  return dynamic_masking.Masking(
    mask_id=MASK,
    special_ids=(CLS, SEP),
    vocab_size=VOCAB,
    max_predictions=PREDICTIONS,
    **options,
  )


def apply(batch, step=0, first_row=0, rows=None, **options):
  masked = tf.function(masking(**options).apply)(
    {name: tf.constant(value) for name, value in batch.items()},
    tf.constant(step, tf.int64),
    rows=rows or len(batch["input_ids"]),
    first_row=tf.constant(first_row),
  )
  return {name: value.numpy() for name, value in masked.items()}


@pytest.mark.parametrize("whole_words", [False, True])
def test_predictions_are_what_stood_there(whole_words):
  batch = sequences()
  masked = apply(batch, whole_words=whole_words)
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
    np.testing.assert_array_equal(
      after[row, untouched], before[row, untouched]
    )


@pytest.mark.parametrize("whole_words", [False, True])
def test_number_of_predictions_is_the_share_asked_for(whole_words):
  batch = sequences()
  masked = apply(batch, whole_words=whole_words)
  tokens = batch["input_mask"].sum(axis=1)
  expected = np.clip(np.round(tokens * 0.15), 1, PREDICTIONS)
  counts = masked["masked_lm_weights"].sum(axis=1)
  if not whole_words:
    # A sequence can have fewer words than predictions.
    np.testing.assert_array_equal(counts, np.minimum(expected, tokens - 2))
  assert (counts <= expected).all()
  assert counts.sum() > 0.9 * np.minimum(expected, tokens - 2).sum()


def test_words_are_masked_wholly_or_not_at_all():
  batch = sequences()
  masked = apply(batch, whole_words=True, masked_lm_prob=0.3)
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


def test_four_fifths_become_mask_and_a_tenth_another_word():
  batch = sequences(rows=2048)
  masked = apply(batch)
  rows, slots = np.nonzero(masked["masked_lm_weights"])
  positions = masked["masked_lm_positions"][rows, slots]
  now = masked["input_ids"][rows, positions]
  before = batch["input_ids"][rows, positions]
  share_masked = np.mean(now == MASK)
  share_kept = np.mean(now == before)
  # Of 19,000 draws: five standard deviations are 0.015 and 0.011.
  assert len(rows) > 15000
  assert share_masked == pytest.approx(0.8, abs=0.015)
  assert share_kept == pytest.approx(0.1, abs=0.011)
  replaced = now[(now != MASK) & (now != before)]
  assert replaced.min() < 20 and replaced.max() > VOCAB - 20
  assert replaced.max() < VOCAB


def test_masks_are_a_function_of_seed_and_step():
  batch = sequences()
  once, again = apply(batch, step=3), apply(batch, step=3)
  for name, value in once.items():
    np.testing.assert_array_equal(again[name], value)
  for other in (apply(batch, step=4), apply(batch, step=3, seed=1)):
    first = [m["masked_lm_positions"][:, 0] for m in (other, once)]
    assert np.mean(first[0] == first[1]) < 0.5


@pytest.mark.parametrize("whole_words", [False, True])
def test_replicas_see_their_rows_of_the_whole_batch(whole_words):
  batch = sequences()
  whole = apply(batch, step=5, whole_words=whole_words)
  half = ROWS // 2
  for first in (0, half):
    share = {name: v[first : first + half] for name, v in batch.items()}
    part = apply(
      share, step=5, first_row=first, rows=ROWS, whole_words=whole_words
    )
    for name, value in part.items():
      np.testing.assert_array_equal(value, whole[name][first : first + half])


def test_more_predictions_than_tokens():
  masked = apply(sequences(rows=4, length=12))
  assert masked["masked_lm_positions"].shape == (4, PREDICTIONS)
  assert masked["masked_lm_weights"].sum() >= 4


def test_vocabulary_without_mask_is_refused():
  with pytest.raises(errors.InputError, match=r"no \[MASK\], \[SEP\]"):
    dynamic_masking.Masking.of_vocabulary(
      {"[CLS]": 0, "a": 1}, max_predictions=5
    )
  vocab = {"[CLS]": 0, "[SEP]": 1, "[MASK]": 2, "a": 3}
  made = dynamic_masking.Masking.of_vocabulary(vocab, max_predictions=5)
  assert (made.mask_id, made.special_ids, made.vocab_size) == (2, (0, 1), 4)
