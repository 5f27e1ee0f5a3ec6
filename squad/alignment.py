"""Word pieces -> the words as they are written in the passage.

A model reads "anna lang ' s", lower-cased and without accents; the answer is
to read "Anna Lang" where the passage has "Anna Lang's". So the predicted
pieces are searched in the tokenized words that they come from, and the match
is carried over to the written words by counting characters:

    words as written     Anna Lang's
    tokenized            anna lang ' s
    predicted            anna lang          characters 0 to 7 without spaces
    answer               Anna Lang          characters 0 to 7 without spaces

As in the original: where that fails (an unknown piece, a character that the
tokenizer removes or makes two of) the answer is the whole words; and the
first of two places that match the prediction is taken.

The original tokenizes the words for each of the 20 best answers of each
question; here each word of a passage is tokenized once. That gives the same
result, because U+0020, which separates words, also ends a token at every stage
of tokenization.
"""

import bisect
import functools
import itertools
from collections.abc import Callable

from absl import logging

import tokenization
from squad import data
from variants import piece_tokenizer

# Most words of a passage occur in other passages, too.
_REMEMBERED_WORDS = 1 << 16


class PassageText:
  """A passage as written and as tokenized, and the mapping between them.

  Both are its words joined by single spaces; a word that has no tokens (only
  a zero-width space, say) is missing from the second.
  """

  def __init__(self, words: list[str], word_text: Callable[[str], str]):
    """Takes `doc_tokens`, and a tokenizer's `word_text`."""
    self._written = " ".join(words)
    # Where each word begins, with the spaces before it and without them.
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
      predicted: text of pieces, see FullTokenizer.joined_pieces.
      first, last: numbers of words; `last` is included.

    Returns:
      The text, and its start and end among the words joined by single spaces:
      all of these words if the prediction cannot be found in them (logged at
      debug level).
    """
    start, end = self._place(predicted, first, last)
    return self._written[start:end], (start, end)

  def _place(self, predicted, first, last):
    # Only these words are searched: the same text may come earlier in the
    # passage.
    start = self._token_starts[first]
    # `end` excludes the space after the last word; words may have no tokens.
    end = max(start, self._token_starts[last + 1] - 1)
    offset = self._tokenized.find(predicted, start, end)
    # Counting characters works only if tokenization kept their number: "É"
    # becomes "e", but a removed control character, or an accent that is a
    # separate character, shifts everything after it.
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
    """Counts the characters but U+0020 of a part of the tokenized text."""
    return end - start - self._tokenized.count(" ", start, end)

  def _position(self, place):
    """Maps a character's number without spaces to its written position."""
    # One space comes before each word but the first. An empty word begins where
    # the next word does, so the last of several words at a place has it.
    return place + bisect.bisect_right(self._places, place) - 1


def written_places(
  word: str, tokenizer: tokenization.FullTokenizer
) -> list[tuple[int, int]] | None:
  """Returns where the pieces of a word stand in it: (start, end) of each.

  Characters that the tokenizer removes belong to the piece before them. Returns
  None for a tokenizer other than BERT's, or if characters cannot be matched.
  """
  if isinstance(tokenizer, piece_tokenizer.PieceTokenizer):
    return None
  basic, pieces_of = tokenizer.basic_tokenizer, tokenizer.wordpiece_tokenizer
  # Each character of "É," gives one character, a stripped accent gives none.
  counts = [_num_kept(char, basic) for char in word]
  owners = [n for n, count in enumerate(counts) for _ in range(count)]
  places, after = [], 0
  for token in basic.tokenize(word):
    pieces = pieces_of.longest_matches(token)
    # An unknown token stands for all of its characters.
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
  """Returns how many characters a tokenizer makes of one character."""
  return len("".join(basic.tokenize(char)))


class PieceFinder:
  """Finds the pieces of a passage in its words joined by spaces."""

  def __init__(
    self, words: list[str], numbers: list[int],
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
    """Returns the text and the place of the pieces `first` to `last`.

    It returns None if the places of the pieces are not known.
    """
    if self._places is None:
      return None
    place = self._places[first][0], self._places[last][1]
    return self._written[slice(*place)], place


def in_context(context: str, place: tuple[int, int]) -> tuple[int, int]:
  """Maps a place in a context's words to the context, see PassageText.find."""
  words = list(data.WORD.finditer(context))
  starts = _word_starts([word.group() for word in words])

  def of(position):
    number = bisect.bisect_right(starts, position) - 1
    return words[number].start() + position - starts[number]

  return of(place[0]), of(place[1] - 1) + 1


def _word_starts(words):
  """Returns where words joined by spaces begin, and where the next would."""
  return _sums(len(word) + 1 for word in words)


def _sums(lengths):
  """[3, 2] -> [0, 3, 5]."""
  return list(itertools.accumulate(lengths, initial=0))
