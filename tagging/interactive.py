"""Tags sentences as they come, with a model that is loaded once.

In columns a sentence is answered at the empty line that ends it; of JSON lines
each is a sentence. What cannot be read is answered by an error. With document
context the answer waits for the end of the document: the next -DOCSTART- line,
another `document`, the end of the input.
"""

import itertools
from collections.abc import Callable, Iterable
from typing import TextIO

import tensorflow as tf
from absl import logging

from common import errors, json_files, line_answers
from tagging import dataset, json_sentences, text_tagger

SOURCE = "standard input"
_LINES_TOGETHER = 256  # Of those that are waiting, to be answered in one go.


def tag_stream(
  source: Iterable[bytes], target: TextIO, tag: Callable, *,
  answers: "_Answers", batch_size: int
) -> int:
  """Reads lines and writes them with labels, in order, as soon as it can.

  Args:
    source: a line each.
    target: flushed after each answer.
    tag: function of a list of dataset.Sentence; returns their labels.
    answers: ColumnAnswers or JsonAnswers.
    batch_size: at most N lines that are waiting are answered together.

  Returns:
    How many lines were answered by an error.
  """
  for lines in line_answers.read_batches(source, batch_size):
    target.write(answers.add(lines, tag))
    target.flush()
  target.write(answers.finish(tag))
  target.flush()
  return answers.num_bad


class _Answers:
  """What came and waits for the end of its sentence or document."""

  # Of a number and a line: yields what it holds, whether that begins a
  # document, whether it ends a sentence. And: the answer to what is due.
  _items: Callable
  _answer: Callable

  def __init__(self, document_context: bool):
    self.num_bad = 0
    self._by_document = document_context
    self._waiting: list = []  # (number, what `_items` makes of its line).

  def add(self, lines: list[tuple[int, bytes]], tag: Callable) -> str:
    """Takes lines with their numbers; returns the answers that are due."""
    due = 0
    for number, line in lines:
      for item, begins_document, ends_sentence in self._items(number, line):
        if begins_document:
          due = len(self._waiting)
        self._waiting.append((number, item))
        if ends_sentence and not self._by_document:
          due = len(self._waiting)
    return self._take(due, tag)

  def finish(self, tag: Callable) -> str:
    """Returns the answers to all lines that still wait."""
    return self._take(len(self._waiting), tag)

  def _take(self, count, tag):
    due, self._waiting = self._waiting[:count], self._waiting[count:]
    return self._answer(due, tag)


class ColumnAnswers(_Answers):
  """CoNLL columns, answered by the same lines with one more column.

  A raw sentence is answered as the columns that its words would be.

  A sentence with a line that cannot be read, or with other columns than the
  first sentence, is answered by one line: "error", a tab, what is wrong.
  """

  def __init__(
    self, word_column: int, *, document_context: bool, is_text: bool = False
  ):
    """Takes the number of the words' column; is_text: of raw sentences."""
    super().__init__(document_context)
    self._word_column, self._is_text = word_column, is_text
    self._width = None  # Columns of the first sentence.

  def _items(self, number, line):
    """Yields rows, str or InputError: of a raw sentence several."""
    try:
      rows = [line_answers.decode(line)]
      if self._is_text:
        rows = dataset.text_rows(rows[0], "this line")
    except errors.InputError as error:
      yield error, False, False
      rows = [""] if self._is_text else []
    for row in rows:
      # The empty row itself is a part of the answer.
      yield row, dataset.starts_document(row), not dataset.columns(row)

  def _answer(self, lines, tag):
    good, faults = [], {}  # Number of lines before an error -> the error.
    for is_word, block in itertools.groupby(lines, _is_word):
      block = list(block)
      try:
        if is_word:
          self._check(block)
        good += block
      except errors.InputError as error:
        self.num_bad += 1
        faults[len(good)] = f"error\t{' '.join(str(error).split())}\n"
    # Empty lines alone make no sentence, and are answered as they are.
    predicted = tag(self._parse(good)) if any(map(_is_word, good)) else []
    answers = list(dataset.with_column((text for _, text in good), predicted))
    # From the end: what is inserted moves what comes after it.
    for place in reversed(faults):
      answers.insert(place, faults[place])
    return "".join(answers)

  def _parse(self, lines):
    return dataset.parse_sentences(
      lines, SOURCE, word_column=self._word_column, labelled=False
    )

  def _check(self, lines):
    """Refuses a sentence that cannot be read, or differs from the first."""
    for number, text in lines:
      if isinstance(text, errors.InputError):
        raise errors.InputError(f"{SOURCE}:{number}: {text}") from text
    self._parse(lines)
    number, text = lines[0]
    width = len(dataset.columns(text))
    if not self._width and len(lines) == 1 < width:
      logging.warning(
        "%s:%d: %r counts as one word, the first of %d columns; raw sentences "
        "need --file_format=text", SOURCE, number, text, width,
      )
    self._width = self._width or width
    if width != self._width:
      raise errors.InputError(
        f"{SOURCE}:{number}: {width} columns, but the first sentence has "
        f"{self._width}; every word needs all columns"
      )


