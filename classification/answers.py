"""Answers a classifier's texts: streams of lines, and files of predictions.

A line contains one text, or, for models that are trained on several, texts
with a tab or " ||| " between them: the two texts of a pair, or a text and the
endings to choose from.

  test_results.tsv         the original's: a probability for each class
  predictions.tsv          names, probabilities and inputs:

    id      label  probability  bad   good  text
    test-1  good   0.97         0.03  0.97  A warm film.

A cell with a tab, a quote or a line end is quoted as in CSV, so that any id or
text can be read back. Letters: B batch, T tokens,
L labels.
"""

import contextlib
import functools
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TextIO

import numpy as np
from absl import logging

from classification import data, scores, sequences
from common import errors, file_io, line_answers
from text import input_sequences

# This many batches of waiting lines are sorted by length together.
_BATCHES_SORTED_TOGETHER = 50
# This many examples are sorted by length together; memory holds their scores.
SCORED_TOGETHER = 1 << 12
# Names that a class's column must not have.
_COLUMNS = (
  "id", "label", "labels", "gold", "predicted", "probability", "text", "text_b"
)


# The kind of a task and its labels are read from either.
Task = sequences.InputOptions | scores.Results


# Texts.


class Prediction(NamedTuple):
  """The prediction for one text.

  Attributes:
    label: the class; a tuple of classes if several are possible at once; a
      number for regression, and the cosine for a pair of vectors.
    scores: dict from each class to its probability; {} for numbers.
  """

  label: object
  scores: dict


def predict_texts(
  logits: Callable, options: sequences.InputOptions, texts: list[tuple],
  batch_size: int | None = None,
) -> list[Prediction]:
  """Classifies texts of any size.

  Args:
    logits, batch_size: as in `scores_of`.
    texts: tuples of str: (text,), (text, second text), or for multiple choice
      (text, ending, ending, ...).
  """
  outputs = scores_of(logits, options, [
    _example(number, parts, options) for number, parts in enumerate(texts, 1)
  ], batch_size)
  return [
    Prediction(label, dict(zip(options.labels, row.tolist())))
    for label, row in zip(predicted_labels(options, outputs), outputs)
  ]


def scores_of(
  logits: Callable, options: sequences.InputOptions,
  examples: list[data.Example], batch_size: int | None = None,
) -> np.ndarray:
  """Returns the outputs that `predicted_labels` takes, float32 [n, L].

  Args:
    logits: function of a dict of input_ids, input_mask, segment_ids, int32
      [B, T]; returns [B, L], or vectors of texts [B, D].
    batch_size: batches hold N texts of similar length, or more if they are
      short (input_sequences.batch_sizes); None: one batch.
  """
  arrays, num_rows = sequences.encode(examples, options)
  lengths = arrays["input_mask"].sum(axis=1)  # [rows]
  batches = list(input_sequences.batches_by_length(
    lengths.tolist(), batch_size or len(lengths), options.max_seq_length
  ))
  batch_outputs = []
  for places in batches:
    longest = lengths[places[0]]
    batch = {n: values[places, :longest] for n, values in arrays.items()}
    batch_outputs.append(np.asarray(logits(batch)))
  # The rows return to the order of the examples: [rows, L].
  outputs = np.concatenate(batch_outputs)[np.argsort(np.concatenate(batches))]
  if options.task_kind in data.OF_VECTORS:
    outputs = outputs.reshape([len(examples), 2, -1])
  elif options.task_kind == data.CHOICE:
    outputs = outputs.reshape([len(examples), -1])
  else:  # The mean over a text's windows.
    sums = np.add.reduceat(outputs, np.cumsum(num_rows) - num_rows)
    outputs = sums / num_rows[:, None].astype(np.float32)
  return scores.of_logits(options.task_kind, outputs)


def score_blocks(
  logits: Callable, options: sequences.InputOptions,
  examples: Iterable[data.Example], batch_size: int,
) -> Iterator[np.ndarray]:
  """Yields `scores_of` of some thousand examples at a time, in their order."""
  rest = iter(examples)
  while block := list(itertools.islice(rest, SCORED_TOGETHER)):
    yield scores_of(logits, options, block, batch_size)


