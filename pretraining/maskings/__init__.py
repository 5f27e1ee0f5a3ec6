"""The units of masking: each file has one, and --masking names the file.

A file defines one or both forms. The first chooses tokens of stored records:

  def groups(text: Text, rng: random.Random):
    '''Yields groups of tokens to mask, each a sequence of indices in A + B.

    It must not exceed text.budget. The caller draws the replacements of a group
    and adds it to text.masked before it asks for the next group.
    '''

The second chooses tokens of records of --dynamic_masking while they are read,
with TensorFlow, which this folder imports nowhere else:

  def choose(tokens: dynamic_masking.Tokens):
    '''Returns a dynamic_masking.Choice.'''

A file may also define:

  def kinds(size, draw): returns the replacements of a group's tokens, each a
    result of draw(), drawn before the group's random tokens. By default, each
    token is replaced by itself, before the next token is drawn.
  def prepare(corpus, tokenizer, **options): returns a data.Corpus whose
    `continues` says what a word is.
  OPTIONS: the options of `prepare`, see common/extension_points.py.

No TensorFlow.
"""

import bisect
import functools
import random
import re
from collections.abc import Iterator, Sequence

from pretraining import data

_WORD = re.compile(rb"[\x00\x01]\x01*")  # See data.STARTS_WORD.
_WORDS = re.compile(rb"[\x00\x01]+")  # The words up to a [SEP].


class Text:
  """A segment pair A + B whose tokens are to be masked.

  Attributes:
    budget: the maximum number of tokens to mask.
    masked: {index of a token masked so far: the id in the input}.
  """

  def __init__(self, flags: bytes, length_a: int, budget: int):
    """Stores the flags of the tokens of A + B; A has `length_a` of them."""
    self._flags, self._length_a, self.budget = flags, length_a, budget
    self.masked: dict[int, int] = {}

  def pieces(self) -> list[Sequence[int]]:
    """Returns the index of each token, except [SEP] between documents."""
    return [
      (index,) for index, flag in enumerate(self._flags) if flag != data.NO_WORD
    ]

  def words(self) -> list[Sequence[int]]:
    """Returns the indices of each word's tokens.

    As in the original: a "##" piece at the start of segment B (whose front was
    removed) belongs to the last word of segment A. At the start of segment A,
    it is a separate word. A [SEP] between documents belongs to no word.
    """
    return [range(*word.span()) for word in _WORD.finditer(self._flags)]

  @functools.cached_property
  def parts(self) -> tuple[list[Sequence[int]], list[int]]:
    """The words, and for each the number of the first word after its part.

    A part ends with its segment, or at a [SEP] in it. So a "##" piece at the
    start of segment B is a separate word.
    """
    words: list[Sequence[int]] = []
    ends: list[int] = []
    for start, end in ((0, self._length_a), (self._length_a, len(self._flags))):
      for part in _WORDS.finditer(self._flags, start, end):
        for word in _WORD.finditer(self._flags, *part.span()):
          words.append(range(*word.span()))
        ends += [len(words)] * (len(words) - len(ends))
    return words, ends


def in_random_order(
  text: Text, units: list[Sequence[int]], rng: random.Random
) -> Iterator[Sequence[int]]:
  """Yields units in random order.

  As in the original: a unit that is too long is skipped, and a shorter one
  after it may still be masked.
  """
  _shuffle(units, rng)
  for unit in units:
    if len(text.masked) + len(unit) <= text.budget:
      yield unit


def runs(
  text: Text, rng: random.Random, limits: Sequence[float]
) -> Iterator[list[int]]:
  """Yields runs of words that start at random words; a run may be empty.

  A run may be shorter than its random length: it ends at the end of its part,
  at a masked word, and where the next word would exceed the budget.

  Args:
    limits: running sums of the weights of the lengths 1, 2, ... in words.
  """
  words, ends = text.parts
  starts = list(range(len(words)))
  while starts:
    # This shuffles only as far as needed.
    index = rng.randint(0, len(starts) - 1)
    starts[index], starts[-1] = starts[-1], starts[index]
    first = starts.pop()
    longest = 1 + bisect.bisect(limits, rng.random() * limits[-1])
    run: list[int] = []
    for word in words[first : min(first + longest, ends[first])]:
      size = len(text.masked) + len(run) + len(word)
      if word[0] in text.masked or size > text.budget:
        break
      run += word
    yield run


def _shuffle(items: list, rng: random.Random) -> None:
  """Does the same as random.Random.shuffle in half the time."""
  draw = rng.getrandbits
  for last in range(len(items) - 1, 0, -1):
    bits = (last + 1).bit_length()
    chosen = draw(bits)
    while chosen > last:
      chosen = draw(bits)
    items[last], items[chosen] = items[chosen], items[last]
