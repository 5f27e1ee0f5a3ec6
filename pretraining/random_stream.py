"""The numbers of random.Random, drawn one by one or by the thousand.

random.Random makes 32-bit words, and its methods use them up:

  random()       two words
  randint(a, b)  the top k bits of a word, k = bit_length(b - a + 1); a word
                 that gives too large a number is thrown away for the next
  shuffle(x)     randint(0, i) for i = len(x) - 1 down to 1

`RandomWordStream` draws many words at once and does the same with them. A
shuffle's cost is to find out which words are thrown away: a regular expression
that runs over the words does it ten times as fast as random.Random. What the
shuffle did is worked out later, for hundreds of lists together.
"""

import functools
import re
import sys

import numpy as np

_CHUNK = 1 << 17
_STEPS_PER_PATTERN = 32
# A byte for each word tells what lists of up to 255 and of 256 to 510 items
# need to know of it; longer ones are shuffled down to that in a slow loop.
_LONGEST_IN_BYTE, _LONGEST_IN_PATTERN = 255, 510
# Words that were thrown away are never taken back: from Python 3.11 on, a
# possessive quantifier says so (without it the result is the same, later).
_THROWN_AWAY = b"*+" if sys.version_info >= (3, 11) else b"*"
_WORDS_PER_ROUND = 32


class RandomWordStream:
  """Draws what a random.Random would draw.

  Attributes:
    words: array [n] uint32, drawn already.
    position: index of the next word. A position is valid until `forget`.
    is_head: bytes [n]: 1 where a random() would be below 0.5, else 0.
    views: dict of name -> result of the function of that name, see __init__.
  """

  def __init__(self, rng, *, views=None, chunk=_CHUNK):
    """Takes over a random.Random until `give_back`.

    Args:
      rng: random.Random.
      views: dict of name -> function of `words`, whose results are wanted
        whenever there are new words.
      chunk: about how many words are kept at a time.
    """
    self.position = 0
    self.views = {}
    self._rng = rng
    self._view_functions = views or {}
    self._chunk = chunk
    self._states = []  # (position of a word, state in which it is the next).
    self._set_words(self._drawn(chunk, 0))

  def _drawn(self, count, position):
    self._states.append((position, self._rng.getstate()))
    data = self._rng.getrandbits(32 * count).to_bytes(4 * count, "little")
    return np.frombuffer(data, "<u4")

  def _set_words(self, words):
    self.words = words
    self._numbers = memoryview(words)
    self.is_head = (words < 1 << 31).tobytes()
    self._texts = {}
    for name, function in self._view_functions.items():
      self.views[name] = function(words)

  def extend(self):
    """Draws more words; for whoever ran out of them while reading `views`."""
    more = self._drawn(self._chunk, len(self.words))
    self._set_words(np.concatenate([self.words, more]))

  def forget(self):
    """Makes `position` 0; what lay before it is gone."""
    used, self.position = self.position, 0
    states = [(place - used, state) for place, state in self._states]
    needed = sum(place <= 0 for place, _ in states) - 1
    self._states = states[needed:]
    rest = self.words[used:]
    if len(rest) < self._chunk:
      more = self._drawn(self._chunk - len(rest), len(rest))
      rest = np.concatenate([rest, more])
    self._set_words(rest)

  @property
  def should_forget(self):
    """Whether most of the words are used."""
    return self.position > self._chunk * 3 // 4

  def give_back(self):
    """Leaves the random.Random as if it had made all draws itself."""
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

  def heads(self, count):
    """Returns bytes [count]: 1 for each next random() below 0.5, else 0."""
    end = self.position + 2 * count
    while end > len(self._numbers):
      self.extend()
    heads = self.is_head[self.position : end : 2]
    self.position = end
    return heads

  def shuffle(self, items):
    """Shuffles a list in place, as random.Random.shuffle does."""
    for last in range(len(items) - 1, 0, -1):
      chosen = self.randint(0, last)
      items[last], items[chosen] = items[chosen], items[last]

  def skip_shuffle(self, size):
    """Goes behind the words that shuffling a list of `size` would use."""
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

  def numbers_at(self, limit, positions):
    """Draws a number below `limit` from each of many positions on.

    Args:
      limit: int.
      positions: int64 array [n].

    Returns:
      (numbers [n], the positions behind the words that they used [n]).
    """
    shift = np.uint32(32 - limit.bit_length())
    positions = positions.copy()
    numbers = self.words.take(positions, mode="clip") >> shift
    wrong = np.flatnonzero(numbers >= limit)
    while len(wrong):
      positions[wrong] += 1
      again = self.words.take(positions[wrong], mode="clip") >> shift
      numbers[wrong] = again
      wrong = wrong[again >= limit]
    return numbers, positions + 1

  def shuffled(self, starts, sizes):
    """Shuffles many lists range(size), each with the words from a position.

    Args:
      starts: int64 array [B] of positions.
      sizes: int64 array [B].

    Returns:
      Array [largest size, B] uint16; column b is list b as shuffled, in its
      first sizes[b] rows.
    """
    draws = self._shuffle_draws(starts, sizes)
    largest = len(draws) - 1
    lists = np.empty((largest, len(sizes)), draws.dtype)
    lists[:] = np.arange(largest, dtype=draws.dtype)[:, None]
    column = np.arange(len(sizes))
    for last in range(largest - 1, 0, -1):
      chosen = draws[last + 1]
      moved = lists[last].copy()
      lists[last] = lists[chosen, column]
      lists[chosen, column] = moved
    return lists

  def _shuffle_draws(self, starts, sizes):
    """Returns array [largest size + 1, B]: row n is the draw below n.

    Where a list is shorter than n it is n - 1, so that nothing moves.
    """
    largest = int(sizes.max(initial=1))
    draws = np.empty((largest + 1, len(sizes)), np.uint16)
    draws[1:] = np.arange(largest, dtype=draws.dtype)[:, None]
    shifts = [32 - n.bit_length() for n in range(largest + 1)]
    # A list that is shuffled goes on to draw below 1 and below 0, for nothing.
    shifts = np.array([31, *shifts[1:]], np.uint32)
    columns = np.arange(len(sizes))
    position, limit = starts, sizes.astype(np.uint32)
    while len(columns):
      numbers = np.empty((_WORDS_PER_ROUND, len(columns)), np.uint32)
      limits = np.empty_like(numbers)
      for word in range(_WORDS_PER_ROUND):
        limits[word] = limit
        drawn = self.words.take(position + word, mode="clip")
        drawn >>= shifts.take(limit)
        numbers[word] = drawn
        limit = limit - (drawn < limit)
      # One that is thrown away is overwritten by the next with its limit.
      draws[limits, columns] = numbers
      going_on = limit > 1
      columns, limit = columns[going_on], limit[going_on]
      position = position[going_on] + _WORDS_PER_ROUND
    return draws


