"""The rule of masking, as one reads it in the papers.

Of the tokens of a sequence, 15 % are to be predicted: single pieces or whole
words in random order (BERT), or runs of whole words (SpanBERT, ALBERT). Of
these 80 % become [MASK], 10 % stay, and 10 % become a random token.

`mask_words` is BERT's rule in plain code. Only tests call it: they compare it
with the fast form, masking.PieceMasker, which uses the same random numbers.
dynamic_masking draws others. Runs are masked by the code here.
"""

import bisect
import itertools
from collections.abc import Callable, Sequence

MASK_SHARE = 0.8
KEEP_SHARE = 0.5  # Of the tokens that do not become [MASK].

# SpanBERT (Joshi et al. 2020, section 3.1): lengths of Geometric(0.2) words,
# at most 10. ALBERT (Lan et al. 2020, equation 1): p(n) ~ 1 / n, at most 3.
SPAN_LENGTHS = [0.2 * 0.8 ** (length - 1) for length in range(1, 11)]
NGRAM_LENGTHS = [1 / length for length in range(1, 4)]
RUN_LENGTHS = {"spans": SPAN_LENGTHS, "ngrams": NGRAM_LENGTHS}

# From how a token is replaced ("mask", "keep", "random") and its place to the
# id that the model sees there.
Replace = Callable[[str, int], int]


def budget(length: int, masked_lm_prob: float, max_predictions: int) -> int:
  """Returns how many tokens to predict in a sequence of `length`.

  As in the original: round() goes to the even one of two equally near
  integers, [CLS] and [SEP] count, and at least one token is masked, even with
  probability 0, unless there may be no predictions.
  """
  return min(max_predictions, max(1, round(length * masked_lm_prob)))


def kind(rng) -> str:
  """Draws how a token is replaced."""
  if rng.random() < MASK_SHARE:
    return "mask"
  return "keep" if rng.random() < KEEP_SHARE else "random"


def mask_words(
  words: Sequence[Sequence[int]], budget: int, replace: Replace, rng
) -> dict[int, int]:
  """Masks words in random order, each that still fits.

  Args:
    words: the places of each word's tokens.
    budget: how many tokens to mask at most.
    replace: see Replace.
    rng: a random.Random, or a RandomWordStream.

  Returns:
    {place: id that the model sees there}.
  """
  words, masked = list(words), {}
  rng.shuffle(words)
  for word in words:
    # As in the original: a word that is too long is skipped, and a shorter one
    # after it may still be taken.
    if len(masked) + len(word) <= budget:
      for place in word:
        masked[place] = replace(kind(rng), place)
  return masked


def mask_runs(
  words: Sequence[Sequence[int]], ends: Sequence[int], budget: int,
  replace: Replace, rng, *, masking: str,
) -> dict[int, int]:
  """Masks runs of words that start at random words.

  A run ends earlier than its random length says at the end of its segment, at
  a masked word, and where the next word would exceed the budget.

  Args:
    words, budget, replace, rng: as of `mask_words`.
    ends: for each word, the number of the first one behind its segment.
    masking: "spans" or "ngrams".
  """
  limits = list(itertools.accumulate(RUN_LENGTHS[masking]))
  masked, numbers = {}, list(range(len(words)))
  while numbers:
    # A shuffle, as far as it is needed.
    index = rng.randint(0, len(numbers) - 1)
    numbers[index], numbers[-1] = numbers[-1], numbers[index]
    first = numbers.pop()
    # The limits are running sums of weights, which need not add up to 1.
    longest = 1 + bisect.bisect(limits, rng.random() * limits[-1])
    run = []
    for word in words[first : min(first + longest, ends[first])]:
      size = len(masked) + len(run) + len(word)
      if word[0] in masked or size > budget:
        break
      run += word
    # SpanBERT replaces all tokens of a span in the same way, ALBERT each token
    # of an n-gram by itself.
    alike = [kind(rng)] * len(run) if masking == "spans" else None
    for place, how in zip(run, alike or [kind(rng) for _ in run]):
      masked[place] = replace(how, place)
    if len(masked) == budget:
      break
  return masked
