"""Splits sentences into windows of word pieces. No TensorFlow."""

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from absl import logging

import tokenization
from common import errors
from tagging import data
from text import cut_texts

# The sentences of a document, with their numbers in the file.
Document = list[tuple[int, data.Sentence]]


class Window(NamedTuple):
  """An input of the model, and the words that get labels from it.

  Attributes:
    input_ids: T ids, including [CLS] and [SEP].
    sentence: index of the sentence in the list of sentences.
    first_word: index in the sentence of the first word that gets a label.
    positions: for each word that gets a label, the index of its first piece.
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
  cut: cut_texts.CutTexts | None = None,
) -> list[Window]:
  """Splits sentences into windows; each word gets its label from one window.

  A sentence that is too long is split between words. With document_context,
  neighbouring words of the document fill the rest of a window (the paper's
  "maximal document context"): the model reads these words, but they get labels
  from other windows. Raises InputError: a window has no room for a word.

  Args:
    sentences: the sentences of a file or request, in its order.
    tokenizer: the model's tokenizer.
    max_seq_length: longest window, in word pieces with [CLS] and [SEP].
    document_context: whether to fill windows with context.
    path: the file of the sentences, for warnings; "" disables warnings.
    cut: counts the words, and those longer than a window.
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
  # Process each document separately, because context must not cross documents.
  for _, group in itertools.groupby(numbered, lambda pair: pair[1].document):
    document = list(group)
    words = _encoded(document, tokenizer, room, path, cut)
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


def _encoded(
  document: Document,
  tokenizer: tokenization.FullTokenizer,
  room: int,
  path: str,
  cut: cut_texts.CutTexts | None,
) -> list[list[int]]:
  """Returns the piece ids of each word in a document, at least one per word."""
  (unknown,) = tokenizer.convert_tokens_to_ids([tokenizer.unk_token])
  words = []
  for _, sentence in document:
    encoded = tokenizer.encode_words(sentence.words)
    for word, line, pieces in zip(sentence.words, sentence.lines, encoded):
      # A word without pieces also needs a position, for its label.
      pieces = pieces or [unknown]
      if cut:
        cut.add(len(pieces) > room)
      # A server passes no path, because nobody would read its warnings.
      if path and len(pieces) > room:
        logging.warning(
          "%s:%d: the word %.20s... has %d word pieces; the model reads only "
          "the first %d, and the word keeps its label",
          path,
          line,
          word,
          len(pieces),
          room,
        )
      words.append(pieces[:room])
  return words


def _targets(
  document: Document, words: list[list[int]], room: int
) -> Iterator[tuple[int, int, int, int]]:
  """Yields (sentence number, first word, start, end) for each window.

  `first word` counts within the sentence, `start` and `end` in the document. A
  window takes words of a sentence as long as their pieces fit.
  """
  start = 0
  for number, sentence in document:
    sentence_start, sentence_end = start, start + len(sentence.words)
    while start < sentence_end:
      # With room for 5 pieces, words of 2, 3, 1 and 4 pieces fill two windows.
      end, used = start, 0
      while end < sentence_end and used + len(words[end]) <= room:
        used += len(words[end])
        end += 1
      yield number, start - sentence_start, start, end
      start = end


def widened(
  words: list[list[int]], start: int, end: int, room: int
) -> tuple[int, int]:
  """Returns the range of words from `start` to `end`, widened with context.

  It adds as many words as fit into `room` pieces, with about equal numbers of
  pieces on both sides. `words` has the pieces of each word of a document.
  """
  left, right = start, end
  sizes = {"left": 0, "right": 0}
  room -= sum(len(pieces) for pieces in words[start:end])
  open_sides = {"left", "right"}
  while open_sides:
    # Extend the side with fewer pieces; in a tie the left, which sorts first.
    side = min(sorted(open_sides), key=sizes.__getitem__)
    index = left - 1 if side == "left" else right
    is_word = 0 <= index < len(words)
    if not is_word or sum(sizes.values()) + len(words[index]) > room:
      # Stop on this side: skipping a word would leave a gap in the text.
      open_sides.remove(side)
      continue
    sizes[side] += len(words[index])
    left, right = min(left, index), max(right, index + 1)
  return left, right


def of_sentences(windows: list[Window], values: Iterable, count: int) -> list:
  """Returns a list of word values per sentence, from word values per window."""
  joined: list[list] = [[] for _ in range(count)]
  # The windows of a sentence are in the order of its words.
  for window, word_values in zip(windows, values, strict=True):
    joined[window.sentence].extend(word_values)
  return joined
