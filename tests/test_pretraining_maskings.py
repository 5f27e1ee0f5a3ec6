"""Tests the units of masking against formulas and plain loops."""

import collections
import hashlib
import itertools
import random

import numpy as np
import pytest

import small_corpus
import tiny_model
import tokenization
from common import errors
from pretraining import data, maskings, masks, points
from pretraining.maskings import ngrams, phrases, spans

GEOMETRIC = 0.2 * 0.8 ** np.arange(10)
SHARES = {
  # SpanBERT, section 3.1: Geometric(0.2), at most 10, mean 3.8.
  "spans": GEOMETRIC / GEOMETRIC.sum(),
  # ALBERT, equation 1: proportional to 1 / n, at most 3.
  "ngrams": np.array([6, 3, 2]) / 11,
}


class LongText(maskings.Text):
  """A text that is too long for a run to end early."""

  def __init__(self):
    super().__init__(b"", 0, budget=1 << 30)
    words = [(index,) for index in range(1 << 20)]
    self.parts = words, [len(words)] * len(words)


@pytest.mark.parametrize("name", SHARES)
def test_lengths_of_many_runs_are_those_of_the_paper(name):
  rng, text = random.Random(3), LongText()
  runs = itertools.islice(points.MASKINGS.load(name).groups(text, rng), 10**5)
  lengths = np.array([len(run) for run in runs])
  shares = np.bincount(lengths)[1:] / len(lengths)
  # Five standard deviations of 10^5 draws are at most 0.008. Runs at the end of
  # the text are shorter, but there are less than ten.
  np.testing.assert_allclose(shares, SHARES[name], rtol=0, atol=0.008)
  if name == "spans":
    assert lengths.mean() == pytest.approx(3.8, abs=0.05)


@pytest.mark.parametrize("name", SHARES)
def test_runs_use_the_budget_and_mask_no_word_twice(name):
  for seed, budget in itertools.product(range(30), (1, 3, 12)):
    text = maskings.Text(bytes(12), 7, budget)
    counts = collections.Counter()
    for run in points.MASKINGS.load(name).groups(text, random.Random(seed)):
      counts.update(run)
      text.masked.update(dict.fromkeys(run, 0))
      # A run does not cross the end of segment A.
      assert len({index < 7 for index in run}) <= 1
      assert run == list(range(run[0], run[0] + len(run))) if run else True
      if len(text.masked) == budget:
        break
    assert len(text.masked) == budget and set(counts.values()) == {1}


def test_parts_end_at_segments_and_separators():
  # a ##a [SEP] b | ##c d: a "##" piece at the start of B is a word.
  text = maskings.Text(bytes([0, 1, 2, 0, 1, 0]), 4, 6)
  words, ends = text.parts
  assert [list(word) for word in words] == [[0, 1], [3], [4], [5]]
  assert ends == [1, 2, 4, 4]
  # As in the original, whole words join it to the last word of A.
  assert [list(w) for w in text.words()] == [[0, 1], [3, 4], [5]]
  assert text.pieces() == [(0,), (1,), (3,), (4,), (5,)]


def test_tokens_of_a_span_are_replaced_alike_and_of_an_ngram_each():
  draws = iter("abcdef")
  assert spans.kinds(3, lambda: next(draws)) == ["a", "a", "a"]
  assert ngrams.kinds(3, lambda: next(draws)) == ["b", "c", "d"]


def masked_features(masking, *shares, **options):
  """Returns the features of a text's records with these masks.Shares."""
  vocab = {token: index for index, token in enumerate(small_corpus.TOKENS)}
  return small_corpus.features_of(
    small_corpus.text_of(30).split("\n"),
    lambda line: [vocab.get(word, 1) for word in line.split()],
    vocab,
    small_corpus.record_options(
      masking=masking,
      masked_lm_prob=0.3,
      mask_shares=masks.Shares(*shares),
      **options,
    ),
  )


@pytest.mark.parametrize("masking", points.MASKINGS.names())
def test_masked_tokens_are_replaced_as_the_shares_say(masking):
  """In both segments."""
  replaced = {}
  for shares in ((1, 0), (0, 1), (0, 0), (0.8, 0.5)):
    features = masked_features(masking, *shares, max_seq_length=32)
    rows, columns = np.nonzero(features["masked_lm_weights"])
    positions = features["masked_lm_positions"][rows, columns]
    replaced[shares] = features["input_ids"][rows, positions]
    labels = features["masked_lm_ids"][rows, columns]
    if shares == (0, 1):
      np.testing.assert_array_equal(replaced[shares], labels)
      assert features["segment_ids"][rows, positions].any()
  assert (replaced[1, 0] == small_corpus.TOKENS.index("[MASK]")).all()
  # Any token may be drawn.
  assert {*replaced[0, 0]} == {*range(len(small_corpus.TOKENS))}
  assert np.mean(replaced[0.8, 0.5] == 4) == pytest.approx(0.8, abs=0.06)


