"""Tests masks that are drawn anew each time a sequence is read."""

import hashlib

import numpy as np
import pytest
import tensorflow as tf

import tiny_model
from pretraining import data, dynamic_masking
from pretraining.masks import SHARES

CLS, SEP, MASK, FIRST, VOCAB = 2, 3, 4, 5, 1000
ROWS, LENGTH, PREDICTIONS = 64, 128, 20


def sequences(rows=ROWS, length=LENGTH):
  """Returns random [CLS] ... [SEP]; a third of the tokens continue a word."""
  rng = np.random.default_rng(0)
  used = rng.integers(3, length + 1, rows)
  position, last = np.arange(length), used[:, None] - 1
  ids = rng.integers(FIRST, VOCAB, (rows, length))
  ids = np.where(position < last, ids, np.where(position == last, SEP, 0))
  ids[:, 0] = CLS
  starts = (rng.random((rows, length)) < 0.67) | (position == 1)
  starts &= (position > 0) & (position < last)
  return {
    "input_ids": ids.astype(np.int32),
    "input_mask": (position <= last).astype(np.int32),
    "word_starts": starts.astype(np.int32),
    "segment_ids": np.zeros((rows, length), np.int32),
  }


def masking(size=VOCAB, max_predictions=PREDICTIONS, **options):
  tokens = [*tiny_model.SPECIAL, *range(FIRST, size)]
  vocabulary = data.Vocabulary(
    {str(token): index for index, token in enumerate(tokens)}
  )
  defaults = {"masked_lm_prob": 0.15, "masking": "pieces", "seed": 12345}
  return dynamic_masking.Masking(
    vocabulary, max_predictions, **{**defaults, **options}
  )


def apply(batch, step=0, first_row=0, rows=None, **options):
  masked = tf.function(masking(**options).apply)(
    {name: tf.constant(value) for name, value in batch.items()},
    tf.constant(step, tf.int64),
    rows=rows or len(batch["input_ids"]),
    first_row=tf.constant(first_row),
  )
  return {name: value.numpy() for name, value in masked.items()}


WORDS = {"masking": "whole_words"}


