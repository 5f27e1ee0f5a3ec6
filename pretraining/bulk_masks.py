"""Masks hundreds of segment pairs at once, with the bits of masks.Masker.

The random numbers of each pair follow the numbers of the pair before it. So a
BulkMasker works in two steps. For each pair it only finds out which words of
a bulk_random.BulkRandom the pair uses. Later it computes the masks of many
pairs together: its arrays [P, B] have a pair in each column.

masks.Masker is the plain form, and the tests compare the two. It also masks
where the number of words cannot be found so fast: runs of words, and long
sequences. No TensorFlow.
"""

import array
import functools
import math
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pretraining import bulk_random, data, masks, packings

_MASKINGS = ("pieces", "whole_words")
_WORD = re.compile(rb"[\x00\x01]\x01*")  # See data.STARTS_WORD.
# A code is the sum of the flags that hold for a number that starts at a word:
# random() is below Shares.mask; it is below Shares.keep; randint accepts the
# word for a token of the vocabulary.
_MASKS, _KEEPS, _IS_TOKEN = 1, 2, 4
# A token that becomes [MASK] takes a random(), which is two words. Others take
# a second random(), and those that do not stay take a randint.
_TO_MASK = rb"[\1\3\5\7]."
_TO_OTHER = rb"[\0\2\4\6].(?:[\2\3\6\7].|[\0\1\4\5].[\0-\3]*[\4-\7])"


def make_masker(
  corpus: data.Corpus,
  vocabulary: data.Vocabulary,
  options: Any,
  rng: random.Random,
) -> masks.Masker:
  """Returns the faster masker for instance_maker.RecordOptions."""
  is_bulk = (
    options.masking in _MASKINGS
    and options.max_seq_length <= bulk_random.MAX_SHUFFLED
  )
  kind = BulkMasker if is_bulk else masks.Masker
  return kind(corpus, vocabulary, options, rng)


def codes(words: np.ndarray, num_ids: int, shares: masks.Shares) -> bytes:
  """Returns the code of each random word; see _MASKS."""
  is_mask, is_kept = (_is_below(words, share) for share in shares)
  is_token = words >> np.uint32(32 - num_ids.bit_length()) < num_ids
  flags = is_mask * np.uint8(_MASKS) + is_kept * np.uint8(_KEEPS)
  return (flags + is_token * np.uint8(_IS_TOKEN)).tobytes()


def _is_below(words: np.ndarray, share: float) -> np.ndarray:
  """Returns whether the random() that starts at each word is below a share."""
  # random() is a multiple of 2**-53: a word gives the top 27 bits of it, and
  # the next word the other 26. The first word almost always decides.
  top, rest = divmod(math.ceil(share * (1 << 53)), 1 << 26)
  is_below = words < top << 5
  if rest:
    for index in np.flatnonzero(words - np.uint32(top << 5) < 1 << 5).tolist():
      # No number starts at the last word, which has no next word.
      low = int(words[min(index + 1, len(words) - 1)]) >> 6
      is_below[index] = low < rest
  return is_below


@functools.cache
def _tokens_pattern(count: int) -> Callable:
  """Returns `match` of a pattern for the codes of `count` masked tokens."""
  tokens = rb"(?:%s|%s){%d}" % (_TO_MASK, _TO_OTHER, count)
  return re.compile(tokens, re.DOTALL).match


