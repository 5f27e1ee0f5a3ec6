"""Chooses the tokens that the model must predict, and replaces them.

By default, the model predicts 15 % of a sequence's tokens (masked_lm_prob); a
file of maskings chooses them. Of these tokens, 80 % become [MASK], 10 % stay,
and 10 % become a random token (table 8 of BERT's paper). A Masker masks the
segment pairs of a corpus one by one, with the original's random numbers in the
original's order.

dynamic_masking implements the same rule on tensors, with other random numbers.
"""

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from common import errors
from pretraining import data, maskings, packings, points

_TOGETHER = 1 << 12  # Instances that are converted to arrays at a time.


class Shares(NamedTuple):
  """How the predicted tokens are replaced.

  Attributes:
    mask: share of the predicted tokens that become [MASK].
    keep: share of the other predicted tokens that stay unchanged. The rest
      become random tokens.
  """

  mask: float = 0.8
  keep: float = 0.5


SHARES = Shares()  # The paper's and the original's values.


def parse_shares(texts: Sequence[str]) -> Shares:
  """Returns the Shares for the three percentages of --mask_shares.

  Raises:
    InputError: they are not three numbers of 0 or more that add up to 100.
  """
  try:
    mask, keep, other = map(float, texts)
  except ValueError:
    mask = keep = other = -1.0
  # A comparison with nan is false, so nan is rejected, too.
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
    pairs: int64 array [B, 5], each row a packings.SegmentPair.
    num_masked: uint16 array [B].
    positions: uint16 array [B, P], the masked positions in the instance,
      ascending, then zeros.
    replacements: array [B, P], the ids that the model gets at these positions,
      in the vocabulary's dtype.
  """

  pairs: np.ndarray
  num_masked: np.ndarray
  positions: np.ndarray
  replacements: np.ndarray


class Masker:
  """Masks the units that options.masking names, or nothing.

  Attributes:
    rng: draws all random numbers, also for the packing.
  """

  def __init__(
    self,
    corpus: data.Corpus,
    vocabulary: data.Vocabulary,
    options: Any,
    rng: random.Random,
  ):
    """Stores the arguments; `options` are instance_maker.RecordOptions."""
    self._corpus, self._vocabulary = corpus, vocabulary
    self._options, self.rng = options, rng
    self._masking: Any = None
    if options.masking != "none":
      self._masking = points.MASKINGS.load(options.masking)
    self._kinds = getattr(self._masking, "kinds", None)

  def mask_all(self, pairs: Iterator) -> Masked:
    """Masks every packings.SegmentPair.

    As in the original: the masks of a pair are drawn before the next pair is
    drawn, so `pairs` must be a generator.
    """
    parts: list[Masked] = []
    while not parts or len(parts[-1].pairs) == _TOGETHER:
      block = itertools.islice(pairs, _TOGETHER)
      parts.append(self._arrays([(pair, self._mask(pair)) for pair in block]))
    return Masked(*map(np.concatenate, zip(*parts)))

  def _mask(self, pair: packings.SegmentPair) -> dict[int, int]:
    """Returns {index of a masked token in A + B: the id in the input}."""
    if not self._masking:
      return {}
    a_start, a_end, b_start, b_end, _ = pair
    flags, length_a = self._corpus.continues, a_end - a_start
    flags = flags[a_start:a_end] + flags[b_start:b_end]
    budget = self._budget(len(flags), b_end > b_start)
    text = maskings.Text(flags, length_a, budget)
    masked, draw_kind = text.masked, self._draw_kind
    for group in self._masking.groups(text, self.rng):
      kinds = self._kinds(len(group), draw_kind) if self._kinds else None
      for number, index in enumerate(group):
        kind = kinds[number] if kinds else draw_kind()
        if kind == "mask":
          masked[index] = self._vocabulary.mask_id
        elif kind == "keep":
          start = a_start if index < length_a else b_start - length_a
          masked[index] = self._corpus.ids[start + index]
        else:
          # As in the original: any token, including [PAD] and "##" pieces.
          ids = self._vocabulary.ids
          masked[index] = ids[self.rng.randint(0, len(ids) - 1)]
      if len(masked) >= budget:
        break
    if len(masked) > budget:
      raise errors.InputError(
        f"--masking={self._options.masking}: its groups have {len(masked)} "
        f"tokens of a sequence, more than text.budget, {budget}"
      )
    return masked

  def _draw_kind(self) -> str:
    """Draws how a token is replaced: "mask", "keep" or "random"."""
    shares = self._options.mask_shares
    if self.rng.random() < shares.mask:
      return "mask"
    return "keep" if self.rng.random() < shares.keep else "random"

  def _budget(self, tokens: int, is_pair: bool) -> int:
    """Returns the maximum number of tokens to mask, of `tokens` in A + B.

    As in the original: round() rounds halves to even, [CLS] and [SEP] count,
    and the maximum is at least 1, even with probability 0, unless
    max_predictions_per_seq is 0.
    """
    length = tokens - self._vocabulary.frame.room(0, is_pair)
    budget = max(1, round(length * self._options.masked_lm_prob))
    return min(tokens, budget, self._options.max_predictions_per_seq)

  def _arrays(self, instances: list) -> Masked:
    """Returns the Masked of a list of (pair, result of `_mask`)."""
    pairs = np.array([pair for pair, _ in instances], np.int64).reshape(-1, 5)
    most = self._options.max_predictions_per_seq
    most = 0 if self._options.masking == "none" else most
    tokens, replacements = np.zeros((2, len(pairs), most), np.int64)  # [B, P]
    num_masked = np.zeros(len(pairs), np.uint16)
    for row, (_, masked) in enumerate(instances):
      num_masked[row] = count = len(masked)
      tokens[row, :count] = indices = sorted(masked)
      replacements[row, :count] = [masked[index] for index in indices]
    return self._to_masked(pairs, num_masked, tokens, replacements)

  def _to_masked(
    self,
    pairs: np.ndarray,
    num_masked: np.ndarray,
    tokens: np.ndarray,
    replacements: np.ndarray,
  ) -> Masked:
    """Returns the Masked of B pairs.

    Args:
      pairs, num_masked: see Masked.
      tokens: int64 [B, P], the indices of masked tokens in A + B, ascending.
      replacements: int64 [B, P], zeros after the last masked token.
    """
    length_a = (pairs[:, 1] - pairs[:, 0])[:, None]
    # Positions also count [CLS] and the [SEP] between A and B.
    between = self._vocabulary.frame.between * (tokens >= length_a)
    positions = tokens + 1 + between
    positions[np.arange(tokens.shape[1]) >= num_masked[:, None]] = 0
    # The dtypes are small, because all instances of a text are held in memory.
    return Masked(
      pairs,
      num_masked.astype(np.uint16),
      positions.astype(np.uint16),
      replacements.astype(self._vocabulary.dtype),
    )
