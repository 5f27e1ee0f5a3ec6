"""The numbers of random.Random, one by one or thousands at a time.

The Mersenne Twister of random.Random yields 32-bit words, and its methods
consume them:

  random()       two words
  randint(a, b)  the top k bits of a word, k = bit_length(b - a + 1); a word
                 whose number is too large is rejected, and the next one tried
  shuffle(x)     randint(0, i) for i = len(x) - 1 down to 1

`RandomWordStream` generates many words in one call and consumes them in the
same way. What makes a shuffle expensive is that each word must be compared
with its limit before it is known where the next number starts. A regular
expression over the words does this ten times as fast as random.Random; the
shuffled lists are computed later, hundreds together, by numpy.
"""

import functools
import random
import re
import sys
from collections.abc import Callable

import numpy as np

_STATE_WORDS = 624  # Of the Mersenne Twister.

_CHUNK = 1 << 17
_STEPS_PER_PATTERN = 32
# Patterns match bytes, and a byte per word is enough to compare it with limits
# of up to 255 and (another byte) of 256 to 510. Longer lists, which only
# sequences of more than 512 tokens need, are shuffled one by one down to that.
_LONGEST_IN_BYTE, _LONGEST_IN_PATTERN = 255, 510
# A rejected word stays rejected: from Python 3.11 on, a possessive quantifier
# spares the pattern from backtracking (without it the result is the same).
_REJECTED = b"*+" if sys.version_info >= (3, 11) else b"*"
_WORDS_PER_ROUND = 32


