"""Chooses the tokens that the model must predict, and replaces them.

The model predicts 15 % (masked_lm_prob) of a sequence's tokens: single pieces
or whole words, in random order. 80 % of these become [MASK], 10 % stay, and
10 % become a random token, unless other Shares are set (table 8 of BERT's
paper). A Masker masks the segment pairs of a corpus one by one, with the
original's random numbers in the original's order, and stores the masks of all
pairs in small arrays.

dynamic_masking implements the same rule on tensors, with other random numbers.
"""

import itertools
import random
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from common import errors
from pretraining import data

_WORD = re.compile(rb"[\x00\x01]\x01*")  # See data.STARTS_WORD.
_TOGETHER = 1 << 12  # Instances that become arrays together.


class Shares(NamedTuple):
  """The shares of predicted tokens that are replaced in each way.

  Attributes:
    mask: share that becomes [MASK].
    keep: share of the others that stays; the rest become random tokens.
  """

  mask: float = 0.8
  keep: float = 0.5


SHARES = Shares()  # The paper's and the original's values.


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


class Masked(NamedTuple):
  """The masked tokens of B instances.

  Attributes:
    pairs: int64 array [B, 5], the instances: instance_maker.SegmentPair.
    num_masked: uint16 array [B].
    positions: uint16 array [B, P], the masked positions in the instance,
      ascending, then zeros.
    replacements: array [B, P], the ids in the input at these positions, of the
      vocabulary's dtype.
  """

  pairs: np.ndarray
  num_masked: np.ndarray
  positions: np.ndarray
  replacements: np.ndarray


class Masker:
  """Masks pieces, whole words, or nothing."""

  def __init__(
    self,
    corpus: data.Corpus,
    vocabulary: data.Vocabulary,
    options,
    rng: random.Random,
  ):
    """Makes a masker from instance_maker.RecordOptions and a generator."""
    self._corpus, self._vocabulary = corpus, vocabulary
    self._options, self._rng = options, rng

  def mask_all(self, pairs: Iterator) -> Masked:
    """Masks every instance_maker.SegmentPair.

    As in the original: the masks of a pair are drawn before the next pair,
    which a generator makes on demand.
    """
    parts: list[Masked] = []
    while not parts or len(parts[-1].pairs) == _TOGETHER:
      some = itertools.islice(pairs, _TOGETHER)
      parts.append(self._arrays([(pair, self._mask(pair)) for pair in some]))
    return Masked(*map(np.concatenate, zip(*parts)))

  def _mask(self, pair):
    """Returns {number of a token in A + B: the id that the model sees}."""
    if self._options.masking == "none":
      return {}
    a_start, a_end, b_start, b_end, _ = pair
    rng, random_ids = self._rng, self._vocabulary.ids
    flags = self._corpus.continues
    flags = flags[a_start:a_end] + flags[b_start:b_end]
    budget = self._budget(len(flags), b_end > b_start)
    words = self._words(flags)
    _shuffle(words, rng)
    masked: dict[int, int] = {}
    for word in words:
      # As in the original: a word that is too long is skipped, and a shorter
      # one after it may still be taken.
      if len(masked) + len(word) > budget:
        continue
      for place in word:
        if rng.random() < self._options.mask_shares.mask:
          masked[place] = self._vocabulary.mask_id
        elif rng.random() < self._options.mask_shares.keep:
          length_a = a_end - a_start
          start = a_start if place < length_a else b_start - length_a
          masked[place] = self._corpus.ids[start + place]
        else:
          # As in the original: any token, [PAD] and "##" pieces included.
          masked[place] = random_ids[rng.randint(0, len(random_ids) - 1)]
      if len(masked) == budget:
        break
    return masked

  def _words(self, flags):
    """Returns the numbers in A + B of the tokens of each word.

    As in the original: a "##" piece at the start of segment B (whose front was
    removed) belongs to the last word of segment A. At the start of the
    sequence it is a word. A [SEP] between documents never is.
    """
    if self._options.masking == "whole_words":
      return [range(*word.span()) for word in _WORD.finditer(flags)]
    return [
      (place,) for place, flag in enumerate(flags) if flag != data.NO_WORD
    ]

  def _budget(self, tokens, is_pair):
    """Returns the maximum number of tokens to mask of `tokens` in A + B.

    As in the original: round() rounds halves to even, [CLS] and [SEP] count,
    and at least one token is masked, even with probability 0, unless
    max_predictions_per_seq is 0.
    """
    length = tokens - self._vocabulary.frame.room(0, is_pair)
    budget = max(1, round(length * self._options.masked_lm_prob))
    return min(tokens, budget, self._options.max_predictions_per_seq)

  def _arrays(self, instances):
    """Returns the Masked of a list of (pair, result of `_mask`)."""
    pairs = np.array([pair for pair, _ in instances], np.int64).reshape(-1, 5)
    most = self._options.max_predictions_per_seq
    most = 0 if self._options.masking == "none" else most
    tokens, replacements = np.zeros((2, len(pairs), most), np.int64)  # [B, P]
    num_masked = np.zeros(len(pairs), np.uint16)
    for row, (_, masked) in enumerate(instances):
      num_masked[row] = count = len(masked)
      tokens[row, :count] = places = sorted(masked)
      replacements[row, :count] = [masked[place] for place in places]
    length_a = (pairs[:, 1] - pairs[:, 0])[:, None]
    # Positions count [CLS], and the [SEP] between A and B.
    positions = (
      tokens + 1 + self._vocabulary.frame.between * (tokens >= length_a)
    )
    positions[np.arange(most) >= num_masked[:, None]] = 0
    # The arrays of all instances of a text are in memory together.
    return Masked(
      pairs,
      num_masked,
      positions.astype(np.uint16),
      replacements.astype(self._vocabulary.dtype),
    )


def _shuffle(items, rng):
  """Does what random.Random.shuffle does, in half the time."""
  draw = rng.getrandbits
  for last in range(len(items) - 1, 0, -1):
    bits = (last + 1).bit_length()
    chosen = draw(bits)
    while chosen > last:
      chosen = draw(bits)
    items[last], items[chosen] = items[chosen], items[last]
