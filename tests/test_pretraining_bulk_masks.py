"""Compares BulkMasker with the plain masks.Masker, bit by bit."""

import random

import numpy as np
import pytest

import small_corpus
import tokenization
from pretraining import bulk_masks, data, masks, packings, points

SHARES = [masks.SHARES, (1.0, 0.5), (0.0, 1.0), (0.0, 0.0), (0.3, 1 / 3)]
LENGTHS = [(5, 1), (16, 3), (128, 20), (512, 77)]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
  folder = tmp_path_factory.mktemp("vocab")
  tokenizer = tokenization.FullTokenizer(small_corpus.write_vocab(folder))
  vocabulary = data.Vocabulary(tokenizer.vocab)
  lines = small_corpus.text_of(60, seed=2).split("\n")
  return data.read_corpus(lines, tokenizer.encode_lines, vocabulary), vocabulary


def masked(kind, text, options, together=None):
  """Returns the Masked of two passes, and the next random number."""
  corpus, vocabulary = text
  rng = random.Random(options.random_seed)
  documents = list(range(corpus.num_documents))
  rng.shuffle(documents)
  packing = points.PACKINGS.load(options.packing)
  packed = packings.Text(corpus, documents, options, vocabulary.frame)
  if hasattr(packing, "arrange"):
    packed = packing.arrange(packed)
  more = {"together": together} if together else {}
  masker = kind(packed.corpus, vocabulary, options, rng, **more)

  def pairs():
    for _ in range(2):
      yield from packing.one_pass(packed, masker.rng)

  return masker.mask_all(pairs()), rng.random()


def check(text, together=1 << 12, **changed):
  options = small_corpus.record_options(**changed)
  expected, after = masked(masks.Masker, text, options)
  assert len(expected.pairs)
  actual, actual_after = masked(bulk_masks.BulkMasker, text, options, together)
  for name, values in expected._asdict().items():
    np.testing.assert_array_equal(getattr(actual, name), values, name)
    assert getattr(actual, name).dtype == values.dtype
  assert actual_after == after


@pytest.mark.parametrize("length, most", LENGTHS)
@pytest.mark.parametrize("packing", points.PACKINGS.names())
@pytest.mark.parametrize("masking", ["pieces", "whole_words"])
def test_every_packing_and_length(text, masking, packing, length, most):
  check(
    text,
    masking=masking,
    packing=packing,
    max_seq_length=length,
    max_predictions_per_seq=most,
  )


@pytest.mark.parametrize("masking", ["pieces", "whole_words"])
@pytest.mark.parametrize("shares", SHARES)
def test_every_share(text, masking, shares):
  check(text, masking=masking, mask_shares=masks.Shares(*shares))


@pytest.mark.parametrize("masking", ["pieces", "whole_words"])
@pytest.mark.parametrize(
  "changed",
  [
    {"masked_lm_prob": 0.0},
    {"masked_lm_prob": 1.0},
    {"max_predictions_per_seq": 0},
    {"short_seq_prob": 1.0},
  ],
)
def test_odd_budgets(text, masking, changed):
  check(text, masking=masking, **changed)


@pytest.mark.parametrize("together", [64, 1 << 10, 1 << 18])
def test_any_number_of_words_at_a_time(text, together):
  check(text, together=together, masking="whole_words")


def test_words_at_the_edge_of_a_share():
  """The second word of random() decides if the first equals the share's."""
  share = 0.3
  numbers = [share + n / (1 << 53) for n in (-2, -1, 0, 1, 2)]
  integers = [round(number * (1 << 53)) for number in numbers]
  words = np.array(
    [(n >> 26 << 5, (n & (1 << 26) - 1) << 6) for n in integers], np.uint32
  ).ravel()
  codes = bulk_masks.codes(words, 10, masks.Shares(share, share))
  expected = [number < share for number in numbers]
  assert [code & 3 == 3 for code in codes[::2]] == expected
  assert len(set(expected)) == 2


@pytest.mark.parametrize(
  "changed, kind",
  [
    ({"masking": "pieces"}, bulk_masks.BulkMasker),
    ({"masking": "whole_words"}, bulk_masks.BulkMasker),
    ({"masking": "spans"}, masks.Masker),
    ({"masking": "none"}, masks.Masker),
    ({"masking": "pieces", "max_seq_length": 1025}, masks.Masker),
  ],
)
def test_which_options_are_masked_in_bulk(text, changed, kind):
  options = small_corpus.record_options(**changed)
  masker = bulk_masks.make_masker(*text, options, random.Random(1))
  assert type(masker) is kind
