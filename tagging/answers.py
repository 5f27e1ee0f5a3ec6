"""Labels of words: of files, of sentences as they come, and of texts."""

import itertools
from collections.abc import Callable, Iterable
from typing import TextIO

import numpy as np
from absl import logging

import tokenization
from common import errors, json_files, line_answers
from tagging import data, text_spans, windowing
from text import input_sequences

SOURCE = "standard input"
_LINES_TOGETHER = 256  # Of those that are waiting, to be answered in one go.


class SentenceTagger:
  """A network that scores the labels of word pieces, for any sentences."""

  def __init__(
    self, scores: Callable, tokenizer: tokenization.FullTokenizer, labels: list,
    *, batch_size: int, **windowing
  ):
    """Takes the network.

    Args:
      scores: function of a dict of input_ids, input_mask, segment_ids, int32
        [B, T]; returns what is highest for the likeliest label, [B, T, L].
      tokenizer, labels: those of the model.
      batch_size: windows in a batch.
      **windowing: keyword arguments of windowing.make_windows.
    """
    self._scores, self._tokenizer, self._labels = scores, tokenizer, labels
    self._batch_size, self._windowing = batch_size, windowing

  def tag(self, sentences: list) -> list:
    """Returns lists of str, a label for each word of each data.Sentence."""
    return [self._named(rows) for rows in self._score(sentences)]

  def _named(self, rows):
    return [self._labels[row.argmax()] for row in rows]

  def _score(self, sentences):
    """Returns the scores [L] of each word of each sentence."""
    windows = windowing.make_windows(
      sentences, self._tokenizer, **self._windowing
    )
    found = [None] * len(windows)
    lengths = [len(window.input_ids) for window in windows]
    # Windows of like length together: little padding to compute.
    for places in input_sequences.batches_by_length(lengths, self._batch_size):
      batch = input_sequences.pad_batch([windows[n].input_ids for n in places])
      for place, row in zip(places, np.asarray(self._scores(batch))):
        found[place] = row[windows[place].positions]
    return windowing.of_sentences(windows, found, len(sentences))

  def tag_texts(self, texts: list, *, at_punctuation: bool) -> list:
    """Returns a dict of each text: its words, their tags, where they are.

    With `at_punctuation` punctuation is a word of its own; else words are what
    white space separates. What has no word piece is no word.

    Returns:
      Dicts of `words`, `tags`, `probabilities`, `starts` and `ends`
      (characters), lists, and `num_words`. The scores are to be probabilities.
    """
    found = []
    for text in texts:
      places = [
        (start, end)
        for start, end in text_spans.word_places(
          text, at_punctuation=at_punctuation
        )
        if self._tokenizer.encode(text[start:end])
      ]
      found.append({
        "words": [text[start:end] for start, end in places],
        "starts": [start for start, _ in places],
        "ends": [end for _, end in places], "num_words": len(places),
      })
    of_texts = self._score([
      data.Sentence(number, [number + 1] * len(text["words"]), text["words"],
                    None)
      for number, text in enumerate(found)
    ])
    return [
      {**text, "tags": self._named(rows),
       "probabilities": [float(row.max()) for row in rows]}
      for text, rows in zip(found, of_texts)
    ]


class _Stream:
  """Sentences that are labelled as they come.

  In columns a sentence is answered at the empty line that ends it; of JSON
  lines each is a sentence. What cannot be read is answered by an error. With
  document context the answer waits for the end of the document: the next
  -DOCSTART- line, another `document`, the end of the input.
  """

  # Of a number and a line: yields what it holds, whether that begins a
  # document, whether it ends a sentence. And: the answer to what is due.
  _items: Callable
  _answer: Callable

  def __init__(self, tag: Callable, *, document_context: bool):
    """Takes a function of a list of data.Sentence that returns their labels."""
    self._tag, self._by_document = tag, document_context
    self._bad, self._document = 0, 0
    # (number, what `_items` makes of its line, number of the document).
    self._waiting: list = []

  def answer(
    self, source: Iterable[bytes], target: TextIO,
    batch_size: int = _LINES_TOGETHER
  ) -> int:
    """Writes lines with labels, in order, as soon as it can.

    Returns how many lines were answered by an error. At most `batch_size` lines
    that are waiting are answered together.
    """
    for lines in line_answers.read_batches(source, batch_size):
      self._write(target, self._due(lines))
    self._write(target, len(self._waiting))
    return self._bad

  def _due(self, lines):
    """Takes lines with their numbers; returns how many items are due."""
    due = 0
    for number, line in lines:
      for item, begins_document, ends_sentence in self._items(number, line):
        if begins_document:
          due = len(self._waiting)
          self._document += 1
        self._waiting.append((number, item, self._document))
        if ends_sentence and not self._by_document:
          due = len(self._waiting)
    return due

  def _write(self, target, count):
    due, self._waiting = self._waiting[:count], self._waiting[count:]
    target.write(self._answer(due))
    target.flush()