def _is_word(line):
  """Whether (number, text or InputError) is a line within a sentence."""
  _, text = line
  return isinstance(text, errors.InputError) or bool(
    dataset.columns(text) and not dataset.starts_document(text)
  )


class JsonAnswers(_Answers):
  """JSON lines, answered by the same objects with their labels.

  A line that cannot be read is answered by {"error": one sentence}; the next
  ones may be right.
  """

  def __init__(self, *, document_context: bool):
    super().__init__(document_context)
    self._document = None  # That of the last line that could be read.

  def _items(self, number, line):
    """Yields a dict, or the InputError of a bad line."""
    try:
      text = line_answers.decode(line)
      errors.require_text(text, f"line {number}")
      values = json_sentences.parse(text, f"line {number}")
    except errors.InputError as error:
      yield error, False, True
      return
    # As in a file: a document is a run of lines with one name.
    begins = values.get("document") != self._document
    self._document = values.get("document")
    yield values, begins, True

  def _answer(self, waiting, tag):
    sentences = [
      json_sentences.sentence(
        values, number, f"line {number}", scheme="none", labelled=False
      )
      for number, values in waiting
      if isinstance(values, dict)
    ]
    # Taken in turn by the lines that could be read.
    predicted = iter(tag(sentences) if sentences else [])
    answers = []
    for _, values in waiting:
      if isinstance(values, dict):
        answers.append(json_sentences.with_labels(values, next(predicted)))
      else:
        self.num_bad += 1
        answers.append(json_files.line({"error": str(values)}))
    return "".join(answers)


def answer_stream(settings, model, tokenizer, labels, streams):
  """Labels what comes on the standard input until it ends.

  Args:
    settings: run_settings.Settings of run_ner.py.
    model: taggers.TaggingModel.
    tokenizer: tokenization.FullTokenizer.
    labels: list of str, those of the model.
    streams: iterable of bytes to read, stream of text to write.

  Raises:
    InputError: there were lines that could not be read; all others are
      answered by then.
  """
  ids = tf.TensorSpec([None, None], tf.int32)
  names = ("input_ids", "input_mask", "segment_ids")
  # One trace for batches of any size.
  signature = [{name: ids for name in names}]
  tagger = text_tagger.SentenceTagger(
    tf.function(
      lambda batch: model(batch), input_signature=signature, autograph=False
    ),
    tokenizer,
    labels,
    batch_size=settings.predict_batch_size,
    max_seq_length=settings.max_seq_length,
    document_context=settings.document_context,
    path=SOURCE,
  )
  context = {"document_context": settings.document_context}
  if settings.file_format == "jsonl":
    answers = JsonAnswers(**context)
  else:
    is_text = settings.file_format == "text"
    answers = ColumnAnswers(settings.word_column, **context, is_text=is_text)
  bad = tag_stream(
    *streams, tagger.tag, answers=answers, batch_size=_LINES_TOGETHER
  )
  line_answers.require_all_answered(bad)
