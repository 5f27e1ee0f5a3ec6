"""The masking rule, as the papers describe it.

The model predicts 15 % (masked_lm_prob) of a sequence's tokens: single pieces
or whole words in random order (BERT), or runs of whole words (SpanBERT,
ALBERT). 80 % of these become [MASK], 10 % stay, and 10 % become a random token,
unless other Shares are set (table 8 of BERT's paper).

dynamic_masking implements this rule on tensors, with other random numbers.
"""

import bisect
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from common import errors


class Shares(NamedTuple):
  """The shares of predicted tokens that are replaced in each way.

  Attributes:
    mask: share that becomes [MASK].
    keep: share of the others that stays; the rest become random tokens.
  """

  mask: float = 0.8
  keep: float = 0.5


SHARES = Shares()  # The paper's and the original's values.


# SpanBERT (Joshi et al. 2020, section 3.1): lengths of Geometric(0.2) words,
# at most 10. ALBERT (Lan et al. 2020, equation 1): p(n) ~ 1 / n, at most 3.
SPAN_LENGTHS = [0.2 * 0.8 ** (length - 1) for length in range(1, 11)]
NGRAM_LENGTHS = [1 / length for length in range(1, 4)]
RUN_LENGTHS = {"spans": SPAN_LENGTHS, "ngrams": NGRAM_LENGTHS}

# A function of a token's replacement ("mask", "keep" or "random") and place; it
# returns the id in the model's input.
Replace = Callable[[str, int], int]


def budget(length: int, masked_lm_prob: float, max_predictions: int) -> int:
  """Returns how many tokens to predict in a sequence of `length`.

  As in the original: round() rounds halves to even, [CLS] and [SEP] count, and
  at least one token is masked, even with probability 0, unless max_predictions
  is 0.
  """
  return min(max_predictions, max(1, round(length * masked_lm_prob)))


def parse_shares(texts: Sequence[str]) -> Shares:
  """Returns the Shares of --mask_shares: percentages of [MASK], kept, random.

  Raises:
    InputError: they are not three numbers that add up to 100.
  """
  try:
    mask, keep, other = map(float, texts)
  except ValueError:
    mask = keep = other = -1.0
  # This form also rejects nan.
  is_whole = abs(mask + keep + other - 100) <= 1e-6
  if min(mask, keep, other) < 0 or not is_whole:
    raise errors.InputError(
      f"--mask_shares={','.join(texts)}: expected three numbers of 0 or more "
      "that add up to 100, the percentages of masked tokens that become "
      "[MASK], stay, and become random tokens, such as 80,10,10"
    )
  rest = keep + other
  return Shares(mask / 100, keep / rest if rest else SHARES.keep)


def draw_replacement(rng, shares: Shares = SHARES) -> str:
  """Draws how a token is replaced."""
  if rng.random() < shares.mask:
    return "mask"
  return "keep" if rng.random() < shares.keep else "random"


def shuffle(items: list, rng) -> None:
  """Does what random.Random.shuffle does, in half the time."""
  draw = rng.getrandbits
  for last in range(len(items) - 1, 0, -1):
    bits = (last + 1).bit_length()
    chosen = draw(bits)
    while chosen > last:
      chosen = draw(bits)
    items[last], items[chosen] = items[chosen], items[last]


def mask_words(
  words: Sequence[Sequence[int]], budget: int, replace: Replace, rng,
  shares: Shares = SHARES,
) -> dict[int, int]:
  """Masks words in random order, skipping words that no longer fit.

  Returns the id that the model sees at each masked place.

  Args:
    words: the places of each word's tokens.
    budget: how many tokens to mask at most.
    replace: see Replace.
    rng: a random.Random.
  """
  words, masked = list(words), dict[int, int]()
  shuffle(words, rng)
  for word in words:
    # As in the original: a word that is too long is skipped, and a shorter one
    # after it may still be taken.
    if len(masked) + len(word) <= budget:
      for place in word:
        masked[place] = replace(draw_replacement(rng, shares), place)
      if len(masked) == budget:
        break
  return masked


def mask_runs(
  words: Sequence[Sequence[int]], ends: Sequence[int], budget: int,
  replace: Replace, rng, *, masking: str, shares: Shares = SHARES,
) -> dict[int, int]:
  """Masks runs of words that start at random words.

  A run may be shorter than its random length: it ends at the end of its
  segment, at a masked word, and where the next word would exceed the budget.

  Args:
    words, budget, replace, rng: as in `mask_words`.
    ends: for each word, the number of the first word after its segment.
    masking: "spans" or "ngrams".
  """
  limits = list(itertools.accumulate(RUN_LENGTHS[masking]))
  masked, numbers = dict[int, int](), list(range(len(words)))
  while numbers:
    # This shuffles only as far as needed.
    index = rng.randint(0, len(numbers) - 1)
    numbers[index], numbers[-1] = numbers[-1], numbers[index]
    first = numbers.pop()
    # The limits are running sums of weights, which need not add up to 1.
    longest = 1 + bisect.bisect(limits, rng.random() * limits[-1])
    run: list[int] = []
    for word in words[first : min(first + longest, ends[first])]:
      size = len(masked) + len(run) + len(word)
      if word[0] in masked or size > budget:
        break
      run += word
    # SpanBERT replaces all tokens of a span in the same way, ALBERT each token
    # of an n-gram by itself.
    count = 1 if masking == "spans" else len(run)
    replacements = [draw_replacement(rng, shares) for _ in range(count)]
    for place, name in zip(run, itertools.cycle(replacements)):
      masked[place] = replace(name, place)
    if len(masked) == budget:
      break
  return masked