class ColumnStream(_Stream):
  """CoNLL columns, answered by the same lines with one more column.

  A raw sentence is answered as the columns that its words would be.

  A sentence with a line that cannot be read, or with other columns than the
  first sentence, is answered by one line: "error", a tab, what is wrong.
  """

  def __init__(
    self, tag: Callable, *, document_context: bool, word_column: int = 0,
    is_text: bool = False
  ):
    """Takes the number of the words' column; is_text: of raw sentences."""
    super().__init__(tag, document_context=document_context)
    self._word_column, self._is_text = word_column, is_text
    self._first = None  # Number and columns of its first line.

  def _items(self, number, line):
    """Yields rows, str or InputError: of a raw sentence several."""
    try:
      rows = [line_answers.decode(line)]
      if self._is_text:
        rows = data.text_rows(rows[0], "this line")
    except errors.InputError as error:
      yield error, False, False
      rows = [""] if self._is_text else []
    for row in rows:
      # The empty row itself is a part of the answer.
      yield row, data.starts_document(row), not data.columns(row)

  def _answer(self, waiting):
    # Number of rows before an error -> the error.
    sentences, rows, words, faults = [], [], set(), {}
    for is_word, block in itertools.groupby(waiting, _is_word):
      block = list(block)
      try:
        if is_word:
          sentences.append(self._sentence(block))
          words.update(sentences[-1].lines)
        rows += (line[:2] for line in block)
      except errors.InputError as error:
        self._bad += 1
        faults[len(rows)] = f"error\t{' '.join(str(error).split())}\n"
    # Empty lines alone make no sentence, and are answered as they are.
    predicted = self._tag(sentences) if sentences else []
    found = list(data.with_column(rows, words, predicted))
    # From the end: what is inserted moves what comes after it.
    for place in reversed(faults):
      found.insert(place, faults[place])
    return "".join(found)

  def _sentence(self, block):
    """Refuses one that cannot be read, or differs from the first."""
    for number, text, _ in block:
      if isinstance(text, errors.InputError):
        raise errors.InputError(f"{SOURCE}:{number}: {text}") from text
    (sentence,) = data.parse_columns(
      [line[:2] for line in block], SOURCE, word_column=self._word_column,
      labelled=False, first=self._first,
    )
    number, text, document = next(
      line for line in block if line[0] == sentence.lines[0]
    )
    width = len(data.columns(text))
    if not self._first and len(block) == 1 < width:
      logging.warning(
        "%s:%d: %r counts as one word, the first of %d columns; raw sentences "
        "need --file_format=text", SOURCE, number, text, width,
      )
    self._first = self._first or (number, width)
    return sentence._replace(document=document)


def _is_word(line):
  """Whether (number, text or InputError, document) is within a sentence."""
  text = line[1]
  return isinstance(text, errors.InputError) or bool(
    data.columns(text) and not data.starts_document(text)
  )


class JsonStream(_Stream):
  """JSON lines, answered by the same objects with their labels.

  A line that cannot be read is answered by {"error": one sentence}; the next
  ones may be right.
  """

  _last = None  # The document of the last line that could be read.

  def _items(self, number, line):
    """Yields a dict, or the InputError of a bad line."""
    try:
      text = line_answers.decode(line)
      errors.require_text(text, f"line {number}")
      values = data.parse_object(text, f"line {number}")
    except errors.InputError as error:
      yield error, False, True
      return
    # As in a file: a document is a run of lines with one name.
    last, self._last = self._last, values.get("document")
    yield values, self._last != last, True

  def _answer(self, waiting):
    sentences = [
      data.sentence_of(values, number, SOURCE, document=document)
      for number, values, document in waiting
      if isinstance(values, dict)
    ]
    # Taken in turn by the lines that could be read.
    predicted = iter(self._tag(sentences) if sentences else [])
    found = []
    for _, values, _ in waiting:
      if isinstance(values, dict):
        found.append(data.with_labels(values, next(predicted)))
      else:
        self._bad += 1
        found.append(json_files.line({"error": str(values)}))
    return "".join(found)
