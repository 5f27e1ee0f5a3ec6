"""The numbers of random.Random, one by one or thousands at a time.

The Mersenne Twister of random.Random yields 32-bit words, and its methods
consume them:

  random()       two words
  randint(a, b)  the top k bits of a word, k = bit_length(b - a + 1); a word
                 whose number is too large is rejected, and the next one tried
  shuffle(x)     randint(0, i) for i = len(x) - 1 down to 1

`RandomWordStream` generates many words in one call and consumes them in the
same way. A shuffle is expensive because each word must be compared with its
limit before it is known where the next number starts. A regular expression
over the words does this 10× faster than random.Random; numpy computes the
shuffled lists later, hundreds together.
"""

import functools
import random
import re
import sys
from collections.abc import Callable

import numpy as np

_CHUNK = 1 << 18  # Larger chunks are hardly faster, and need more memory.
_STEPS_PER_PATTERN = 32
# A rejected word stays rejected: from Python 3.11 on, a possessive quantifier
# spares the pattern from backtracking (without it the result is the same).
_REJECTED = "*+" if sys.version_info >= (3, 11) else "*"
# Patterns match a character for each word: its top 16 bits, which are enough
# for limits below 2**16, plus this, since some lower code points are invalid.
_FIRST, _LAST = 0x10000, 0x1FFFF
_WORDS_PER_ROUND = 32


