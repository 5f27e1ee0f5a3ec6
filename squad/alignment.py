"""Maps predicted word pieces to the text as written in the passage.

A model reads "Anna Lang's" as "anna lang ' s", lower-cased and without accents.
If it predicts "anna lang", the answer must be "Anna Lang". So this module finds
the predicted pieces in the tokenized text of their words, and maps the match to
the written text by counting characters:

    words as written     Anna Lang's
    tokenized            anna lang ' s
    predicted            anna lang          characters 0 to 7 without spaces
    answer               Anna Lang          characters 0 to 7 without spaces

As in the original: the answer is the text of all these words if the mapping
fails, because of an unknown piece or a character that the tokenizer removes or
replaces with two. If the words contain the prediction twice, the first counts.

The original tokenizes the words for each of the 20 best answers of each
question; this module tokenizes each word of a passage once. The result is the
same, because the space U+0020 between words ends a token at every stage of
tokenization.
"""

import bisect
import functools
import itertools
from collections.abc import Callable, Iterable
from typing import Any

from absl import logging

import tokenization
from squad import data
from variants import tokenizer_file

_CACHED_CHARACTERS = 1 << 16


class PassageText:
  """A passage as written and as tokenized, and the mapping between them.

  Each text is the passage's words joined by single spaces. The tokenized text
  lacks words without tokens, such as a zero-width space.
  """

  def __init__(self, words: list[str], word_text: Callable[[str], str]):
    """Takes a question's `doc_tokens` and a tokenizer's `word_text`."""
    self._written = " ".join(words)
    # The offset of each word and of a hypothetical next word: [0, 5, 12] for
    # "Anna Lang's", or [0, 4, 10] if spaces do not count.
    self._starts = _word_starts(words)
    self._spaceless_starts = _sums(map(len, words))
    tokens = [word_text(word) for word in words]
    self._tokenized = " ".join(filter(None, tokens))
    self._token_starts = _sums(len(text) + bool(text) for text in tokens)

  def find(
    self, predicted: str, first: int, last: int
  ) -> tuple[str, tuple[int, int]]:
    """Finds a prediction in the words `first` to `last`.

    Args:
      predicted: text of the pieces, see FullTokenizer.joined_pieces.
      first, last: indices of words, both inclusive.

    Returns:
      (text, (start, end)): the written text, and its span of characters in the
      passage's words joined by single spaces. If the prediction is not found,
      this is the text of all words from `first` to `last`.
    """
    start, end = self._span(predicted, first, last)
    return self._written[start:end], (start, end)

  def _span(self, predicted: str, first: int, last: int) -> tuple[int, int]:
    # Search only these words, because the passage may contain the same text
    # earlier.
    start = self._token_starts[first]
    # Exclude the space after the last word, unless the words have no tokens.
    end = max(start, self._token_starts[last + 1] - 1)
    offset = self._tokenized.find(predicted, start, end)
    # Counting works only if tokenization keeps the number of characters, as for
    # "É" and "e". Removing a control character or a combining accent shifts all
    # later characters.
    first_start = self._spaceless_starts[first]
    if (
      predicted.strip(" ") == predicted != ""
      and offset >= 0
      and self._num_characters(start, end)
      == self._spaceless_starts[last + 1] - first_start
    ):
      first_char = first_start + self._num_characters(start, offset)
      last_char = first_char + len(predicted) - predicted.count(" ") - 1
      return self._position(first_char), self._position(last_char) + 1
    span = self._starts[first], self._starts[last + 1] - 1
    whole = self._written[slice(*span)]
    logging.debug("cannot locate %r in %r: using all words", predicted, whole)
    return span

  def _num_characters(self, start: int, end: int) -> int:
    """Counts the characters except U+0020 in a part of the tokenized text."""
    return end - start - self._tokenized.count(" ", start, end)

  def _position(self, index: int) -> int:
    """Returns the position in the written text; `index` counts no spaces."""
    # One space precedes each word except the first. An empty word starts at the
    # same index as the next word, so the last word that starts there counts.
    return index + bisect.bisect_right(self._spaceless_starts, index) - 1


def written_places(
  word: str, tokenizer: tokenization.FullTokenizer
) -> list[tuple[int, int]] | None:
  """Returns the span of characters (start, end) of each piece of a word.

  Characters that the tokenizer removes belong to the piece before them, if any.
  Returns None if the tokenizer is not BERT's or pieces do not match the word.
  """
  if isinstance(tokenizer, tokenizer_file.FileTokenizer):
    return None
  basic, pieces_of = tokenizer.basic_tokenizer, tokenizer.wordpiece_tokenizer
  # "É" becomes one character, and a combining accent becomes none.
  counts = [_num_kept(char, basic) for char in word]
  # The written character from which each tokenized character comes.
  sources = [n for n, count in enumerate(counts) for _ in range(count)]
  spans, after = [], 0
  for token in basic.tokenize(word):
    pieces = pieces_of.longest_matches(token)
    # An unknown token covers all of its characters.
    is_unknown = pieces == (pieces_of.unk_token,)
    sizes = [len(piece.removeprefix("##")) for piece in pieces]
    for size in [len(token)] if is_unknown else sizes:
      before, after = after, after + size
      if not before < after <= len(sources):
        return None
      end = sources[after - 1] + 1
      while end < len(word) and not counts[end]:
        end += 1
      spans.append((sources[before], end))
  return spans if after == len(sources) else None


@functools.lru_cache(_CACHED_CHARACTERS)
def _num_kept(char: str, basic: Any) -> int:
  """Returns the number of characters that `char` becomes in tokenized text."""
  return len("".join(basic.tokenize(char)))


class PieceFinder:
  """Finds the written text of a passage's pieces."""

  def __init__(
    self,
    words: list[str],
    word_indices: list[int],
    tokenizer: tokenization.FullTokenizer,
  ):
    """Takes a passage's words, and the index of the word of each piece."""
    self._written = " ".join(words)
    starts = _word_starts(words)
    spans = [
      (starts[index] + start, starts[index] + end)
      for index in dict.fromkeys(word_indices)
      for start, end in written_places(words[index], tokenizer) or ()
    ]
    self._spans = spans if len(spans) == len(word_indices) else None

  def find(self, first: int, last: int) -> tuple | None:
    """Returns the written text and span of the pieces `first` to `last`.

    Returns None if `written_places` cannot locate all pieces.
    """
    if self._spans is None:
      return None
    span = self._spans[first][0], self._spans[last][1]
    return self._written[slice(*span)], span


def in_context(context: str, place: tuple[int, int]) -> tuple[int, int]:
  """Converts `place`, the span from a `find`, to a span in the context."""
  words = list(data.WORD.finditer(context))
  starts = _word_starts([word.group() for word in words])

  def in_text(position: int) -> int:
    index = bisect.bisect_right(starts, position) - 1
    return words[index].start() + position - starts[index]

  return in_text(place[0]), in_text(place[1] - 1) + 1


def _word_starts(words: list[str]) -> list[int]:
  """Returns the offsets of words joined by spaces, and of a next word."""
  return _sums(len(word) + 1 for word in words)


def _sums(lengths: Iterable[int]) -> list[int]:
  """Returns the cumulative sums from 0: [3, 2] -> [0, 3, 5]."""
  return list(itertools.accumulate(lengths, initial=0))
