"""Maps predicted word pieces to the words as written in the passage.

For "Anna Lang's" in a passage, a model reads "anna lang ' s", lower-cased and
without accents, but the answer must be "Anna Lang". So this module searches the
predicted pieces in the tokenized words that they come from, and maps the match
to the written words by counting characters:

    words as written     Anna Lang's
    tokenized            anna lang ' s
    predicted            anna lang          characters 0 to 7 without spaces
    answer               Anna Lang          characters 0 to 7 without spaces

As in the original: if that fails (an unknown piece, a character that the
tokenizer removes or replaces with two), the answer is the whole words; of two
places that match the prediction, the first one counts.

The original tokenizes the words for each of the 20 best answers of each
question; this module tokenizes each word of a passage once. The result is
equal, because U+0020, which separates words, also ends a token at every stage
of tokenization.
"""

import bisect
import functools
import itertools
from collections.abc import Callable

from absl import logging

import tokenization
from squad import data
from variants import tokenizer_file

# Size of a cache: most characters occur in many words.
_REMEMBERED_WORDS = 1 << 16


class PassageText:
  """A passage as written and as tokenized, and the mapping between them.

  Both texts are the words joined by single spaces. The tokenized text lacks
  words without tokens, for example a single zero-width space.
  """

  def __init__(self, words: list[str], word_text: Callable[[str], str]):
    """Takes a question's `doc_tokens` and a tokenizer's `word_text`."""
    self._written = " ".join(words)
    # The offset of each word, counted with spaces and without them.
    # For "Anna Lang's": starts [0, 5, 12], places [0, 4, 10].
    self._starts = _word_starts(words)
    self._places = _sums(map(len, words))
    tokens = [word_text(word) for word in words]
    self._tokenized = " ".join(filter(None, tokens))
    self._token_starts = _sums(len(text) + bool(text) for text in tokens)

  def find(
    self, predicted: str, first: int, last: int
  ) -> tuple[str, tuple[int, int]]:
    """Finds a prediction in the words `first` to `last`.

    Args:
      predicted: text of the pieces, see FullTokenizer.joined_pieces.
      first, last: numbers of words, both inclusive.

    Returns:
      (text, (start, end)): the written text, and its place in all words joined
      by single spaces. If the words do not contain the prediction, this is the
      text of all these words, with a line in the debug log.
    """
    start, end = self._place(predicted, first, last)
    return self._written[start:end], (start, end)

  def _place(self, predicted, first, last):
    # Search only these words, because the passage may contain the same text
    # earlier.
    start = self._token_starts[first]
    # `end` excludes the space after the last word. Words may have no tokens.
    end = max(start, self._token_starts[last + 1] - 1)
    offset = self._tokenized.find(predicted, start, end)
    # Counting works only if tokenization keeps the number of characters. "É"
    # becomes "e", but without a control character, or an accent that is a
    # separate character, all later characters have other numbers.
    if (
      predicted.strip(" ") == predicted != ""
      and offset >= 0
      and self._num_characters(start, end)
      == self._places[last + 1] - self._places[first]
    ):
      # `before` and `after` are the first and last character without spaces.
      before = self._places[first] + self._num_characters(start, offset)
      after = before + len(predicted) - predicted.count(" ") - 1
      return self._position(before), self._position(after) + 1
    place = self._starts[first], self._starts[last + 1] - 1
    logging.debug(
      "No %r in %r, letter by letter.", predicted, self._written[slice(*place)]
    )
    return place

  def _num_characters(self, start, end):
    """Counts the characters except U+0020 in a part of the tokenized text."""
    return end - start - self._tokenized.count(" ", start, end)

  def _position(self, place):
    """Converts a character's number without spaces to its written position."""
    # A space precedes each word but the first. An empty word begins at the same
    # place as the next word, so the last word at a place has the character.
    return place + bisect.bisect_right(self._places, place) - 1


def written_places(
  word: str, tokenizer: tokenization.FullTokenizer
) -> list[tuple[int, int]] | None:
  """Returns the (start, end) of each piece within its word.

  Characters that the tokenizer removes belong to the piece before them. Returns
  None for a tokenizer other than BERT's, or if characters cannot be matched.
  """
  if isinstance(tokenizer, tokenizer_file.FileTokenizer):
    return None
  basic, pieces_of = tokenizer.basic_tokenizer, tokenizer.wordpiece_tokenizer
  # Each character of "É," becomes one character, a stripped accent none.
  counts = [_num_kept(char, basic) for char in word]
  owners = [n for n, count in enumerate(counts) for _ in range(count)]
  places, after = [], 0
  for token in basic.tokenize(word):
    pieces = pieces_of.longest_matches(token)
    # An unknown token covers all of its characters.
    is_unknown = pieces == (pieces_of.unk_token,)
    sizes = [len(piece.removeprefix("##")) for piece in pieces]
    for size in [len(token)] if is_unknown else sizes:
      before, after = after, after + size
      if not before < after <= len(owners):
        return None
      end = owners[after - 1] + 1
      while end < len(word) and not counts[end]:
        end += 1
      places.append((owners[before], end))
  return places if after == len(owners) else None


@functools.lru_cache(_REMEMBERED_WORDS)
def _num_kept(char, basic):
  """Returns the number of characters that replace a character."""
  return len("".join(basic.tokenize(char)))


class PieceFinder:
  """Finds a passage's pieces in its words, which are joined by spaces."""

  def __init__(
    self,
    words: list[str],
    numbers: list[int],
    tokenizer: tokenization.FullTokenizer,
  ):
    """Takes the words, and the number of each piece's word."""
    self._written = " ".join(words)
    starts = _word_starts(words)
    places = [
      (starts[number] + start, starts[number] + end)
      for number in dict.fromkeys(numbers)
      for start, end in written_places(words[number], tokenizer) or ()
    ]
    self._places = places if len(places) == len(numbers) else None

  def find(self, first: int, last: int) -> tuple | None:
    """Returns the text and the place (start, end) of pieces `first` to `last`.

    It returns None if `written_places` cannot locate all pieces.
    """
    if self._places is None:
      return None
    place = self._places[first][0], self._places[last][1]
    return self._written[slice(*place)], place


def in_context(context: str, place: tuple[int, int]) -> tuple[int, int]:
  """Converts a place from PassageText.find to a place in the context."""
  words = list(data.WORD.finditer(context))
  starts = _word_starts([word.group() for word in words])

  def of(position):
    number = bisect.bisect_right(starts, position) - 1
    return words[number].start() + position - starts[number]

  return of(place[0]), of(place[1] - 1) + 1


def _word_starts(words):
  """Returns the offsets of words joined by spaces, and of a further word."""
  return _sums(len(word) + 1 for word in words)


def _sums(lengths):
  """Returns the cumulative sums from 0: [3, 2] -> [0, 3, 5]."""
  return list(itertools.accumulate(lengths, initial=0))