class RandomWordStream:
  """Yields the numbers that a random.Random would yield.

  Attributes:
    words: array [n] uint32, the generated words.
    position: index of the next word. Valid until `discard_used`.
    draws: the result of the `draws` function for `words`.
  """

  def __init__(
    self, rng: random.Random, *, draws: Callable[[np.ndarray], bytes] = bytes,
    chunk: int = _CHUNK, common_size: int = 0,
  ):
    """Takes over a random.Random until `restore_rng`.

    Args:
      rng: the source of the numbers.
      draws: function of words, applied whenever more are generated.
      chunk: how many words are generated together.
      common_size: length of most lists that are shuffled, which get a
      separate pattern.
    """
    self.position = 0
    self.words = np.zeros(0, np.uint32)
    self._rng = rng
    self._draws_of = draws
    self._chunk = chunk
    self._common_size = common_size
    # (position of a word, state of `rng` before it).
    self._states: list[tuple] = []
    self.extend()

  def extend(self) -> None:
    """Generates more words, after a reader of `draws` ran out of them."""
    self._states.append((len(self.words), self._rng.getstate()))
    more = np.frombuffer(self._rng.randbytes(4 * self._chunk), "<u4")
    # New words are appended, so that earlier positions stay valid.
    self.words = words = np.concatenate([self.words, more])
    self._numbers = words.data
    self._is_below_half = (words < 1 << 31).tobytes()
    characters = (words >> 16) + np.uint32(_FIRST)
    self._text = characters.astype("<u4").tobytes().decode("utf-32-le")
    self.draws = self._draws_of(words)

  def discard_used(self) -> None:
    """Discards the words before `position`, which becomes 0."""
    used, self.position = self.position, 0
    self.words = self.words[used:]
    # The last state at or before the position is enough to restore from.
    states = [(place - used, state) for place, state in self._states]
    self._states = states[sum(place <= 0 for place, _ in states) - 1 :]
    self.extend()

  @property
  def should_discard(self) -> bool:
    """Whether most of the words are used."""
    return self.position > len(self.words) * 3 // 4

  def restore_rng(self) -> None:
    """Leaves the random.Random in the state after the numbers used here."""
    place, state = [
      entry for entry in self._states if entry[0] <= self.position
    ][-1]
    self._rng.setstate(state)
    self._rng.randbytes(4 * (self.position - place))

  def random(self) -> float:
    """Returns the next random.Random.random()."""
    while self.position + 2 > len(self._numbers):
      self.extend()
    high = self._numbers[self.position] >> 5
    low = self._numbers[self.position + 1] >> 6
    self.position += 2
    return ((high << 26) + low) / (1 << 53)

  def randint(self, first: int, last: int) -> int:
    """Returns the next random.Random.randint(first, last)."""
    limit = last - first + 1
    shift = 32 - limit.bit_length()
    while True:
      if self.position == len(self._numbers):
        self.extend()
      number = self._numbers[self.position] >> shift
      self.position += 1
      if number < limit:
        return first + number

  def coin_flips(self, count: int) -> bytes:
    """Returns bytes [count]: 1 for each next random() below 0.5, else 0."""
    end = self.position + 2 * count
    while end > len(self._numbers):
      self.extend()
    flips = self._is_below_half[self.position : end : 2]
    self.position = end
    return flips

  def shuffle(self, items: list) -> None:
    """Shuffles a list in place, as random.Random.shuffle does."""
    for last in range(len(items) - 1, 0, -1):
      chosen = self.randint(0, last)
      items[last], items[chosen] = items[chosen], items[last]

  def skip_shuffle(self, size: int) -> None:
    """Skips the words that shuffling a list of `size` would use."""
    is_whole = size == self._common_size
    while size > 1:
      match_words, rest = _shuffle_pattern(size, is_whole)
      if match := match_words(self._text, self.position):
        self.position, size = match.end(), rest
      else:
        self.extend()

  def numbers_below_at(
    self, limit: int, positions: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns the next number below `limit` at or after each of n positions.

    It also returns the positions after the words that they used, int64 [n]
    like `positions`.
    """
    shift = np.uint32(32 - limit.bit_length())
    positions = positions.copy()
    numbers = self.words.take(positions, mode="clip") >> shift
    rejected = np.flatnonzero(numbers >= limit)
    while len(rejected):
      positions[rejected] += 1
      again = self.words.take(positions[rejected], mode="clip") >> shift
      numbers[rejected] = again
      rejected = rejected[again >= limit]
    return numbers, positions + 1

  def shuffled(self, starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Shuffles many lists range(size), each with the words of a position.

    Args:
      starts: int64 [B], the positions.
      sizes: int64 [B], each below 2**16.

    Returns:
      uint16 [largest size, B]; the first sizes[b] rows of column b are list b,
      shuffled.
    """
    largest, count = int(sizes.max(initial=1)), len(sizes)
    numbers = self._shuffle_numbers(starts, sizes, largest)  # [B, largest - 1]
    # The array is flat: the item at place p of list b is items[p * B + b].
    items = np.repeat(np.arange(largest, dtype=np.uint16), count)
    chosen = np.ascontiguousarray(numbers.T) * np.int64(count)
    chosen += np.arange(count)
    # Each step n covers all shuffles; an item of a shorter list swaps with
    # itself until n is below the list's size.
    for last, places in zip(range(largest - 1, 0, -1), chosen):
      row = items[last * count : (last + 1) * count]
      moved = row.copy()
      row[:] = items.take(places, mode="clip")
      items[places] = moved
    return items.reshape(largest, count)

  def _shuffle_numbers(self, starts, sizes, largest):
    """Returns uint16 [B, largest - 1]: column j has the numbers below n.

    Here n is largest - j. For a list shorter than n the number is n - 1, so
    that nothing moves.
    """
    limits = np.arange(largest + 1)
    shifts = np.array([16 - n.bit_length() for n in limits.tolist()])
    # A word's top 16 bits are below this if its number is below the limit. A
    # finished list (limit 1 or 0) accepts none.
    bounds = (limits << shifts).astype(np.uint16)
    bounds[:2] = 0
    tops = (self.words >> 16).astype(np.uint16)
    limit, position = sizes.copy(), starts
    words, flags = [], []
    while not words or (limit > 1).any():
      places = position + np.arange(_WORDS_PER_ROUND)[:, None]  # [32, B]
      words.append(tops.take(places, mode="clip"))
      flags.append(np.empty(places.shape, bool))
      for word, is_accepted in zip(words[-1], flags[-1]):
        np.less(word, bounds.take(limit), out=is_accepted)
        limit -= is_accepted
      position = position + _WORDS_PER_ROUND
    words, flags = (
      np.ascontiguousarray(np.concatenate(rounds).T)
      for rounds in (words, flags)
    )
    # The accepted words of each list belong to limits n, n - 1, ..., 2.
    descending = limits[:1:-1]
    is_used = descending <= sizes[:, None]  # [B, largest - 1]
    numbers = np.zeros(is_used.shape, np.uint16)
    numbers[is_used] = words[flags]
    # The number is the top bits of these 16.
    numbers >>= shifts[:1:-1].astype(np.uint16)
    return np.where(is_used, numbers, (descending - 1).astype(np.uint16))


@functools.cache
def _shuffle_pattern(size, is_whole):
  """Returns `match` of a pattern for the words of the first steps of a shuffle.

  It also returns the list size at which the next pattern continues. Patterns
  cover some steps each (unless `is_whole`), because a pattern for a whole list
  could not be shared by lists of other sizes, and takes long to compile.
  """
  rest = size // _STEPS_PER_PATTERN * _STEPS_PER_PATTERN - 1
  rest = 1 if is_whole else max(1, rest)
  limits = range(size, rest, -1)
  return re.compile("".join(map(_number_pattern, limits))).match, rest


def _number_pattern(limit):
  """Matches words up to one whose top bits are a number below `limit`."""
  bound = _FIRST + (limit << 16 - limit.bit_length())
  rejected = f"[{chr(bound)}-{chr(_LAST)}]{_REJECTED}"
  return f"{rejected}[{chr(_FIRST)}-{chr(bound - 1)}]"
