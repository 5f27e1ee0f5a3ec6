"""Labels the words of files, of streams of sentences, and of texts."""

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
_LINES_TOGETHER = 256  # At most this many waiting lines are answered at once.


class SentenceTagger:
  """A network that scores the labels of word pieces, for any sentences."""

  def __init__(
    self, scores: Callable, tokenizer: tokenization.FullTokenizer, labels: list,
    *, batch_size: int, **windowing
  ):
    """Takes the network.

    Args:
      scores: function of a dict of input_ids, input_mask, segment_ids, int32
        [B, T]; returns [B, T, L], highest for the most probable label.
      tokenizer, labels: the tokenizer and the labels of the model.
      batch_size: number of windows in a batch.
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
    rows = input_sequences.in_batches(
      [(window.input_ids, [0] * len(window.input_ids)) for window in windows],
      lambda batch, _: np.asarray(self._scores(batch)), self._batch_size,
    )
    values = (row[window.positions] for window, row in zip(windows, rows))
    return windowing.of_sentences(windows, values, len(sentences))

  def tag_texts(self, texts: list, *, at_punctuation: bool) -> list:
    """Returns a dict for each text: its words, their tags, and their places.

    With `at_punctuation` each punctuation mark is a word; otherwise white space
    alone separates words. Words without a word piece are left out.

    Returns:
      Dicts of lists (`words`, `tags`, `probabilities`; `starts` and `ends` in
      characters) and of `num_words`. The model's scores must be probabilities.
    """
    answers, sentences = [], []
    for number, text in enumerate(texts):
      places = [
        place
        for place in text_spans.word_places(text, at_punctuation=at_punctuation)
        if self._tokenizer.encode(text[slice(*place)])
      ]
      words = [text[slice(*place)] for place in places]
      sentences.append(
        data.Sentence(number, [number + 1] * len(words), words, None)
      )
      answers.append({
        "words": words, "starts": [start for start, _ in places],
        "ends": [end for _, end in places], "num_words": len(places),
      })
    for answer, rows in zip(answers, self._score(sentences)):
      answer["tags"] = self._named(rows)
      answer["probabilities"] = [float(row.max()) for row in rows]
    return answers


class _Stream:
  """Labels sentences while they arrive.

  In columns, a sentence is answered at the empty line that ends it; each JSON
  line is a sentence. Unreadable input is answered by an error. With document
  context the answer waits for the end of the document: the next -DOCSTART-
  line, another `document`, or the end of the input.
  """

  # `_items` takes a number and a line, and yields (item, whether it begins a
  # document, whether it ends a sentence). `_answer` answers the items due.
  _items: Callable
  _answer: Callable

  def __init__(self, tag: Callable, *, document_context: bool):
    """Takes a function of a list of data.Sentence that returns their labels."""
    self._tag, self._by_document = tag, document_context
    self._bad, self._document = 0, 0
    # Tuples of a number, an item that `_items` yields, and a document's number.
    self._waiting: list = []

  def answer(
    self, source: Iterable[bytes], target: TextIO,
    batch_size: int = _LINES_TOGETHER
  ) -> int:
    """Writes lines with labels, in order, as soon as possible.

    Returns how many lines were answered by an error. At most `batch_size`
    waiting lines are answered together.
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
  """Answers CoNLL columns by the same lines with one more column.

  A raw sentence is answered by the columns that its words would form.

  A sentence with an unreadable line, or with other columns than the first
  sentence, is answered by one line: "error", a tab, and the message.
  """

  def __init__(
    self, tag: Callable, *, document_context: bool, word_column: int = 0,
    is_text: bool = False
  ):
    """Takes the column of the words; with is_text lines are raw sentences."""
    super().__init__(tag, document_context=document_context)
    self._word_column, self._is_text = word_column, is_text
    self._first = None  # The number and the columns of its first line.

  def _items(self, number, line):
    """Yields rows, each a str or InputError; a raw sentence has several."""
    try:
      rows = [line_answers.decode(line)]
      if self._is_text:
        rows = data.text_rows(rows[0], "this line")
    except errors.InputError as error:
      yield error, False, False
      rows = [""] if self._is_text else []
    for row in rows:
      # The answer includes the empty row.
      yield row, data.starts_document(row), not data.columns(row)

  def _answer(self, waiting):
    # Maps the number of rows before an error to the error.
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
    # Empty lines alone form no sentence, and are answered unchanged.
    predicted = self._tag(sentences) if sentences else []
    answer = list(data.with_column(rows, words, predicted))
    # Inserting from the end keeps the places of the other faults valid.
    for place in reversed(faults):
      answer.insert(place, faults[place])
    return "".join(answer)

  def _sentence(self, block):
    """Refuses an unreadable sentence, or one that differs from the first."""
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
  """Whether (number, text or InputError, document) belongs to a sentence."""
  text = line[1]
  return isinstance(text, errors.InputError) or bool(
    data.columns(text) and not data.starts_document(text)
  )


class JsonStream(_Stream):
  """Answers JSON lines by the same objects with their labels.

  An unreadable line is answered by {"error": message}; the lines after it are
  still read.
  """

  _last = None  # The document of the last readable line.

  def _items(self, number, line):
    """Yields a dict, or the InputError of a bad line."""
    try:
      text = line_answers.decode(line)
      errors.require_text(text, f"line {number}")
      values = data.parse_object(text, f"line {number}")
    except errors.InputError as error:
      yield error, False, True
      return
    # In files, too, consecutive lines with one name are one document.
    last, self._last = self._last, values.get("document")
    yield values, self._last != last, True

  def _answer(self, waiting):
    sentences = [
      data.sentence_of(values, number, SOURCE, document=document)
      for number, values, document in waiting
      if isinstance(values, dict)
    ]
    # Each readable line takes the next of these.
    predicted = iter(self._tag(sentences) if sentences else [])
    answer = []
    for _, values, _ in waiting:
      if isinstance(values, dict):
        answer.append(data.with_labels(values, next(predicted)))
      else:
        self._bad += 1
        answer.append(json_files.line({"error": str(values)}))
    return "".join(answer)
