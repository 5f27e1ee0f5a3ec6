"""Labels the words of sentences, of streams of sentences, and of texts."""

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
_LINES_TOGETHER = 256  # Most lines of a batch.


class SentenceTagger:
  """Labels sentences or texts with a network that scores word pieces."""

  def __init__(
    self, scores: Callable, tokenizer: tokenization.FullTokenizer, labels: list,
    *, batch_size: int, **windowing
  ):
    """Takes the network.

    Args:
      scores: function of a dict of input_ids, input_mask, segment_ids, int32
        [B, T]; returns scores [B, T, L], the highest for the best label.
      tokenizer, labels: the model's tokenizer and labels.
      batch_size: number of windows in a batch.
      **windowing: keyword arguments of windowing.make_windows.
    """
    self._scores, self._tokenizer, self._labels = scores, tokenizer, labels
    self._batch_size, self._windowing = batch_size, windowing

  def tag(self, sentences: list) -> list:
    """Returns a list for each data.Sentence, with a label for each word."""
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
    """Returns a dict for each text, with its words, their tags and offsets.

    With `at_punctuation`, each punctuation mark is a word; otherwise only white
    space separates words. Words without a word piece are omitted.

    Returns:
      Dicts of lists (`words`, `tags`, `probabilities`, `starts` and `ends` in
      characters) and `num_words`. The model's scores must be probabilities.
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
  """Labels sentences as they arrive.

  An empty line ends a sentence in columns; each JSON line is a sentence. The
  answer to unreadable input is an error. With document context, an answer needs
  the whole document, which ends at the next -DOCSTART- line, at another
  `document`, or at the end of the input.
  """

  # `_items` takes a number and a line, and yields (item, whether it begins a
  # document, whether it ends a sentence). `_answer` returns lines for items.
  _items: Callable
  _answer: Callable

  def __init__(self, tag: Callable, *, document_context: bool):
    """Takes a function from a list of data.Sentence to their labels."""
    self._tag, self._by_document = tag, document_context
    self._bad, self._document = 0, 0
    # Tuples of a number, an item that `_items` yields, and a document's number.
    self._waiting: list = []

  def answer(
    self, source: Iterable[bytes], target: TextIO,
    batch_size: int = _LINES_TOGETHER
  ) -> int:
    """Writes lines with labels, in order, as soon as possible.

    It returns the number of lines with an error. A batch has at most
    `batch_size` lines, all of which must already have arrived.
    """
    for lines in line_answers.read_batches(source, batch_size):
      self._write(target, self._due(lines))
    self._write(target, len(self._waiting))
    return self._bad

  def _due(self, lines):
    """Queues the items of lines; returns the number of complete items."""
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
  """Answers CoNLL columns with a copy that has a further column of labels.

  For a raw sentence, the answer has a column of its words and one of labels.

  For a sentence with an unreadable line, or with another number of columns than
  the first sentence, the answer is a line: "error", a tab, and the message.
  """

  def __init__(
    self, tag: Callable, *, document_context: bool, word_column: int = 0,
    is_text: bool = False
  ):
    """Takes the column of words; with `is_text`, lines are raw sentences."""
    super().__init__(tag, document_context=document_context)
    self._word_column, self._is_text = word_column, is_text
    self._first = None  # The number and width of the first sentence's line.

  def _items(self, number, line):
    """Yields the line's rows, each a str or InputError; see `_Stream`."""
    try:
      rows = [line_answers.decode(line)]
      if self._is_text:
        rows = data.text_rows(rows[0], "this line")
    except errors.InputError as error:
      yield error, False, False
      rows = [""] if self._is_text else []
    for row in rows:
      # An empty row is also an item, because the answer repeats it.
      yield row, data.starts_document(row), not data.columns(row)

  def _answer(self, waiting):
    # `faults` maps the number of rows before an error to the error.
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
    # Without sentences, the answer consists of the unchanged empty lines.
    predicted = self._tag(sentences) if sentences else []
    answer = list(data.with_column(rows, words, predicted))
    # Insert from the end, so that the places of earlier faults stay valid.
    for place in reversed(faults):
      answer.insert(place, faults[place])
    return "".join(answer)

  def _sentence(self, block):
    """Returns a block's Sentence; raises InputError for other columns."""
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
  """Returns whether (number, text or InputError, document) has a word."""
  text = line[1]
  return isinstance(text, errors.InputError) or bool(
    data.columns(text) and not data.starts_document(text)
  )


class JsonStream(_Stream):
  """Answers JSON lines with the same objects plus labels.

  The answer to an unreadable line is {"error": message}; reading then
  continues.
  """

  _last = None  # The document of the last readable line.

  def _items(self, number, line):
    """Yields the line's dict or InputError; see `_Stream`."""
    try:
      text = line_answers.decode(line)
      errors.require_text(text, f"line {number}")
      values = data.parse_object(text, f"line {number}")
    except errors.InputError as error:
      yield error, False, True
      return
    # As in files, consecutive lines with the same name are a document.
    last, self._last = self._last, values.get("document")
    yield values, self._last != last, True

  def _answer(self, waiting):
    sentences = [
      data.sentence_of(values, number, SOURCE, document=document)
      for number, values, document in waiting
      if isinstance(values, dict)
    ]
    # Each readable line takes the next labels.
    predicted = iter(self._tag(sentences) if sentences else [])
    answer = []
    for _, values, _ in waiting:
      if isinstance(values, dict):
        answer.append(data.with_labels(values, next(predicted)))
      else:
        self._bad += 1
        answer.append(json_files.line({"error": str(values)}))
    return "".join(answer)
