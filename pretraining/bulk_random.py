"""random.Random's numbers, from words that are made thousands at a time.

random.Random draws 32-bit words from a Mersenne Twister. Its methods use them
in these ways:

  random()        two words: the top 27 bits of one, the top 26 of the next
  getrandbits(k)  the top k bits of a word, for k up to 32
  randint(a, b)   getrandbits(bit_length(b - a + 1)), drawn again until the
                  number is below b - a + 1
  shuffle(x)      randint(0, i) for i = len(x) - 1 down to 1

A BulkRandom makes many words in one call and reads them in the same ways, so
each method returns the same values as the random.Random. Before a shuffle is
over, nobody knows where the next number starts, because rejected words are
drawn again. `skip_shuffle` finds the place with a regular expression, whose
characters are the words. No TensorFlow.
"""

import functools
import random
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

WORDS_TOGETHER = 1 << 17  # More are hardly faster, and need more memory.
_RESERVE = 1 << 13  # The words of several shuffles.
# A character is the top 16 bits of a word plus the first of these numbers,
# because Unicode has no characters at some of the numbers below.
_FIRST, _LAST = 0x10000, 0x1FFFF
MAX_SHUFFLED = 1 << 10  # The largest list that `skip_shuffle` skips.
_STEPS_TOGETHER = 32  # Words of each list that `shuffled` reads at a time.
# Rejected words and accepted words differ, so giving back rejected words cannot
# help a match: from Python 3.11 on, the pattern says so.
_ANY_NUMBER = "*+" if sys.version_info >= (3, 11) else "*"


