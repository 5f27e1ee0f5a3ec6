"""Sentences -> windows of word pieces, and back to sentences. No TensorFlow."""

import itertools
from collections.abc import Iterable
from typing import NamedTuple

from absl import logging

import tokenization
from common import errors
from tagging import data


class Window(NamedTuple):
  """One input of the model, and the words whose labels it gives.

  Attributes:
    input_ids: T ids, [CLS] and [SEP] included.
    sentence: number of the sentence in the file.
    first_word: number of the window's first word in the sentence.
    positions: for each word of the window, the index of its first piece.
  """

  input_ids: list[int]
  sentence: int
  first_word: int
  positions: list[int]


def make_windows(
  sentences: list[data.Sentence], tokenizer: tokenization.FullTokenizer,
  max_seq_length: int, *, document_context: bool = False, path: str = ""
) -> list[Window]:
  """Cuts sentences into windows; each word belongs to exactly one window.

  A sentence that is too long is cut between words. With document_context the
  rest of each window is filled with the words before and after it in the
  document (the paper's "maximal document context"): the model reads these
  words, but their labels come from other windows. Raises InputError: a window
  has no room for a word.

  Args:
    sentences: the sentences of a file, in its order.
    tokenizer: the model's tokenizer.
    max_seq_length: longest window, in word pieces with [CLS] and [SEP].
    document_context: whether windows are filled with context.
    path: the file of the sentences, for warnings; "" for none.
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
    # Documents are cut one at a time: context stays within a document.
    for number, first, start, end in _targets(document, words, room):
      left, right = start, end
      if document_context:
        left, right = widened(words, start, end, room)
      starts: list[int] = []
      pieces: list[int] = []
      for word in words[left:right]:
        starts.append(len(pieces) + 1)  # After [CLS].
        pieces += word
      windows.append(Window(
        [frame.cls_id, *pieces, frame.sep_id], number, first,
        starts[start - left : end - left],
      ))
  return windows


def _encoded(document, tokenizer, room, path):
  """Returns the pieces of each word of a document, at least one per word."""
  (unknown,) = tokenizer.convert_tokens_to_ids([tokenizer.unk_token])
  words = []
  for _, sentence in document:
    encoded = tokenizer.encode_words(sentence.words)
    for word, line, pieces in zip(sentence.words, sentence.lines, encoded):
      # A word whose characters the tokenizer all removes still has a label.
      pieces = pieces or [unknown]
      # Without a file, as in a server, nobody would read the warning.
      if path and len(pieces) > room:
        logging.warning(
          "%s:%d: the word %.20s... has %d word pieces, of which a window "
          "holds the first %d; its label is kept", path, line, word,
          len(pieces), room,
        )
      words.append(pieces[:room])
  return words


def _targets(document, words, room):
  """Yields (sentence, first word in it, start, end) of each window's words.

  start and end count the words of the document. Words are taken greedily
  while their pieces fit into a window.
  """
  start = 0
  for number, sentence in document:
    sentence_start, sentence_end = start, start + len(sentence.words)
    while start < sentence_end:
      # Example: words of 2, 3, 1 and 4 pieces, room for 5: two words, then two.
      end, used = start, 0
      while end < sentence_end and used + len(words[end]) <= room:
        used += len(words[end])
        end += 1
      yield number, start - sentence_start, start, end
      start = end


def widened(
  words: list[list[int]], start: int, end: int, room: int
) -> tuple[int, int]:
  """Adds words on both sides while they fit, balancing the number of pieces.

  Returns (start, end) with the context. Words are lists of pieces; a window
  has labels for the words from `start` to `end`, and room for `room` pieces.
  """
  left, right = start, end
  sizes = {"left": 0, "right": 0}
  room -= sum(len(pieces) for pieces in words[start:end])
  open_sides = {"left", "right"}
  while open_sides:
    # The side with fewer pieces comes first; on a tie the left, sorted first.
    side = min(sorted(open_sides), key=sizes.__getitem__)
    place = left - 1 if side == "left" else right
    is_word = 0 <= place < len(words)
    if not is_word or sum(sizes.values()) + len(words[place]) > room:
      # The side closes for good: skipping a word would leave a gap in the text.
      open_sides.remove(side)
      continue
    sizes[side] += len(words[place])
    left, right = min(left, place), max(right, place + 1)
  return left, right


def of_sentences(windows: list[Window], values: Iterable, count: int) -> list:
  """Joins the values of windows' words to `count` lists, one per sentence."""
  joined: list[list] = [[] for _ in range(count)]
  # Windows are in the order of the words, so joining is enough.
  for window, of_words in zip(windows, values, strict=True):
    joined[window.sentence].extend(of_words)
  return joined