class RandomWordStream:
  """Yields the numbers that a random.Random would yield.

  Attributes:
    words: array [n] uint32, generated already.
    position: index of the next word. Valid until `discard_used`.
    is_below_half: bytes [n]: 1 where a random() would be below 0.5, else 0.
    views: dict of name -> result of the function of that name, see __init__.
  """

  def __init__(
    self,
    rng: random.Random,
    *,
    views: dict[str, Callable[[np.ndarray], bytes]] | None = None,
    chunk: int = _CHUNK,
    common_size: int | None = None,
  ):
    """Takes over a random.Random until `restore_rng`.

    Args:
      rng: what the numbers are those of.
      views: functions of `words`, applied whenever there are new words.
      chunk: approximate number of words in memory.
      common_size: length of most lists that are shuffled, if it is known: it
        is worth a pattern of its own.
    """
    self.position = 0
    self.views = {}
    self._rng = rng
    self._generator = np.random.MT19937()  # The same words, sooner.
    self._generator.state = _numpy_state(rng)
    self._view_functions = views or {}
    self._chunk = chunk
    self._common_size = common_size
    self._states = []  # (position of a word, generator's state before it).
    self._set_words(self._generate(chunk, 0))

  def _generate(self, count, position):
    self._states.append((position, self._generator.state))
    # random_raw gives each word of 32 bits in 64.
    return self._generator.random_raw(count).astype(np.uint32)

  def _set_words(self, words):
    self.words = words
    self._numbers = memoryview(words)
    self.is_below_half = (words < 1 << 31).tobytes()
    # Bytes for the patterns of `skip_shuffle`, made when one asks for them.
    self._texts = {}
    for name, function in self._view_functions.items():
      self.views[name] = function(words)

  def extend(self) -> None:
    """Generates more words, after a reader of `views` ran out of them."""
    more = self._generate(self._chunk, len(self.words))
    # At the end, so that positions of before stay valid.
    self._set_words(np.concatenate([self.words, more]))

  def discard_used(self) -> None:
    """Discards the words before `position`, which becomes 0."""
    used, self.position = self.position, 0
    # Of the states, the last one at or before the position is enough to
    # restore the generator from.
    states = [(place - used, state) for place, state in self._states]
    needed = sum(place <= 0 for place, _ in states) - 1
    self._states = states[needed:]
    rest = self.words[used:]
    if len(rest) < self._chunk:
      more = self._generate(self._chunk - len(rest), len(rest))
      rest = np.concatenate([rest, more])
    self._set_words(rest)

  @property
  def should_discard(self) -> bool:
    """Whether most of the words are used."""
    return self.position > self._chunk * 3 // 4

  def restore_rng(self) -> None:
    """Leaves the random.Random in the state after the numbers used here."""
    place, state = [
      entry for entry in self._states if entry[0] <= self.position
    ][-1]
    self._generator.state = state
    self._generator.random_raw(self.position - place)
    twister = self._generator.state["state"]
    # The state of gauss() is not of words: it stays what it was.
    version, _, gauss = self._rng.getstate()
    key = twister["key"].tolist()
    self._rng.setstate((version, (*key, twister["pos"]), gauss))

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
    flips = self.is_below_half[self.position : end : 2]
    self.position = end
    return flips

  def shuffle(self, items: list) -> None:
    """Shuffles a list in place, as random.Random.shuffle does."""
    for last in range(len(items) - 1, 0, -1):
      chosen = self.randint(0, last)
      items[last], items[chosen] = items[chosen], items[last]

  def skip_shuffle(self, size: int) -> None:
    """Skips the words that shuffling a list of `size` would use."""
    for limit in range(size, _LONGEST_IN_PATTERN, -1):
      self.randint(1, limit)
    # The first steps of a long shuffle are done; this one is left.
    size = min(size, _LONGEST_IN_PATTERN)
    while size > 1:
      match_words, text_of, rest = _shuffle_pattern(
        size, is_whole=size == self._common_size
      )
      text = self._texts.get(text_of)
      if text is None:
        text = self._texts[text_of] = text_of(self.words)
      match = match_words(text, self.position)
      if match:
        self.position = match.end()
        size = rest
      else:
        self.extend()

  def numbers_below_at(
    self, limit: int, positions: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns the next number below `limit` from each of n positions on.

    And the positions after the words that they used, int64 [n] like
    `positions`.
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
    # Flat: the item at place p of list b is items[p * B + b].
    items = np.repeat(np.arange(largest, dtype=np.uint16), count)
    chosen = np.ascontiguousarray(numbers.T) * np.int64(count)
    chosen += np.arange(count)
    # Step n of all shuffles at once; a shorter list swaps with itself until
    # n is below its size.
    for last, places in zip(range(largest - 1, 0, -1), chosen):
      row = items[last * count : (last + 1) * count]
      moved = row.copy()
      row[:] = items.take(places, mode="clip")
      items[places] = moved
    return items.reshape(largest, count)

  def _shuffle_numbers(self, starts, sizes, largest):
    """Returns array [B, largest - 1] uint16: column j has the numbers below n.

    n is largest - j. Where a list is shorter than n the number is n - 1, so
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
    # List by list, the accepted words belong to limits n, n - 1, ..., 2.
    descending = limits[:1:-1]
    is_used = descending <= sizes[:, None]  # [B, largest - 1]
    numbers = np.zeros(is_used.shape, np.uint16)
    numbers[is_used] = words[flags]
    # From a word's top 16 bits to those of its number.
    numbers >>= shifts[:1:-1].astype(np.uint16)
    return np.where(is_used, numbers, (descending - 1).astype(np.uint16))


def _numpy_state(rng):
  """Returns the state of a random.Random as np.random.MT19937 has it."""
  _, words, _ = rng.getstate()
  twister = {
    "key": np.array(words[:_STATE_WORDS], np.uint32),
    "pos": words[_STATE_WORDS],
  }
  return {"bit_generator": "MT19937", "state": twister}


@functools.cache
def _shuffle_pattern(size, *, is_whole):
  """Returns a pattern for the words of the first steps of a shuffle.

  In parts of some steps each, because one pattern for a whole list could not
  be shared by lists of other sizes, and takes long to compile. `is_whole`: all
  steps whose limits take as many bytes.

  Returns:
    (`match` of the pattern, the function of the words that gives its bytes,
    the list size at which the next pattern continues).
  """
  rest = size // _STEPS_PER_PATTERN * _STEPS_PER_PATTERN - 1
  if is_whole:
    rest = _LONGEST_IN_BYTE if size > _LONGEST_IN_BYTE else 1
  text_of = _top_bytes if size <= _LONGEST_IN_BYTE else _top_nine_bits
  limits = range(size, max(1, rest), -1)
  pattern = b"".join(_number_pattern(limit, text_of) for limit in limits)
  return re.compile(pattern).match, text_of, rest


def _number_pattern(limit, text_of):
  """Matches words up to one whose top bits are a number below `limit`."""
  # The smallest rejected word, and its byte.
  word = np.array([limit << (32 - limit.bit_length())], np.uint32)
  byte = text_of(word)[0]
  return b"[\\x%02x-\\xff]%s[\\x00-\\x%02x]" % (byte, _REJECTED, byte - 1)


def _top_bytes(words):
  """Returns the top byte of each word: enough for limits of eight bits."""
  return (words >> 24).astype(np.uint8).tobytes()


def _top_nine_bits(words):
  """Returns a byte for each word that is enough for limits of 256 to 510.

  The top nine bits are a number below 512. All numbers below 256 are accepted
  and 510 and 511 are rejected with any of these limits, so both groups can
  share a byte.
  """
  numbers = (words >> 23).astype(np.int32)
  return np.clip(numbers - 255, 0, 255).astype(np.uint8).tobytes()
