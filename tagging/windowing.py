"""Splits sentences into windows of word pieces. No TensorFlow."""

import itertools
from collections.abc import Iterable
from typing import NamedTuple

from absl import logging

import tokenization
from common import errors
from tagging import data


class Window(NamedTuple):
  """An input of the model, and the words that get labels from it.

  Attributes:
    input_ids: T ids, including [CLS] and [SEP].
    sentence: number of the sentence in the file.
    first_word: number of the window's first word in the sentence.
    positions: for each word of the window, the index of its first piece.
  """

  input_ids: list[int]
  sentence: int
  first_word: int
  positions: list[int]


def make_windows(
  sentences: list[data.Sentence],
  tokenizer: tokenization.FullTokenizer,
  max_seq_length: int,
  *,
  document_context: bool = False,
  path: str = "",
) -> list[Window]:
  """Splits sentences into windows; each word gets its label from one window.

  A sentence that is too long is split between words. With document_context, the
  words before and after it in the document fill the rest of a window (the
  paper's "maximal document context"): the model reads these words, but they get
  labels from other windows. Raises InputError: a window has no room for a word.

  Args:
    sentences: the sentences of a file, in its order.
    tokenizer: the model's tokenizer.
    max_seq_length: longest window, in word pieces with [CLS] and [SEP].
    document_context: whether to fill windows with context.
    path: the file of the sentences, for warnings; "" gives no warnings.
  """
  room = max_seq_length - 2
  if room < 1:
    raise errors.InputError(
      f"--max_seq_length={max_seq_length} leaves no room for a word between "
      "[CLS] and [SEP]; pass 3 or more"
    )
  frame = tokenizer.frame
  windows = []
  numbered = enumerate(sentences)
  for _, group in itertools.groupby(numbered, lambda pair: pair[1].document):
    document = list(group)
    words = _encoded(document, tokenizer, room, path)
    # A document at a time, because context is within a document.
    for number, first, start, end in _targets(document, words, room):
      left, right = start, end
      if document_context:
        left, right = widened(words, start, end, room)
      starts: list[int] = []
      pieces: list[int] = []
      for word in words[left:right]:
        starts.append(len(pieces) + 1)  # After [CLS].
        pieces += word
      windows.append(
        Window(
          [frame.cls_id, *pieces, frame.sep_id],
          number,
          first,
          starts[start - left : end - left],
        )
      )
  return windows


def _encoded(document, tokenizer, room, path):
  """Returns the piece ids of each word in a document, at least one per word."""
  (unknown,) = tokenizer.convert_tokens_to_ids([tokenizer.unk_token])
  words = []
  for _, sentence in document:
    encoded = tokenizer.encode_words(sentence.words)
    for word, line, pieces in zip(sentence.words, sentence.lines, encoded):
      # A word without pieces has a label, which needs a position.
      pieces = pieces or [unknown]
      # A server has no file, and nobody reads its warnings.
      if path and len(pieces) > room:
        logging.warning(
          "%s:%d: the word %.20s... has %d word pieces, of which a window "
          "holds the first %d; its label is kept",
          path,
          line,
          word,
          len(pieces),
          room,
        )
      words.append(pieces[:room])
  return words


def _targets(document, words, room):
  """Yields (sentence number, first word, start, end) for each window.

  `first word` counts within the sentence, `start` and `end` in the document. A
  window takes words of a sentence as long as their pieces fit.
  """
  start = 0
  for number, sentence in document:
    sentence_start, sentence_end = start, start + len(sentence.words)
    while start < sentence_end:
      # Words of 2, 3, 1 and 4 pieces in windows of 5: two words, then two.
      end, used = start, 0
      while end < sentence_end and used + len(words[end]) <= room:
        used += len(words[end])
        end += 1
      yield number, start - sentence_start, start, end
      start = end


def widened(
  words: list[list[int]], start: int, end: int, room: int
) -> tuple[int, int]:
  """Extends words `start` to `end` with context, and returns the new range.

  While words fit into `room` pieces, it adds them on both sides, with about
  equal numbers of pieces. `words` has the pieces of a document's words.
  """
  left, right = start, end
  sizes = {"left": 0, "right": 0}
  room -= sum(len(pieces) for pieces in words[start:end])
  open_sides = {"left", "right"}
  while open_sides:
    # Extend the side with fewer pieces; in a tie the left, which sorts first.
    side = min(sorted(open_sides), key=sizes.__getitem__)
    place = left - 1 if side == "left" else right
    is_word = 0 <= place < len(words)
    if not is_word or sum(sizes.values()) + len(words[place]) > room:
      # Stop on this side: skipping a word would leave a gap in the text.
      open_sides.remove(side)
      continue
    sizes[side] += len(words[place])
    left, right = min(left, place), max(right, place + 1)
  return left, right


def of_sentences(windows: list[Window], values: Iterable, count: int) -> list:
  """Joins the values of windows to a list of word values for each sentence."""
  joined: list[list] = [[] for _ in range(count)]
  # The windows of a sentence are in the order of its words.
  for window, of_words in zip(windows, values, strict=True):
    joined[window.sentence].extend(of_words)
  return joined
