"""Chooses the tokens that the model must predict, and replaces them.

A Masker takes the segment pairs of a corpus one by one and masks each by
masking_rule, with the original's random numbers in the original's order. It
stores the masks of all pairs in small arrays.
"""

import random
import re
from typing import NamedTuple

import numpy as np

from pretraining import data, masking_rule

_WORD = re.compile(rb"[\x00\x01]\x01*")  # See data.STARTS_WORD.
_WORDS = re.compile(rb"[\x00\x01]+")  # The words up to a NO_WORD.
_TOGETHER = 1 << 12  # Instances that become arrays together.


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
  """Masks pieces, whole words, runs of words, or nothing."""

  def __init__(
    self, corpus: data.Corpus, vocabulary: data.Vocabulary, options,
    rng: random.Random,
  ):
    """Makes a masker from instance_maker.RecordOptions and a generator."""
    self._corpus, self._vocabulary = corpus, vocabulary
    self._options, self._rng = options, rng
    prob, most = options.masked_lm_prob, options.max_predictions_per_seq
    lengths = range(options.max_seq_length + 1)
    self._budgets = [masking_rule.budget(n, prob, most) for n in lengths]
    self._flags = corpus.continues or b""
    if options.masking == "pieces":
      # Each piece is a word, but a [SEP] between documents never is.
      has_separator = data.NO_WORD in self._flags
      pieces = self._flags.replace(b"\x01", b"\x00")
      self._flags = pieces if has_separator else b""
    self._pairs: list[tuple] = []
    self._masks: list[dict[int, int]] = []
    self._parts: list[Masked] = []

  def add(self, pair) -> None:
    """Masks an instance_maker.SegmentPair."""
    self._pairs.append(pair)
    self._masks.append(self._mask(pair))
    if len(self._pairs) == _TOGETHER:
      self._flush()

  def masked(self) -> Masked:
    """Returns the masks of all pairs."""
    self._flush()
    return Masked(*map(np.concatenate, zip(*self._parts)))

  def _mask(self, pair):
    """Returns {number of a token in A + B: the id that the model sees}."""
    options, rng = self._options, self._rng
    if options.masking == "none":
      return {}
    ids, random_ids = self._corpus.ids, self._vocabulary.ids
    length_a = pair.a_end - pair.a_start

    def replace(replacement, place):
      if replacement == "mask":
        return self._vocabulary.mask_id
      if replacement == "keep":
        start = pair.a_start if place < length_a else pair.b_start - length_a
        return ids[start + place]
      # As in the original: any token, [PAD] and "##" pieces included.
      return random_ids[rng.randint(0, len(random_ids) - 1)]

    budget, shares = self._budget(pair), options.mask_shares
    if options.masking in masking_rule.RUN_LENGTHS:
      return masking_rule.mask_runs(
        *self._words_and_ends(pair), budget, replace, rng,
        masking=options.masking, shares=shares,
      )
    return masking_rule.mask_words(
      self._words(pair), budget, replace, rng, shares
    )

  def _budget(self, pair):
    """Returns the maximum number of tokens of a SegmentPair to mask."""
    a_start, a_end, b_start, b_end, _ = pair
    tokens = a_end - a_start + b_end - b_start
    frame = self._vocabulary.frame
    return min(tokens, self._budgets[tokens - frame.room(0, b_end > b_start)])

  def _words(self, pair):
    """Returns the numbers in A + B of the tokens of each word.

    As in the original: a "##" piece at the start of segment B (whose front was
    removed) belongs to the last word of segment A. At the start of the
    sequence it is a word.
    """
    a_start, a_end, b_start, b_end, _ = pair
    if not self._flags:
      return list(zip(range(a_end - a_start + b_end - b_start)))
    flags = self._flags[a_start:a_end] + self._flags[b_start:b_end]
    return [range(*word.span()) for word in _WORD.finditer(flags)]

  def _words_and_ends(self, pair):
    """Returns the words, and for each the last end of a run that starts there.

    Runs end with their segment, or at a [SEP] in it. Words are ranges of token
    numbers in A + B.
    """
    words: list[range] = []
    ends: list[int] = []
    length_a = pair.a_end - pair.a_start
    for start, end, shift in (
      (pair.a_start, pair.a_end, 0), (pair.b_start, pair.b_end, length_a)
    ):
      flags = self._flags[start:end]
      for part in _WORDS.finditer(flags):
        for word in _WORD.finditer(flags, *part.span()):
          words.append(range(word.start() + shift, word.end() + shift))
        ends += [len(words)] * (len(words) - len(ends))
    return words, ends

  def _flush(self):
    """Turns the masks since the last call into arrays."""
    pairs = np.array(self._pairs, np.int64).reshape(-1, 5)
    most = self._options.max_predictions_per_seq
    most = 0 if self._options.masking == "none" else most
    tokens, replacements = np.zeros((2, len(pairs), most), np.int64)  # [B, P]
    for row, masked in enumerate(self._masks):
      places = sorted(masked)
      tokens[row, : len(places)] = places
      replacements[row, : len(places)] = [masked[place] for place in places]
    num_masked = np.array(list(map(len, self._masks)), np.uint16)
    length_a = (pairs[:, 1] - pairs[:, 0])[:, None]
    # Positions count [CLS], and the [SEP] between A and B.
    positions = tokens + 1 + self._vocabulary.frame.between * (
      tokens >= length_a
    )
    positions[np.arange(most) >= num_masked[:, None]] = 0
    # The arrays of all instances of a text are in memory together.
    self._parts.append(Masked(
      pairs, num_masked, positions.astype(np.uint16),
      replacements.astype(self._vocabulary.dtype),
    ))
    self._pairs, self._masks = [], []
