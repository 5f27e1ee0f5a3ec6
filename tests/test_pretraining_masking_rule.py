"""masking_rule, with random numbers that were chosen (its draws: plain)."""

import collections
import itertools
import random

import pytest

from common import errors
from pretraining import masking_rule


class Chosen:
  """Gives numbers in turn; integers for randint, floats for random."""

  def __init__(self, *numbers):
    self._numbers = list(numbers)
    self._lasts = itertools.count(len(WORDS) - 1, -1)

  def random(self):
    return self._numbers.pop(0)

  def randint(self, first, last):
    assert first == 0 <= self._numbers[0] <= last == next(self._lasts)
    return self._numbers.pop(0)

  def getrandbits(self, count):
    return self._numbers.pop(0)

  def assert_all_drawn(self):
    assert not self._numbers


@pytest.mark.parametrize("numbers, kind", [
  ([0.79], "mask"), ([0.8, 0.49], "keep"), ([0.8, 0.5], "random")
])
def test_four_fifths_are_masks_and_half_of_the_rest_stays(numbers, kind):
  assert masking_rule.draw_replacement(Chosen(*numbers)) == kind


@pytest.mark.parametrize("shares, numbers, expected", [
  ("100,0,0", [0.99], "mask"), ("0,0,100", [0.0, 0.0], "random"),
  ("80,20,0", [0.8, 0.99], "keep"), ("0,20,80", [0.0, 0.19], "keep"),
  ("0,20,80", [0.0, 0.2], "random"), ("80,10,10", [0.8, 0.49], "keep")
])
def test_shares_of_a_flag(shares, numbers, expected):
  found = masking_rule.parse_shares(shares.split(","))
  rng = Chosen(*numbers)
  assert masking_rule.draw_replacement(rng, found) == expected
  rng.assert_all_drawn()


def test_the_default_shares_are_those_of_the_paper():
  found = masking_rule.parse_shares(["80", "10", "10"])
  assert found == masking_rule.Shares() == (0.8, 0.5)


@pytest.mark.parametrize(
  "shares", ["80,10", "80,10,x", "80,30,-10", "8,1,1", "80,nan,10"]
)
def test_shares_that_are_none(shares):
  with pytest.raises(errors.InputError, match=f"--mask_shares={shares}: "):
    masking_rule.parse_shares(shares.split(","))


def test_the_budget_is_rounded_to_even_and_at_least_one():
  found = [masking_rule.budget(n, 0.15, 20) for n in (3, 10, 30, 128, 512)]
  assert found == [1, 2, 4, 19, 20]
  assert masking_rule.budget(128, 0.15, 0) == 0
  assert masking_rule.budget(128, 0.0, 20) == 1


def test_words_that_are_too_long_are_skipped():
  masked = masking_rule.mask_words(
    [[7], [4, 5], [1, 2, 3]], 2, lambda kind, place: 10 * place,
    Chosen(3, 0, 1, 0.1, 0.1),  # 3 is too large; 0 swaps the ends.
  )
  assert masked == {4: 40, 5: 50}


def test_a_shuffle_is_pythons():
  for size in (0, 1, 2, 3, 64, 65, 700):
    fast, plain = random.Random(size), random.Random(size)
    shuffled, expected = list(range(size)), list(range(size))
    masking_rule.shuffle(shuffled, fast)
    plain.shuffle(expected)
    assert shuffled == expected and fast.getstate() == plain.getstate()


WORDS = [[1], [2, 3], [4], [6], [7], [8], [9]]
ENDS = [3, 3, 3, 7, 7, 7, 7]
ONE, TWO, THREE = 0.0, 0.6, 0.99  # Lengths of n-grams.


@pytest.mark.parametrize("budget, numbers, expected", [
  # A run of three ends with its segment; one of one is the last that fits.
  (4, [1, THREE, .1, .8, .5, .1, 3, ONE, .1],
   [(2, "mask"), (3, "random"), (4, "mask"), (6, "mask")]),
  # Before a masked word.
  (4, [2, ONE, .1, 0, THREE, .1, .8, .2, .1],
   [(4, "mask"), (1, "mask"), (2, "keep"), (3, "mask")]),
  # At their own length.
  (3, [3, THREE, .1, .1, .1], [(6, "mask"), (7, "mask"), (8, "mask")]),
  (3, [3, TWO, .1, .1, 3, ONE, .1], [(6, "mask"), (7, "mask"), (9, "mask")]),
  # Where the next word exceeds the budget.
  (2, [0, TWO, .1, 2, TWO, .1], [(1, "mask"), (4, "mask")]),
])
def test_runs_end_where_they_must(budget, numbers, expected):
  rng = Chosen(*numbers)
  masked = masking_rule.mask_runs(
    WORDS, ENDS, budget, lambda kind, place: kind, rng, masking="ngrams"
  )
  assert list(masked.items()) == expected
  rng.assert_all_drawn()


def test_all_tokens_of_a_span_are_replaced_alike():
  rng = Chosen(1, 0.99, 0.8, 0.5)
  masked = masking_rule.mask_runs(
    WORDS, ENDS, 3, lambda kind, place: kind, rng, masking="spans"
  )
  assert masked == dict.fromkeys([2, 3, 4], "random")
  rng.assert_all_drawn()


def test_the_lengths_of_spans_are_those_of_the_paper():
  weights = masking_rule.SPAN_LENGTHS
  mean = sum(n * weight for n, weight in enumerate(weights, 1)) / sum(weights)
  assert round(mean, 1) == 3.8
  assert masking_rule.NGRAM_LENGTHS == [1, 1 / 2, 1 / 3]


def test_runs_use_the_budget_up_and_mask_no_word_twice():
  words = [[n] for n in range(12)]
  for seed, budget in itertools.product(range(30), (1, 3, 12)):
    counts = collections.Counter()

    def replace(_, place, counts=counts):
      counts[place] += 1
      return 0

    masked = masking_rule.mask_runs(
      words, [12] * 12, budget, replace, random.Random(seed), masking="ngrams"
    )
    assert len(masked) == budget and set(counts.values()) == {1}