@pytest.mark.parametrize(
  "masking, packing, expected",
  [
    ("ngrams", "sentence_order", "5fb1dfde6956b436"),
    ("phrases", "sentence_order", "56a688713764a907"),
    ("pieces", "doc_sentences", "8fc2e4829b63bd55"),
    ("pieces", "sentence_order", "56a688713764a907"),
    ("spans", "doc_sentences", "2ae7efc4387d4079"),
    ("spans", "sentence_pairs", "520983d86ce5f483"),
    ("whole_words", "sentence_order", "56a688713764a907"),
  ],
)
def test_records_stay_the_same_in_new_versions(masking, packing, expected):
  """Expects the SHA-256 of version 0.2's records: equal draws, in order."""
  features = masked_features(
    masking, 0.8, 0.5, packing=packing, max_seq_length=32, dupe_factor=3
  )
  digest = hashlib.sha256()
  for name in sorted(features):
    digest.update(features[name].astype("<i4").tobytes())
  assert digest.hexdigest()[:16] == expected


@pytest.mark.parametrize("masking, is_alike", [("spans", True), ("ngrams", 0)])
def test_records_have_spans_that_are_replaced_alike(masking, is_alike):
  """Here, half of the tokens become [MASK], and the others stay."""
  features = masked_features(masking, 0.5, 1.0, packing="doc_sentences")
  positions = features["masked_lm_positions"]
  is_mask = np.take_along_axis(features["input_ids"], positions, 1) == 4
  # Neighbours that are masked are in one run, except where two runs touch.
  are_next = (np.diff(positions) == 1) & (positions[:, 1:] > 0)
  are_unlike = is_mask[:, 1:] != is_mask[:, :-1]
  share = are_unlike[are_next].mean()
  assert are_next.sum() > 300
  assert share < 0.25 if is_alike else 0.4 < share < 0.6


WORDS = "new york times is here a city ##s".split()


def corpus_of(tmp_path, lines, **options):
  tokenizer = tokenization.FullTokenizer(
    tiny_model.write_vocabulary(tmp_path, WORDS)
  )
  vocabulary = data.Vocabulary(tokenizer.vocab)
  corpus = data.read_corpus(lines, tokenizer.encode_lines, vocabulary)
  return phrases.prepare(corpus, tokenizer, **options)


def test_phrases_are_words(tmp_path):
  path = tmp_path / "phrases.txt"
  path.write_text("new york\nNew York Times\n\nis\nyork city\ncity is\n")
  lines = ["new york times is", "new new york citys is here", "york city is"]
  corpus = corpus_of(tmp_path, lines, phrases_file=str(path))
  marks = [
    corpus.continues[start:end].hex()[1::2]
    for start, end in itertools.pairwise(corpus.sentence_starts)
  ]
  # The longest phrase counts; "york city" does not match "york citys".
  assert marks == ["0110", "0010100", "010"]


def test_a_file_without_phrases_is_refused(tmp_path):
  path = tmp_path / "phrases.txt"
  path.write_text("is\n\n")
  with pytest.raises(errors.InputError, match=r"phrases\.txt: no phrase"):
    corpus_of(tmp_path, ["is"], phrases_file=str(path))
  with pytest.raises(errors.InputError, match="--phrases_file"):
    corpus_of(tmp_path, ["is"], phrases_file=None)


def test_which_packings_fill_every_record():
  """Their records are short only if --short_seq_prob is given."""
  fills = {n: points.PACKINGS.load(n).FILLS for n in points.PACKINGS.names()}
  assert fills == {
    "doc_sentences": True,
    "full_sentences": True,
    "sentence_order": False,
    "sentence_pairs": False,
  }


@pytest.mark.parametrize("masking", ["phrases", "spans", "ngrams"])
@pytest.mark.parametrize("packing", ["doc_sentences", "sentence_order"])
def test_masks_of_records_are_within_their_limits(masking, packing):
  options = small_corpus.record_options(
    masking=masking, packing=packing, max_seq_length=32, dupe_factor=2
  )
  vocab = {token: index for index, token in enumerate(small_corpus.TOKENS)}
  lines = small_corpus.text_of(30).split("\n")
  features = small_corpus.features_of(
    lines,
    lambda line: [vocab.get(word, 1) for word in line.split()],
    vocab,
    options,
  )
  counts = features["masked_lm_weights"].sum(axis=1)
  tokens = features["input_mask"].sum(axis=1)
  assert (counts >= 1).all()
  # All words have one piece, so the budget can be used up.
  assert (counts == np.maximum(1, np.round(0.15 * tokens))).all()
  assert ("next_sentence_labels" in features) == (packing == "sentence_order")
  if packing == "sentence_order":
    labels = features["next_sentence_labels"]
    assert 0.3 < labels.mean() < 0.7
    assert features["segment_ids"].any(axis=1).all()
  else:
    assert not features["segment_ids"].any()