def _example(number, parts, options):
  """Returns the data.Example of a tuple of texts."""
  for part in parts:
    errors.require_text(part, repr(parts)[:100])
  if options.task_kind != data.CHOICE:
    is_pair = options.task_kind in data.OF_PAIRS
    if not 1 + is_pair <= len(parts) <= 2:
      number = "two texts" if is_pair else "one text or two"
      raise errors.InputError(
        f"expected {number} with a tab between, got {parts!r}"
      )
    return data.Example(str(number), *parts)
  text, *endings = parts
  if len(endings) != len(options.labels):
    raise errors.InputError(
      f"expected a text and {len(options.labels)} endings with tabs between "
      f"them, and these are {len(endings)} endings: {parts!r:.100}"
    )
  return data.Example(str(number), text, endings=tuple(endings))


# Lines.


def greeting(options: sequences.InputOptions, text_pairs: bool | None) -> str:
  """Returns a line that says what to type and how it is answered."""
  typed = {
    False: "a text", True: "two texts with a tab between them",
    None: "a text, or two with a tab between them",
  }[text_pairs]
  if options.task_kind == data.CHOICE:
    typed = f"a text and {len(options.labels)} endings with tabs between them"
  answered = "a number"
  if options.labels:
    answered = f"the class and the scores of {', '.join(options.labels)}"
  return f"Type {typed}; the answer is {answered}. End with Ctrl-D."


def split_texts(line: str, text_pairs: bool | None = None) -> tuple:
  """Returns the texts of a line.

  `text_pairs` says whether the model was trained on several texts per example.
  False: the whole line is one text. None: a separator decides.
  """
  if text_pairs is False:
    return (line.strip(),)
  separator = "\t" if "\t" in line else input_sequences.TEXT_SEPARATOR
  return tuple(part.strip() for part in line.split(separator))


def format_prediction(prediction: Prediction, output_format: str) -> str:
  """Returns a line: JSON, or the label and the score of each class in TSV."""
  label, of_classes = prediction
  if output_format == "json":
    values = {"label": label, **({"scores": of_classes} if of_classes else {})}
    return json.dumps(values, ensure_ascii=False)
  if isinstance(label, float):
    label = f"{label:.6g}"
  shown = [f"{score:.6g}" for score in of_classes.values()]
  return "\t".join([_shown(label), *shown])


def answer_lines(
  predict: Callable[[list, int], list[Prediction]], source: Iterable[bytes],
  target: TextIO, *, output_format: str, batch_size: int,
  text_pairs: bool | None = None,
) -> int:
  """Classifies each line of a stream, see line_answers.answer_lines.

  Waiting lines, such as the lines of a file, are read ahead and answered some
  batches at a time, which limits the memory for any number of lines. Returns
  how many lines were answered by an error. `predict` is a function of a list
  of tuples of texts, and of batch_size.
  """

  def answer(lines):
    texts = [split_texts(line, text_pairs) for _, line in lines]
    return [
      format_prediction(prediction, output_format)
      for prediction in predict(texts, batch_size)
    ]

  def format_error(number, error):
    # A message of several lines must stay one answer.
    sentence = " ".join(str(error).split())
    if output_format == "json":
      return json.dumps({"error": sentence}, ensure_ascii=False)
    return f"error\t{sentence}"

  return line_answers.answer_lines(
    source, target, answer, format_error=format_error,
    batch_size=batch_size * _BATCHES_SORTED_TOGETHER,
  )


def answer_standard_input(
  logits: Callable, options: sequences.InputOptions, settings,
  text_pairs: bool | None,
) -> None:
  """Answers the lines of the standard input until it ends.

  Args:
    logits, options: as in `predict_texts`.
    settings: `interactive`, `answer_format` and `predict_batch_size`.
    text_pairs: as in `split_texts`.

  Raises:
    InputError: lines were unreadable in a run that is not interactive; all
      other lines have been answered.
  """
  if settings.interactive or sys.stdin.isatty():
    # Standard error, since the answers may be piped on.
    print(greeting(options, text_pairs), file=sys.stderr, flush=True)
  bad = answer_lines(
    functools.partial(predict_texts, logits, options),
    *line_answers.standard_streams(), output_format=settings.answer_format,
    batch_size=settings.predict_batch_size, text_pairs=text_pairs,
  )
  if not settings.interactive:
    line_answers.require_all_answered(bad)


# Files.