@functools.lru_cache(maxsize=None)
def _shuffle_pattern(size):
  """Returns what matches the words of the first steps of a shuffle.

  Returns:
    (`match` of a pattern, the function of the words that gives the bytes for
    it, the size of list with which the next pattern goes on).
  """
  rest = size // _STEPS_PER_PATTERN * _STEPS_PER_PATTERN - 1
  text_of = _top_bytes if size <= _LONGEST_IN_BYTE else _top_nine_bits
  limits = range(size, max(1, rest), -1)
  pattern = b"".join(_draw_pattern(limit, text_of) for limit in limits)
  return re.compile(pattern).match, text_of, rest


def _draw_pattern(limit, text_of):
  """Matches words up to one whose top bits are a number below `limit`."""
  # The smallest word that is thrown away, and what its byte is.
  word = np.array([limit << (32 - limit.bit_length())], np.uint32)
  wrong = text_of(word)[0]
  return b"[\\x%02x-\\xff]%s[\\x00-\\x%02x]" % (wrong, _THROWN_AWAY, wrong - 1)


def _top_bytes(words):
  """Returns a byte for each word: enough for limits of up to eight bits."""
  return (words >> 24).astype(np.uint8).tobytes()


def _top_nine_bits(words):
  """Returns a byte for each word that is enough for limits of 256 to 510.

  The top nine bits are a number below 512. All below 256 are alike, being
  below every limit, and so are 510 and 511, being below none.
  """
  numbers = (words >> 23).astype(np.int32)
  return np.clip(numbers - 255, 0, 255).astype(np.uint8).tobytes()
