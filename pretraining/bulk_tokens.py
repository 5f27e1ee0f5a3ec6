r"""Encodes many lines at a time, with the ids of FullTokenizer.encode_lines.

Frequent chunks between two spaces, such as "the" and "(the", get a number in a
table. A text is then a few array operations: "he saw the" -> numbers 4 7 1 ->
their ids. The chunks that are not in the table yet are split into words by one
regular expression for all of them. No TensorFlow.
"""

import array
import collections
import itertools
import re
from collections.abc import Callable, Iterable, Iterator

import numpy as np

import tokenization

_CHARS_TOGETHER = 1 << 18  # More are not faster, and need more memory.
_LARGEST_TABLE = 1 << 17  # Chunks; then the table begins again.
_LARGEST_IDS = 1 << 20  # Ids of all chunks.
_LINE_END = "\n"  # No chunk contains it.
# As in tokenization: printable ASCII has letters, digits, space, punctuation.
_WORDS = re.compile(r"[A-Za-z0-9]+|[^A-Za-z0-9 ]")
_NO_ID = -1


def line_encoder(tokenizer: tokenization.FullTokenizer) -> Callable:
  """Returns the fastest function that does what `encode_lines` does."""
  is_plain = (
    type(tokenizer).encode_lines is tokenization.FullTokenizer.encode_lines
    and type(tokenizer).encode is tokenization.FullTokenizer.encode
  )
  return BulkEncoder(tokenizer) if is_plain else tokenizer.encode_lines


class BulkEncoder:
  """Encodes lines as a FullTokenizer does."""

  def __init__(self, tokenizer: tokenization.FullTokenizer):
    """Makes an empty table."""
    self._tokenizer = tokenizer
    self._words = _WordIds(tokenizer)
    self._clear()

  def _clear(self) -> None:
    # A chunk that is looked up gets the next number.
    self._numbers: collections.defaultdict = collections.defaultdict(
      itertools.count(1).__next__, {_LINE_END: 0}
    )
    # Chunk n has the ids ids[ends[n - 1]:ends[n]]; the end of a line has none.
    self._ids, self._ends = array.array("q"), array.array("q", [0])
    self._words.clear()

  def __call__(self, lines: list[str]) -> tuple[np.ndarray, list[int], None]:
    """Encodes lines; see FullTokenizer.encode_lines.

    Raises:
      tokenization.UnknownTokenError: see FullTokenizer.encode.
    """
    ids, lengths = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for group in _groups(lines):
      group_ids, group_lengths = self._encode(group)
      ids.append(group_ids)
      lengths.append(group_lengths)
    return np.concatenate(ids), np.concatenate(lengths).tolist(), None

  def _encode(self, lines: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ids of all lines, and the number of ids of each line."""
    if len(self._ends) > _LARGEST_TABLE or len(self._ids) > _LARGEST_IDS:
      self._clear()
    text = _LINE_END.join([line.replace(_LINE_END, " ") for line in lines])
    text = text.replace("\t", " ").replace(_LINE_END, f" {_LINE_END} ")
    chunks = text.split(" ")
    chunks.append(_LINE_END)
    numbers = np.fromiter(
      map(self._numbers.__getitem__, chunks), np.int64, len(chunks)
    )
    added = len(self._numbers) - len(self._ends)
    self._add(list(itertools.islice(reversed(self._numbers), added))[::-1])
    table, ends = np.array(self._ids, np.int64), np.array(self._ends, np.int64)
    starts = np.append(0, ends[:-1])
    lengths = (ends - starts)[numbers]
    total = np.cumsum(lengths)
    # For chunks with 2 and 3 ids from 7 and 4: 7 8 4 5 6.
    places = np.repeat(starts[numbers] - (total - lengths), lengths)
    places += np.arange(len(places))
    line_ends = total[numbers == 0]
    return table[places], np.diff(line_ends, prepend=0)

  def _add(self, chunks: list[str]) -> None:
    """Adds chunks to the table, in the order of their numbers."""
    basic = self._tokenizer.basic_tokenizer
    # Runs of printable ASCII are split together, unless words stay whole.
    is_simple = (lambda _: False) if basic.never_split else _is_printable_ascii
    for simple, run in itertools.groupby(chunks, is_simple):
      if simple:
        self._add_ascii(list(run))
        continue
      for chunk in run:
        self._ids.extend(_chained(self._words, basic.tokenize(chunk)))
        self._ends.append(len(self._ids))

  def _add_ascii(self, chunks: list[str]) -> None:
    text = _LINE_END.join(chunks) + _LINE_END
    if self._tokenizer.basic_tokenizer.do_lower_case:
      text = text.lower()
    ids = np.array(list(_chained(self._words, _WORDS.findall(text))), np.int64)
    is_end = ids == _NO_ID
    first = len(self._ids)
    self._ids.frombytes(ids[~is_end].tobytes())
    # The ends themselves do not count.
    ends = np.flatnonzero(is_end) - np.arange(len(chunks)) + first
    self._ends.frombytes(ends.tobytes())


class _WordIds(dict):
  """The ids of words; a lookup computes missing ones."""

  def __init__(self, tokenizer: tokenization.FullTokenizer):
    super().__init__()
    self._tokenizer = tokenizer

  def __missing__(self, word: str) -> tuple[int, ...]:
    ids = [_NO_ID]
    if word != _LINE_END:
      pieces = self._tokenizer.wordpiece_tokenizer.longest_matches(word)
      ids = self._tokenizer.convert_tokens_to_ids(pieces)
    return self.setdefault(word, tuple(ids))


def _chained(words: _WordIds, keys: Iterable[str]) -> Iterator[int]:
  return itertools.chain.from_iterable(map(words.__getitem__, keys))


def _is_printable_ascii(text: str) -> bool:
  return text.isascii() and text.isprintable()


def _groups(lines: list[str]) -> Iterator[list[str]]:
  """Yields groups of lines of about _CHARS_TOGETHER characters."""
  group: list[str] = []
  size = 0
  for line in lines:
    if group and size + len(line) > _CHARS_TOGETHER:
      yield group
      group, size = [], 0
    group.append(line)
    size += len(line)
  if group:
    yield group
