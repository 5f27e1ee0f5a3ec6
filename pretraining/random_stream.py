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
tests/plain_instances.py has the plain form of this.
"""

import functools
import re
import sys

import numpy as np

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

  def __init__(self, rng, *, views=None, chunk=_CHUNK):
    """Takes over a random.Random until `restore_rng`.

    Args:
      rng: random.Random.
      views: dict of name -> function of `words`, to be applied whenever there
        are new words.
      chunk: approximate number of words in memory.
    """
    self.position = 0
    self.views = {}
    self._rng = rng
    self._view_functions = views or {}
    self._chunk = chunk
    self._states = []  # (position of a word, state of `rng` right before it).
    self._set_words(self._generate(chunk, 0))

  def _generate(self, count, position):
    self._states.append((position, self._rng.getstate()))
    # getrandbits fills a long integer with words, the lowest one first.
    data = self._rng.getrandbits(32 * count).to_bytes(4 * count, "little")
    return np.frombuffer(data, "<u4")

  def _set_words(self, words):
    self.words = words
    self._numbers = memoryview(words)
    self.is_below_half = (words < 1 << 31).tobytes()
    self._texts = {}
    for name, function in self._view_functions.items():
      self.views[name] = function(words)

  def extend(self):
    """Generates more words, after a reader of `views` ran out of them."""
    more = self._generate(self._chunk, len(self.words))
    self._set_words(np.concatenate([self.words, more]))

  def discard_used(self):
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
  def should_discard(self):
    """Whether most of the words are used."""
    return self.position > self._chunk * 3 // 4

  def restore_rng(self):
    """Leaves the random.Random in the state after the numbers used here."""
    place, state = [
      entry for entry in self._states if entry[0] <= self.position
    ][-1]
    self._rng.setstate(state)
    if self.position > place:
      self._rng.getrandbits(32 * (self.position - place))

  def random(self):
    """Returns the next random.Random.random()."""
    while self.position + 2 > len(self._numbers):
      self.extend()
    high = self._numbers[self.position] >> 5
    low = self._numbers[self.position + 1] >> 6
    self.position += 2
    return ((high << 26) + low) / (1 << 53)

  def randint(self, first, last):
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

  def coin_flips(self, count):
    """Returns bytes [count]: 1 for each next random() below 0.5, else 0."""
    end = self.position + 2 * count
    while end > len(self._numbers):
      self.extend()
    flips = self.is_below_half[self.position : end : 2]
    self.position = end
    return flips

  def shuffle(self, items):
    """Shuffles a list in place, as random.Random.shuffle does."""
    for last in range(len(items) - 1, 0, -1):
      chosen = self.randint(0, last)
      items[last], items[chosen] = items[chosen], items[last]

  def skip_shuffle(self, size):
    """Skips the words that shuffling a list of `size` would use."""
    for limit in range(size, _LONGEST_IN_PATTERN, -1):
      self.randint(1, limit)
    size = min(size, _LONGEST_IN_PATTERN)
    while size > 1:
      match_words, text_of, rest = _shuffle_pattern(size)
      text = self._texts.get(text_of)
      if text is None:
        text = self._texts[text_of] = text_of(self.words)
      match = match_words(text, self.position)
      if match:
        self.position = match.end()
        size = rest
      else:
        self.extend()

  def numbers_below_at(self, limit, positions):
    """Returns the next number below `limit` from each of many positions on.

    Args:
      limit: int.
      positions: int64 array [n].

    Returns:
      (numbers [n], the positions after the words that they used [n]).
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

  def shuffled(self, starts, sizes):
    """Shuffles many lists range(size), each with the words of a position.

    Args:
      starts: int64 array [B] of positions.
      sizes: int64 array [B].

    Returns:
      Array [largest size, B] uint16; the first sizes[b] rows of column b are
      list b, shuffled.
    """
    numbers = self._shuffle_numbers(starts, sizes)
    largest = len(numbers) - 1
    lists = np.empty((largest, len(sizes)), numbers.dtype)
    lists[:] = np.arange(largest, dtype=numbers.dtype)[:, None]
    column = np.arange(len(sizes))
    # Step n of all shuffles at once; a shorter list swaps with itself until
    # n is below its size.
    for last in range(largest - 1, 0, -1):
      chosen = numbers[last + 1]
      moved = lists[last].copy()
      lists[last] = lists[chosen, column]
      lists[chosen, column] = moved
    return lists

  def _shuffle_numbers(self, starts, sizes):
    """Returns array [largest size + 1, B]: row n is the number below n.

    Where a list is shorter than n it is n - 1, so that nothing moves.
    """
    largest = int(sizes.max(initial=1))
    result = np.empty((largest + 1, len(sizes)), np.uint16)
    result[1:] = np.arange(largest, dtype=result.dtype)[:, None]
    shifts = [32 - n.bit_length() for n in range(largest + 1)]
    # A finished list stays in its round with limits 1 and 0, to no effect.
    shifts = np.array([31, *shifts[1:]], np.uint32)
    columns = np.arange(len(sizes))
    position, limit = starts, sizes.astype(np.uint32)
    while len(columns):
      # Each list reads its words in step with the others, accepted or not:
      # its limit falls only when a word is accepted. Lists that are done leave
      # after the round, so that few long ones do not carry all along.
      numbers = np.empty((_WORDS_PER_ROUND, len(columns)), np.uint32)
      limits = np.empty_like(numbers)
      for word in range(_WORDS_PER_ROUND):
        limits[word] = limit
        number = self.words.take(position + word, mode="clip")
        number >>= shifts.take(limit)
        numbers[word] = number
        limit = limit - (number < limit)
      # A rejected number is overwritten by the next one with its limit.
      result[limits, columns] = numbers
      is_unfinished = limit > 1
      columns, limit = columns[is_unfinished], limit[is_unfinished]
      position = position[is_unfinished] + _WORDS_PER_ROUND
    return result


@functools.lru_cache(maxsize=None)
def _shuffle_pattern(size):
  """Returns a pattern for the words of the first steps of a shuffle.

  In parts of some steps each, because one pattern for a whole list could not
  be shared by lists of other sizes, and takes long to compile.

  Returns:
    (`match` of the pattern, the function of the words that gives its bytes,
    the list size at which the next pattern continues).
  """
  rest = size // _STEPS_PER_PATTERN * _STEPS_PER_PATTERN - 1
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