# With probability 0.5, sequences reach the limit on predictions.
@pytest.mark.parametrize("options", [{}, WORDS, {"masked_lm_prob": 0.5}])
def test_labels_are_the_replaced_ids_and_as_many_as_requested(options):
  batch = sequences()
  masked = apply(batch, **options)
  assert set(masked) == {
    "input_ids",
    "input_mask",
    "segment_ids",
    "masked_lm_positions",
    "masked_lm_ids",
    "masked_lm_weights",
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
  if options != WORDS:
    # A sequence can have fewer words than predictions.
    np.testing.assert_array_equal(counts, np.minimum(expected, tokens - 2))
  assert (counts <= expected).all()
  assert counts.sum() > 0.9 * np.minimum(expected, tokens - 2).sum()


def test_words_are_masked_wholly_or_not_at_all():
  batch = sequences()
  masked = apply(batch, masked_lm_prob=0.3, **WORDS)
  words = np.cumsum(batch["word_starts"], axis=1)
  for row in range(ROWS):
    count = int(masked["masked_lm_weights"][row].sum())
    chosen = set(masked["masked_lm_positions"][row, :count])
    inner = (batch["input_ids"][row] > SEP) & (words[row] > 0)
    for word in {words[row, position] for position in chosen}:
      pieces = np.flatnonzero((words[row] == word) & inner)
      assert chosen.issuperset(pieces)


@pytest.mark.parametrize(
  "shares, mask_share, kept_share",
  [(SHARES, 0.8, 0.1), (SHARES._replace(mask=0.0, keep=0.2), 0.0, 0.2)],
)
def test_shares_of_mask_kept_and_random_tokens(shares, mask_share, kept_share):
  batch = sequences(rows=2048)
  masked = apply(batch, shares=shares)
  rows, slots = np.nonzero(masked["masked_lm_weights"])
  positions = masked["masked_lm_positions"][rows, slots]
  now = masked["input_ids"][rows, positions]
  before = batch["input_ids"][rows, positions]
  actual_mask_share = np.mean(now == MASK)
  actual_kept_share = np.mean(now == before)
  # Five standard deviations of 19,000 draws are 0.015 and 0.011.
  assert len(rows) > 15000
  assert actual_mask_share == pytest.approx(mask_share, abs=0.015)
  # A random token may equal the one before.
  assert actual_kept_share == pytest.approx(kept_share, abs=0.015)
  replaced = now[(now != MASK) & (now != before)]
  assert replaced.min() < 20 and replaced.max() > VOCAB - 20
  assert replaced.max() < VOCAB


def test_the_largest_draw_gives_the_last_token():
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
    first = [masked["masked_lm_positions"][:, 0] for masked in (other, once)]
    assert np.mean(first[0] == first[1]) < 0.5


def words_in_a_loop(batch, keys, budgets):
  """Returns which tokens are masked: a bool array [ROWS, LENGTH]."""
  taken = np.zeros((ROWS, LENGTH), bool)
  ids, starts = batch["input_ids"], batch["word_starts"]
  for row in range(ROWS):
    left = budgets[row]
    words = []
    for position in range(LENGTH):
      # [CLS], [SEP] and padding are not words.
      if ids[row, position] >= FIRST:
        if starts[row, position]:
          words.append([])
        words[-1].append(position)
    for word in sorted(words, key=lambda word: keys[row, word[0]]):
      if len(word) <= left:
        taken[row, word] = True
        left -= len(word)
  return taken


def test_words_equal_those_of_a_plain_loop():
  batch = sequences()
  # A [SEP] within a sequence, as in full_sentences.
  batch["input_ids"][:, 40] = np.where(batch["input_mask"][:, 40], SEP, 0)
  batch["word_starts"][:, 41] = batch["input_ids"][:, 41] >= FIRST
  batch["word_starts"][:, 40] = 0
  rng = np.random.default_rng(1)
  keys = rng.random((ROWS, LENGTH), np.float32)
  budgets = rng.integers(0, 25, ROWS).astype(np.int32)
  taken = dynamic_masking._choose_words(
    tf.constant(batch["input_ids"] >= FIRST),
    *map(tf.constant, (batch["word_starts"], keys, budgets)),
  )
  expected = words_in_a_loop(batch, keys, budgets)
  assert expected.sum() > 0.8 * budgets.sum()
  np.testing.assert_array_equal(taken, expected)


def test_a_run_has_one_kind_if_it_is_replaced_together():
  batch, rng = sequences(8), np.random.default_rng(1)
  shape = batch["input_ids"].shape
  kinds, keys, draws = rng.random((3, *shape)).astype(np.float32)
  tokens = dynamic_masking.Tokens(
    tf.constant((batch["input_mask"] > 0) & (batch["input_ids"] >= FIRST)),
    tf.constant(batch["word_starts"]),
    tf.constant(keys),
    tf.constant(kinds),
    tf.fill(shape[:1], 12),
    lambda: tf.constant(draws),
  )
  # Each run has three words, if there is room.
  limits = [0.0, 0.0, 1.0]
  spans = tokens.choose_runs(limits, together=True)
  ngrams = tokens.choose_runs(limits, together=False)
  chosen = spans.chosen.numpy()
  np.testing.assert_array_equal(ngrams.chosen, chosen)
  np.testing.assert_array_equal(ngrams.kinds, kinds)
  assert (chosen.sum(axis=1) > 0).all() and (chosen.sum(axis=1) <= 12).all()
  for row, is_chosen, own in zip(spans.kinds.numpy(), chosen, kinds):
    in_runs = row[is_chosen]
    assert set(in_runs) <= set(own[is_chosen])
    assert len(set(in_runs)) <= -(-is_chosen.sum() // 2)


@pytest.mark.parametrize(
  "masking_name, expected",
  [
    ("pieces", "e7fd1eb1047e8d24"),
    ("whole_words", "2ebbe7491c88669a"),
    ("spans", "63f82f37deeab9dd"),
    ("ngrams", "18b28807dbd68cd8"),
  ],
)
def test_masks_stay_the_same_in_new_versions(masking_name, expected):
  """A resumed run goes on with the same masks."""
  masked = apply(sequences(rows=16), step=7, masking=masking_name)
  digest = hashlib.sha256()
  for name in ("input_ids", "masked_lm_positions", "masked_lm_ids"):
    digest.update(masked[name].astype("<i4").tobytes())
  assert digest.hexdigest()[:16] == expected


@pytest.mark.parametrize(
  "options, count", [({"masked_lm_prob": 0.0}, 1), ({"max_predictions": 0}, 0)]
)
def test_one_token_is_masked_unless_none_may_be(options, count):
  masked = apply(sequences(rows=8), **options)
  assert (masked["masked_lm_weights"].sum(axis=1) == count).all()


@pytest.mark.parametrize("options", [{}, WORDS])
def test_replicas_mask_their_rows_as_in_the_whole_batch(options):
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


def test_random_tokens_are_tokens_of_a_vocabulary_with_gaps():
  ids = {token: 2 * index for index, token in enumerate(tiny_model.SPECIAL)}
  layer = dynamic_masking.Masking(
    data.Vocabulary(ids), 9, masked_lm_prob=0.15, masking="pieces", seed=1
  )
  draws = tf.range(0, 1, 0.125)[tf.newaxis]
  actions = tf.fill([1, 8], 0.85)  # Between the shares of [MASK] and random.
  drawn = layer._replacements(tf.ones([1, 8], tf.int32), actions, draws)
  assert set(drawn.numpy().flat) == set(ids.values())
