"""Classifies streams of lines and files of examples.

A line contains one text, or several texts separated by tabs or " ||| ": the two
texts of a pair, or a text and the endings to choose from.

  test_results.tsv         as in the original: a probability for each class
  predictions.tsv          names, probabilities and inputs:

    id      label  probability  bad   good  text
    test-1  good   0.97         0.03  0.97  A warm film.

A cell with a tab, a quote or a newline is quoted as in CSV, so that a reader
gets the exact id or text. Letters: B batch, T tokens, L labels.
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

# Number of batches of waiting lines to sort by length.
_BATCHES_SORTED_TOGETHER = 50
# Number of examples to sort by length; their scores are in memory.
SCORED_TOGETHER = 1 << 12
# Names of columns that a class must not use.
_COLUMNS = (
  "id", "label", "labels", "gold", "predicted", "probability", "text", "text_b"
)


# Both types have the kind of a task and its labels.
Task = sequences.InputOptions | scores.Results


# Texts.


class Prediction(NamedTuple):
  """The prediction for one text.

  Attributes:
    label: the class; a tuple of classes for multi_label; a number for
      regression; or the cosine for a pair of vectors.
    scores: {class: probability}; {} for numbers.
  """

  label: object
  scores: dict


def predict_texts(
  logits: Callable, options: sequences.InputOptions, texts: list[tuple],
  batch_size: int | None = None,
) -> list[Prediction]:
  """Classifies texts of any length.

  Args:
    logits, batch_size: see `scores_of`.
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
  """Returns the scores for `predicted_labels`, float32 [n, L].

  Args:
    logits: function of a dict of input_ids, input_mask, segment_ids, int32
      [B, T]; returns [B, L], or vectors of texts [B, D].
    batch_size: number of texts of similar length in a batch; batches of short
      texts have more (input_sequences.batch_sizes). None: one batch.
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
  # Restore the order of the examples: [rows, L].
  outputs = np.concatenate(batch_outputs)[np.argsort(np.concatenate(batches))]
  if options.task_kind in data.OF_VECTORS:
    outputs = outputs.reshape([len(examples), 2, -1])
  elif options.task_kind == data.CHOICE:
    outputs = outputs.reshape([len(examples), -1])
  else:  # Compute the mean over a text's windows.
    sums = np.add.reduceat(outputs, np.cumsum(num_rows) - num_rows)
    outputs = sums / num_rows[:, None].astype(np.float32)
  return scores.of_logits(options.task_kind, outputs)


def score_blocks(
  logits: Callable, options: sequences.InputOptions,
  examples: Iterable[data.Example], batch_size: int,
) -> Iterator[np.ndarray]:
  """Yields the result of `scores_of` for each block of examples, in order."""
  rest = iter(examples)
  while block := list(itertools.islice(rest, SCORED_TOGETHER)):
    yield scores_of(logits, options, block, batch_size)


def _example(number, parts, options):
  """Returns the data.Example for a tuple of texts."""
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
  """Returns a line that describes the input to type and the answer."""
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

  `text_pairs` tells whether the model was trained on several texts per example.
  With False, the whole line is one text. With None, separators are optional.
  """
  if text_pairs is False:
    return (line.strip(),)
  separator = "\t" if "\t" in line else input_sequences.TEXT_SEPARATOR
  return tuple(part.strip() for part in line.split(separator))


def format_prediction(prediction: Prediction, output_format: str) -> str:
  """Returns a line of JSON, or of TSV with the label and all class scores."""
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

  It reads waiting lines, such as the lines of a file, ahead, and answers some
  batches at a time, which limits the memory for any number of lines. It returns
  the number of lines with an error. `predict` takes a list of tuples of texts,
  and batch_size.
  """

  def answer(lines):
    texts = [split_texts(line, text_pairs) for _, line in lines]
    return [
      format_prediction(prediction, output_format)
      for prediction in predict(texts, batch_size)
    ]

  def format_error(number, error):
    # An answer is one line, but a message may have several.
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
    logits, options: see `predict_texts`.
    settings: `interactive`, `answer_format` and `predict_batch_size`.
    text_pairs: see `split_texts`.

  Raises:
    InputError: lines were unreadable in a run that is not interactive; all
      other lines have answers.
  """
  if settings.interactive or sys.stdin.isatty():
    # Print to standard error, because a pipe may read the answers.
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
  """Returns the predictions in the form of data.Example.label.

  `outputs` are probabilities [n, L], or numbers [n, 1]. On ties the first class
  wins.
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
  """Yields each example's row: {column: str}.

  With `gold`, the correct label precedes the prediction. For `outputs` see
  `predicted_labels`. Rows of a reranker also have the rank for their query.
  """
  # str() of a float32 has the fewest digits that identify the number.
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
  """Provides a function that writes rows; the first row's keys are the header.

  The file is replaced when the block ends without an error.
  """
  columns: list[str] = []
  with file_io.open_for_writing(path) as stream:

    def write_line(cells):
      line = "\t".join(map(_quoted, cells)) + "\n"
      # JSON may contain a lone surrogate, which is written as its escape.
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
  """Writes the two prediction files while `parts` are computed.

  A file is replaced only when it is complete. `parts` are scores, float32
  [n, L]; `suffix` is a part of the files' names, such as "_mismatched";
  predicted labels are appended to `predicted`.
  """
  named_path = os.path.join(folder, f"predictions{suffix}.tsv")
  path = os.path.join(folder, f"test_results{suffix}.tsv")
  examples = iter(examples)
  if task.task_kind in data.OF_RANKS:
    # The rows of a query may be anywhere, so ranks need all rows.
    parts = [np.concatenate(list(parts))]
  with (
    open_table(named_path) as write, file_io.open_for_writing(path) as unnamed,
  ):
    for outputs in parts:
      # As in the original: no header, and numbers in NumPy's float32 format.
      lines = ["\t".join(map(str, row)) + "\n" for row in outputs]
      unnamed.write("".join(lines).encode("utf-8"))
      block = list(itertools.islice(examples, len(outputs)))
      write(rows(task, block, outputs))
      if predicted is not None:
        predicted += predicted_labels(task, outputs)
  logging.info("predictions with names are in %s", named_path)
  logging.info("the scores alone, as the original has them, are in %s", path)