def predicted_labels(task: Task, outputs: np.ndarray) -> list:
  """Returns the predictions as labels of data.Example; on ties the first class.

  `outputs` are probabilities [n, L], or numbers [n, 1].
  """
  if task.task_kind in data.OF_NUMBERS:
    return outputs[:, 0].tolist()
  if task.task_kind == data.MULTI_LABEL:
    return [
      tuple(itertools.compress(task.labels, row))
      for row in outputs >= scores.THRESHOLD
    ]
  return [task.labels[number] for number in outputs.argmax(-1).tolist()]


def rows(
  task: Task, examples: list, outputs: np.ndarray, *, gold: bool = False
) -> Iterator[dict]:
  """Yields the row of each example, a dict from column to str.

  With `gold` the correct label precedes the prediction. `outputs` are as in
  `predicted_labels`. A reranker's rows have the rank for their query, too.
  """
  # str() of a float32 gives the fewest digits that read back equal.
  outputs = np.asarray(outputs, np.float32)
  answers = predicted_labels(task, outputs)
  name = "labels" if task.task_kind == data.MULTI_LABEL else "label"
  if task.task_kind in data.OF_NUMBERS:
    name, answers = "score", list(outputs[:, 0])
  ranks = [0] * len(outputs)
  if task.task_kind in data.OF_RANKS:
    queries = data.query_numbers(examples)
    ranks = scores.ranks(queries, outputs[:, 0]).tolist()
  for example, answer, row, rank in zip(
    examples, answers, outputs, ranks, strict=True
  ):
    values = {"id": example.guid}
    if gold:
      values["gold"], name = _shown(example.label), "predicted"
    values[name] = _shown(answer)
    if rank:
      values["rank"] = str(rank)
    if task.task_kind in (data.SINGLE, data.CHOICE):
      values["probability"] = str(row.max())
    for label, number in zip(task.labels, row):
      values[f"class {label}" if label in _COLUMNS else label] = str(number)
    values["text"] = example.text_a
    if example.text_b is not None:
      values["text_b"] = example.text_b
    yield values | {f"ending_{n}": e for n, e in enumerate(example.endings)}


def _shown(label):
  return ",".join(label) if isinstance(label, tuple) else str(label)


@contextlib.contextmanager
def open_table(path: str) -> Iterator[Callable[[Iterable[dict]], None]]:
  """Yields a function that writes rows; the first row's keys are the header.

  The file appears when the block ends; until then, and if the block raises,
  it stays unchanged.
  """
  columns: list[str] = []
  with file_io.open_for_writing(path) as stream:

    def write_line(cells):
      line = "\t".join(map(_quoted, cells)) + "\n"
      # Half a surrogate pair, possible in JSON, is written as its escape.
      stream.write(line.encode("utf-8", "backslashreplace"))

    def write(rows):
      for row in rows:
        if not columns:
          columns.extend(row)
          write_line(columns)
        write_line(row.get(column, "") for column in columns)

    yield write


def _quoted(cell):
  if any(mark in cell for mark in '\t\n\r"'):
    cell = '"' + cell.replace('"', '""') + '"'
  return cell


def write_predictions(
  folder: str, suffix: str, task: Task, examples: Iterable[data.Example],
  parts: Iterable[np.ndarray], *, predicted: list | None = None,
) -> None:
  """Writes the two files of predictions while they are computed.

  Each file appears when it is complete, or stays unchanged. Parts are float32
  [n, L]; `suffix` is part of the files' names, such as "_mismatched"; predicted
  labels are added to `predicted`.
  """
  named_path = os.path.join(folder, f"predictions{suffix}.tsv")
  path = os.path.join(folder, f"test_results{suffix}.tsv")
  examples = iter(examples)
  if task.task_kind in data.OF_RANKS:
    # The rows of a query may lie anywhere, so ranks need all of them.
    parts = [np.concatenate(list(parts))]
  with (
    open_table(named_path) as write, file_io.open_for_writing(path) as unnamed,
  ):
    for outputs in parts:
      # As in the original: no header, numbers as numpy shows a float32.
      lines = ["\t".join(map(str, row)) + "\n" for row in outputs]
      unnamed.write("".join(lines).encode("utf-8"))
      block = list(itertools.islice(examples, len(outputs)))
      write(rows(task, block, outputs))
      if predicted is not None:
        predicted += predicted_labels(task, outputs)
  logging.info("predictions with names are in %s", named_path)
  logging.info("the scores alone, as the original has them, are in %s", path)