class BulkRandom(random.Random):
  """Draws the numbers of another random.Random, which is left behind.

  Attributes:
    words: array [n] uint32, the words that have been made.
    position: index of the next word.
    codes: the result of `codes_of` for `words`.
    nearly_used: a position beyond which it is time to discard the words.
  """

  def __init__(
    self,
    source: random.Random,
    codes_of: Callable[[np.ndarray], bytes] = bytes,
    *,
    together: int = WORDS_TOGETHER,
  ):
    """Makes the first words.

    Args:
      source: the generator whose numbers to draw; use it again after `finish`.
      codes_of: function of words; it returns a byte for each word, which may
        depend on the next word.
      together: how many words are made in one call.
    """
    # The base's __init__ would only seed its own generator.
    self.gauss_next = None
    self._source, self._codes_of, self._together = source, codes_of, together
    # NumPy makes the same words, 5× faster.
    self._twister = np.random.MT19937()
    _, (*key, pos), _ = source.getstate()
    self._twister.state = {
      "bit_generator": "MT19937",
      "state": {"key": np.array(key, np.uint32), "pos": pos},
    }
    self.words = np.zeros(0, np.uint32)
    self.position = 0
    # (index of a word, state of the twister before it was made).
    self._states: list[tuple[int, Any]] = []
    self.extend()

  def extend(self) -> None:
    """Makes more words; the indices of words stay the same."""
    self._states.append((len(self.words), self._twister.state))
    made = self._twister.random_raw(self._together).astype(np.uint32)
    self.words = words = np.concatenate([self.words, made])
    self._integers = words.data
    self._below_half = (words < 1 << 31).tobytes()
    characters = (words >> 16) + np.uint32(_FIRST)
    self._text = str(characters.astype("<u4").data, "utf-32-le")
    self.codes = self._codes_of(words)
    self.nearly_used = len(words) - min(_RESERVE, self._together // 2)

  def discard(self) -> None:
    """Discards the words before `position`, which becomes 0."""
    used, self.position = self.position, 0
    states = [(index - used, state) for index, state in self._states]
    # `finish` needs the last state at or before `position`.
    before = sum(index <= 0 for index, _ in states)
    self._states = states[before - 1 :]
    self.words = self.words[used:]
    self.extend()

  def finish(self) -> None:
    """Gives the source the state after the numbers that were drawn here."""
    index, self._twister.state = [
      entry for entry in self._states if entry[0] <= self.position
    ][-1]
    self._twister.random_raw(self.position - index, output=False)
    state = self._twister.state["state"]
    version, _, gauss_next = self._source.getstate()
    words = *state["key"].tolist(), state["pos"]
    self._source.setstate((version, words, gauss_next))

  def random(self) -> float:
    """Returns random.Random.random()."""
    position = self.position
    while position + 2 > len(self._integers):
      self.extend()
    high, low = self._integers[position : position + 2]
    self.position = position + 2
    return ((high >> 5 << 26) + (low >> 6)) / (1 << 53)

  def coin_flips(self, count: int) -> bytes:
    """Returns 1 for each of `count` random() that is below 0.5, else 0."""
    end = self.position + 2 * count
    while end > len(self._integers):
      self.extend()
    flips = self._below_half[self.position : end : 2]
    self.position = end
    return flips

  def getrandbits(self, k: int) -> int:
    """Returns random.Random.getrandbits(k)."""
    if k < 0:
      raise ValueError("number of bits must be non-negative")
    number = filled = 0
    while filled < k:
      if self.position == len(self._integers):
        self.extend()
      word = self._integers[self.position]
      self.position += 1
      # The last word gives its top bits.
      number |= word >> max(0, 32 - (k - filled)) << filled
      filled += 32
    return number

  def randint(self, a: int, b: int) -> int:
    """Returns random.Random.randint(a, b)."""
    limit = b - a + 1
    if not 0 < limit < 1 << 32:
      return super().randint(a, b)
    shift, position = 32 - limit.bit_length(), self.position
    try:
      while (number := self._integers[position] >> shift) >= limit:
        position += 1
    except IndexError:
      self.extend()
      return self.randint(a, b)
    self.position = position + 1
    return a + number

  def _refuse(self, *args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError("call finish, and use the source")

  seed = getstate = setstate = _refuse

  def skip_shuffle(self, size: int) -> None:
    """Skips the words of a shuffle of a list of at most MAX_SHUFFLED."""
    for match in _shuffle_patterns(size):
      # A match that runs out of words fails, and starts again.
      while not (found := match(self._text, self.position)):
        self.extend()
      self.position = found.end()

  def skip_codes(self, match: Callable) -> None:
    """Skips the words whose `codes` a pattern matches, given its `match`."""
    while not (found := match(self.codes, self.position)):
      self.extend()
    self.position = found.end()


@functools.cache
def _shuffle_patterns(size: int) -> tuple[Callable, ...]:
  """Returns `match` of patterns for the words of a shuffle, in their order.

  A pattern is for randint(1, n), from n = size down to 1 + `size` without its
  lowest one bit; multiples of 16 have one pattern. So sizes share patterns: 45
  has one for 45, one for 44 to 41, one for 40 to 33 and one for 32 to 2.
  """
  if size <= 1:
    return ()
  lowest = size & -size
  rest = size - lowest if lowest < 16 else 0
  numbers = map(_number_pattern, range(size, max(1, rest), -1))
  return (re.compile("".join(numbers)).match, *_shuffle_patterns(rest))


def _number_pattern(limit: int) -> str:
  """Matches words up to one whose top bits are a number below `limit`."""
  bound = _FIRST + (limit << 16 - limit.bit_length())
  rejected = f"[{chr(bound)}-{chr(_LAST)}]{_ANY_NUMBER}"
  return f"{rejected}[{chr(_FIRST)}-{chr(bound - 1)}]"


def shuffled(
  words: np.ndarray, starts: np.ndarray, sizes: np.ndarray
) -> np.ndarray:
  """Shuffles many lists range(size), as random.Random.shuffle does.

  Args:
    words: uint32 array of random words.
    starts: int64 [B], for each list the index of its first word.
    sizes: int64 [B], at most MAX_SHUFFLED each.

  Returns:
    uint16 [largest size, B]; the first sizes[b] rows of column b are list b,
    shuffled.
  """
  largest, count = int(sizes.max(initial=1)), len(sizes)
  # The array is flat: item n of list b is items[n * B + b].
  items = np.repeat(np.arange(largest, dtype=np.uint16), count)
  places = _swaps(words, starts, sizes, largest).astype(np.int64) * count
  places += np.arange(count)
  # Each step swaps one item of all lists.
  for last in range(largest - 1, 0, -1):
    row = items[last * count : (last + 1) * count]
    moved, place = row.copy(), places[last]
    row[:] = items.take(place)
    items[place] = moved
  return items.reshape(largest, count)


def _swaps(
  words: np.ndarray, starts: np.ndarray, sizes: np.ndarray, largest: int
) -> np.ndarray:
  """Returns uint16 [largest, B]: the item with which item n is swapped.

  An item of a list that has no item n stays: its number is n.
  """
  limits = np.arange(largest + 1)
  bits = np.array([limit.bit_length() for limit in limits.tolist()])
  # The top 16 bits of an accepted word are below this; 0 accepts none.
  bounds = (limits << 16 - bits).astype(np.uint16)
  bounds[:2] = 0
  tops = (words >> 16).astype(np.uint16)
  limit, place = sizes.astype(np.intp), starts
  read: list[np.ndarray] = []
  accepted: list[np.ndarray] = []
  while not read or (limit > 1).any():
    # Each step reads one word for all lists.
    block = tops.take(place + np.arange(_STEPS_TOGETHER)[:, None], mode="clip")
    is_accepted = np.empty(block.shape, bool)  # [steps, B]
    for row, is_below in zip(block, is_accepted):
      np.less(row, bounds.take(limit), out=is_below)
      limit -= is_below
    read.append(block)
    accepted.append(is_accepted)
    place = place + _STEPS_TOGETHER
  # The accepted words of a list belong to the limits n, n - 1, ... 2.
  numbers = np.zeros((len(sizes), largest), np.uint16)
  descending = limits[:0:-1]  # [largest]
  is_item = (descending <= sizes[:, None]) & (descending > 1)
  numbers[is_item] = np.concatenate(read).T[np.concatenate(accepted).T]
  numbers >>= (16 - bits[:0:-1]).astype(np.uint16)
  swaps = np.where(is_item, numbers, (descending - 1).astype(np.uint16))
  return swaps.T[::-1]
