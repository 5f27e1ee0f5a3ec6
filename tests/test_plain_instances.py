"""instance_maker and masks equal their plain forms."""

import itertools
import random

import numpy as np
import pytest

import plain_instances
import small_corpus
import tiny_model
from pretraining import masks

VOCAB = {token: index for index, token in enumerate(
  [*tiny_model.SPECIAL, *"abcdefg", "##x", "##y"]
)}
PIECES = list(VOCAB)[5:]
# Mostly the default; then table 8 of the paper, and one that is no float.
MASK_SHARES = [shares.split(",") for shares in (
  *["80,10,10"] * 4, "100,0,0", "80,0,20", "80,20,0", "0,20,80", "0,0,100",
  "10,27,63",
)]


def random_documents(rng):
  return [
    [
      # As a tokenizer does, a sentence starts with a word.
      ["a", *rng.choices(PIECES, k=rng.choice([0, 1, 2, 8, 20, 70]))]
      for _ in range(rng.randint(1, 6))
    ]
    for _ in range(rng.randint(1, 6))
  ]


def random_options(rng, **fixed):
  return small_corpus.record_options(
    max_seq_length=rng.choice([5, 6, 16, 40, 128]),
    max_predictions_per_seq=rng.choice([0, 1, 5, 20, 200]),
    dupe_factor=rng.randint(1, 3),
    masked_lm_prob=rng.choice([0, 0.15, 0.15, 0.5, 1]),
    short_seq_prob=rng.choice([0, 0.1, 0.5, 1]),
    mask_shares=masks.parse_shares(rng.choice(MASK_SHARES)), **fixed,
  )


def features_of(documents, vocab, options, rng):
  lines = itertools.chain.from_iterable(
    [*map(" ".join, document), ""] for document in documents
  )
  return small_corpus.features_of(
    lines, lambda line: [vocab[token] for token in line.split()], vocab,
    options, rng,
  )


def assert_equal(features, expected):
  assert set(features) == set(expected)
  for name, values in expected.items():
    np.testing.assert_array_equal(features[name], values, name)


@pytest.mark.parametrize("packing", ["sentence_pairs", "full_sentences"])
@pytest.mark.parametrize("rule", ["pieces", "whole_words", "none"])
def test_instances_of_random_texts(rule, packing, monkeypatch):
  rng = random.Random(f"{rule} {packing}")
  # Also where the masks of a text become arrays in several parts.
  monkeypatch.setattr(masks, "_TOGETHER", 7)
  for seed in range(25):
    documents = random_documents(rng)
    options = random_options(rng, masking=rule, packing=packing)
    mine, plain = random.Random(seed), random.Random(seed)
    assert_equal(
      features_of(documents, VOCAB, options, mine),
      plain_instances.features_of(documents, VOCAB, options, plain),
    )
    # As many random numbers were used.
    assert mine.getstate() == plain.getstate(), options
