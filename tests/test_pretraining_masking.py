"""masking: what is masked (the original's draws: test_pretraining_data)."""

import random

import numpy as np
import pytest

from pretraining import (
  instance_maker,
  masking,
  masking_rule,
  random_stream,
  text_corpus,
)

VOCAB = {
  token: index
  for index, token in enumerate(
    ["[PAD]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnop", "##q", "##r"]
  )
}
VOCABULARY = text_corpus.Vocabulary(VOCAB)


def make_corpus(num_tokens, seed=0):
  """A single sentence of random words; the first piece starts a word."""
  rng = np.random.default_rng(seed)
  ids = rng.integers(4, len(VOCAB), num_tokens)
  ids[0] = VOCAB["a"]
  return text_corpus.read_corpus(
    ["x"], lambda _: (ids, [num_tokens], None), VOCABULARY.dtype
  )


def mask(corpus, pairs, kind, **options):
  """Returns the masking.Masked of SegmentPairs."""
  options = instance_maker.InstanceOptions(masking=kind, **options)
  stream = random_stream.RandomWordStream(
    random.Random(1), views=masking.stream_views(VOCABULARY)
  )
  masker = masking.make_masker(corpus, VOCABULARY, options, stream)
  for pair in pairs:
    masker.add(instance_maker.SegmentPair(*pair, False))
  masked = masker.flush()
  assert masked.pairs[:, :4].tolist() == [list(pair) for pair in pairs]
  return masked


def original_ids(corpus, pair):
  return [
    VOCABULARY.cls_id,
    *corpus.ids[pair[0] : pair[1]].tolist(),
    VOCABULARY.sep_id,
    *corpus.ids[pair[2] : pair[3]].tolist(),
    VOCABULARY.sep_id,
  ]


KINDS = ["pieces", "whole_words", "spans", "ngrams"]
PAIRS = [(7 * n, 7 * n + 60, 500 + n, 560 + n) for n in range(300)]


@pytest.mark.parametrize("kind", KINDS)
def test_shares_of_masks(kind):
  corpus = make_corpus(3000)
  masked = mask(corpus, PAIRS, kind)
  assert masked.num_masked.mean() > 17.9  # Of round(0.15 * 123) = 18.
  seen = {"[MASK]": 0, "itself": 0, "other": 0}
  for pair, count, positions, replacements in zip(PAIRS, *masked[1:]):
    ids = original_ids(corpus, pair)
    positions = positions.tolist()
    assert positions == sorted(set(positions[:count])) + [0] * (20 - count)
    for position, new in zip(positions[:count], replacements.tolist()):
      assert ids[position] > VOCABULARY.mask_id  # Never [CLS] or [SEP].
      is_mask = new == VOCABULARY.mask_id
      kept = "itself" if new == ids[position] else "other"
      seen["[MASK]" if is_mask else kept] += 1
  shares = [count / sum(seen.values()) for count in seen.values()]
  # A random id is the same or [MASK] once in 22 times. Spans are alike, so
  # they vary more.
  np.testing.assert_allclose(shares, [0.805, 0.105, 0.09], atol=0.025)


@pytest.mark.parametrize("kind", ["spans", "ngrams"])
def test_runs_are_of_whole_words_of_one_segment(kind):
  corpus = make_corpus(3000)
  masked = mask(corpus, PAIRS, kind)
  for pair, count, positions in zip(PAIRS, *masked[1:3]):
    ids = original_ids(corpus, pair)
    chosen = set(positions[:count].tolist())
    for position in range(2, len(ids)):
      if position != 62 and ids[position] >= VOCAB["##q"]:
        assert (position in chosen) == (position - 1 in chosen)


def run_lengths(masked):
  lengths = []
  for count, positions in zip(masked.num_masked, masked.positions):
    gaps = np.diff(positions[:count].tolist(), prepend=-9) > 1
    lengths += np.bincount(np.cumsum(gaps) - 1).tolist()
  return lengths


def test_spans_are_longer_than_ngrams_than_pieces():
  corpus = make_corpus(3000)._replace(continues=bytes(3000))
  means = [
    np.mean(run_lengths(mask(corpus, PAIRS, kind)))
    for kind in ("pieces", "ngrams", "spans")
  ]
  assert means[0] < means[1] < means[2]
  # One in six masks joins two runs of itself; budgets cut the last one.
  assert 1.5 < means[1] < 2.0 and 2.5 < means[2] < 3.8


def test_the_lengths_of_spans_are_those_of_the_paper():
  lengths = np.arange(1, 11)
  weights = np.array(masking_rule.SPAN_LENGTHS)
  assert round(weights @ lengths / weights.sum(), 1) == 3.8


def test_a_long_word_is_passed_over_for_a_short_one():
  corpus = make_corpus(20)._replace(continues=bytes([0, *[1] * 17, 0, 0]))
  masked = mask(corpus, [(0, 19, 19, 20)], "whole_words", masked_lm_prob=0.1)
  assert masked.num_masked.tolist() == [2]
  assert masked.positions[0, :2].tolist() == [19, 21]


def test_where_no_word_fits_nothing_is_masked():
  corpus = make_corpus(20)._replace(continues=bytes([0] + [1] * 19))
  for kind in ("whole_words", "spans"):
    masked = mask(corpus, [(0, 10, 10, 20)], kind, masked_lm_prob=0.1)
    assert not masked.positions.any(), kind


def test_everything_can_be_masked():
  corpus = make_corpus(20)
  masked = mask(corpus, [(0, 6, 6, 12)], "pieces", masked_lm_prob=1.0)
  assert masked.positions[0, :12].tolist() == [*range(1, 7), *range(8, 14)]


def test_no_masks():
  masked = mask(make_corpus(20), [(0, 5, 5, 9)], "none")
  assert masked.positions.shape == (1, 0)
  assert masked.num_masked.tolist() == [0]