class BulkMasker(masks.Masker):
  """Masks single pieces or whole words."""

  rng: bulk_random.BulkRandom

  def __init__(
    self, *arguments: Any, together: int = bulk_random.WORDS_TOGETHER
  ):
    """Takes the arguments of masks.Masker; see BulkRandom for `together`."""
    corpus, vocabulary, options, rng = arguments
    bulk = bulk_random.BulkRandom(
      rng,
      lambda words: codes(words, len(vocabulary.ids), options.mask_shares),
      together=together,
    )
    super().__init__(corpus, vocabulary, options, bulk)
    # None: each token of a sequence is masked alone.
    self._flags: bytes | None = corpus.continues
    if options.masking == "pieces":
      has_separators = data.NO_WORD in corpus.continues
      pieces = corpus.continues.replace(b"\x01", b"\x00")
      self._flags = pieces if has_separators else None

  def mask_all(self, pairs: Iterator) -> masks.Masked:
    """Masks every packings.SegmentPair; see masks.Masker."""
    parts, rows = [], array.array("q")
    rng, budget_of = self.rng, functools.cache(self._budget)
    for pair in pairs:
      a_start, a_end, b_start, b_end, _ = pair
      size = a_end - a_start + b_end - b_start
      budget = budget_of(size, b_end > b_start)
      if self._flags is not None:
        size, budget = self._words_of(pair, budget)
      shuffle_start = rng.position
      rng.skip_shuffle(size)
      masks_start = rng.position
      rng.skip_codes(_tokens_pattern(budget))
      rows.extend((*pair, size, shuffle_start, budget, masks_start))
      if rng.position > rng.nearly_used:
        parts.append(self._masked(rows))
        rng.discard()
        del rows[:]
    parts.append(self._masked(rows))
    rng.finish()
    return masks.Masked(*map(np.concatenate, zip(*parts)))

  def _words_of(
    self, pair: packings.SegmentPair, budget: int
  ) -> tuple[int, int]:
    """Returns the number of words in A + B, and of tokens that are masked."""
    assert self._flags is not None
    flags = self._flags[pair.a_start : pair.a_end]
    flags += self._flags[pair.b_start : pair.b_end]
    sizes = [len(word) for word in _WORD.findall(flags)]
    # Enough words of one piece use up the budget in any order of the words.
    if sizes.count(1) >= budget:
      return len(sizes), budget
    # Otherwise, the order says how much of the budget they use.
    start, used = self.rng.position, 0
    order = list(sizes)
    self.rng.shuffle(order)
    self.rng.position = start
    for size in order:
      used += size if used + size <= budget else 0
    return len(sizes), used

  def _masked(self, rows: array.array) -> masks.Masked:
    """Returns the Masked of pairs; 9 numbers each, see `mask_all`."""
    table = np.array(rows, np.int64).reshape(-1, 9)
    pairs = table[:, :5]
    num_words, shuffle_starts, budgets, masks_starts = table[:, 5:].T
    order = bulk_random.shuffled(self.rng.words, shuffle_starts, num_words)
    most = self._options.max_predictions_per_seq
    if self._flags is None:
      tokens = np.zeros((most, len(pairs)), np.int64)
      tokens[: len(order)] = order[:most]
    else:
      tokens = self._tokens_of_words(pairs, num_words, order, budgets)
    replacements = self._replacements(pairs, tokens, masks_starts, budgets)
    unused = np.arange(most)[:, None] >= budgets  # [P, B]
    # Unused places sort last.
    tokens[unused] = np.iinfo(tokens.dtype).max
    by_position = np.argsort(tokens, axis=0)
    tokens, replacements = (
      np.take_along_axis(values, by_position, 0).T
      for values in (tokens, replacements)
    )
    tokens[unused.T] = replacements[unused.T] = 0
    return self._to_masked(pairs, budgets, tokens, replacements)

  def _tokens_of_words(
    self,
    pairs: np.ndarray,
    num_words: np.ndarray,
    order: np.ndarray,
    budgets: np.ndarray,
  ) -> np.ndarray:
    """Returns the tokens [P, B] of the first words that fit into the budgets.

    As in the original: a word that is too long for the rest of the budget is
    skipped, and a shorter one after it may still be taken.
    """
    starts, sizes = self._words(pairs)  # [words of all pairs]
    words_before = np.cumsum(num_words) - num_words
    most = self._options.max_predictions_per_seq
    tokens = np.zeros((most, len(pairs)), np.int64)
    used = np.zeros(len(pairs), np.int64)  # [B]
    # Whether a word fits depends on the words before it, so each step takes one
    # word of every pair.
    for rank, chosen in enumerate(order):
      if (used == budgets).all():
        break
      word = words_before + np.where(rank < num_words, chosen, 0)  # [B]
      fits = (rank < num_words) & (used + sizes[word] <= budgets)
      column = np.flatnonzero(fits)
      word = word[column]
      for piece in range(sizes[word].max(initial=0)):
        longer = sizes[word] > piece
        place = used[column[longer]] + piece
        tokens[place, column[longer]] = starts[word[longer]] + piece
      used[column] += sizes[word]
    return tokens

  def _words(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first tokens in A + B, and the sizes, of all pairs' words."""
    a_start, a_end, b_start, b_end = pairs.T[:4]
    length_a = a_end - a_start
    lengths = length_a + b_end - b_start
    # One row has the tokens of all pairs.
    row = np.repeat(np.arange(len(pairs)), lengths)
    token = np.arange(len(row)) - (np.cumsum(lengths) - lengths)[row]
    source = token + np.where(
      token < length_a[row], a_start[row], (b_start - length_a)[row]
    )
    flags = np.frombuffer(self._flags or b"", np.uint8)[source]
    in_word = flags != data.NO_WORD
    before = np.append(np.uint8(data.NO_WORD), flags[:-1])
    is_first = in_word & (
      (flags == data.STARTS_WORD) | (token == 0) | (before == data.NO_WORD)
    )
    number = np.cumsum(is_first) - 1
    return token[is_first], np.bincount(number[in_word])

  def _replacements(
    self,
    pairs: np.ndarray,
    tokens: np.ndarray,
    starts: np.ndarray,
    budgets: np.ndarray,
  ) -> np.ndarray:
    """Returns the ids [P, B] that the model gets instead of tokens [P, B]."""
    words = self.rng.words
    flags = np.frombuffer(self.rng.codes, np.uint8)
    a_start, a_end, b_start = pairs.T[:3]
    length_a = a_end - a_start
    first = np.where(tokens < length_a, a_start, b_start - length_a)
    replacements = self._corpus.ids.take(tokens + first, mode="clip")
    replacements = replacements.astype(np.int64)
    ids = self._vocabulary.ids
    shift = np.uint32(32 - len(ids).bit_length())
    place = starts.copy()  # [B]: the word at which the next number starts.
    # Row n has masked token n of every pair. Rows beyond a pair's budget read
    # words that belong to other numbers; their results are not used.
    for number, row in enumerate(replacements):
      is_mask = flags.take(place, mode="clip") & _MASKS > 0
      stays = flags.take(place + 2, mode="clip") & _KEEPS > 0
      row[is_mask] = self._vocabulary.mask_id
      place += np.where(is_mask, 2, 4)
      drawn = np.flatnonzero(~is_mask & ~stays & (number < budgets))
      rejected = drawn
      while len(
        rejected := rejected[~(flags[place[rejected]] & _IS_TOKEN > 0)]
      ):
        place[rejected] += 1
      row[drawn] = ids[words[place[drawn]] >> shift]
      place[drawn] += 1
    return replacements
