"""Classifies texts as they come, with a model that is loaded once.

A line holds one text, or, of models that are trained on them, several with a
tab or " ||| " between them: the two texts of a pair, or a text and the endings
to choose from.
"""

import json
from collections.abc import Callable, Iterable
from typing import NamedTuple, TextIO

import numpy as np
import tensorflow as tf

from classification import (
  classifier,
  input_data,
  labelled_examples,
  prediction_files,
  tasks,
)
from common import choices, errors, line_answers
from text import input_sequences

FORMATS = choices.ANSWER_FORMATS
# Lines that wait together are sorted by length: this many batches of them.
_BATCHES_SORTED_TOGETHER = 50


class Prediction(NamedTuple):
  """What a model says of one text.

  Attributes:
    label: the class; a tuple of classes where there may be several at once; a
      number for regression.
    scores: dict from each class to its probability; {} for regression.
  """

  label: object
  scores: dict


def make_predictions(kind, labels, outputs):
  """Returns the Predictions of scores [n, L], a list."""
  if kind == labelled_examples.CHOICE:
    labels = [str(number) for number in range(outputs.shape[1])]
  found = prediction_files.predicted_labels(kind, outputs, labels)
  if kind == labelled_examples.REGRESSION:
    return [Prediction(score, {}) for score in found]
  return [
    Prediction(label, dict(zip(labels, row.tolist())))
    for label, row in zip(found, outputs)
  ]


class TextClassifier:
  """Answers texts of any size with the logits of their sequences."""

  def __init__(self, logits: Callable, options: input_data.InputOptions):
    """Takes the network.

    Args:
      logits: function of a dict of input_ids, input_mask, segment_ids, int32
        [B, T], see `logits_of`; returns [B, L].
      options: how its input is made.
    """
    self._logits, self._options = logits, options

  def predict_texts(self, texts, batch_size=None):
    """Classifies texts.

    Args:
      texts: list of tuples of str: (text,), (text, second text), or for
        multiple choice (text, ending, ending, ...).
      batch_size: compute N texts together, those of like length, and of short
        ones more (input_sequences.batch_sizes); None: all of them.

    Returns:
      list of Prediction.

    Raises:
      InputError: a tuple has more or fewer texts than the task takes.
    """
    options = self._options
    examples = [
      make_example(number, parts, options.kind, len(options.labels))
      for number, parts in enumerate(texts, 1)
    ]
    arrays, num_rows = input_data.encode(examples, options)
    lengths = arrays["input_mask"].sum(axis=1)  # [rows]
    batches = list(
      input_sequences.batches_by_length(
        lengths.tolist(), batch_size or len(lengths), options.max_seq_length
      )
    )
    outputs = []
    for places in batches:
      longest = lengths[places[0]]
      batch = {n: values[places, :longest] for n, values in arrays.items()}
      outputs.append(np.asarray(self._logits(batch)))
    # Back in the order of the texts.
    outputs = np.concatenate(outputs)[np.argsort(np.concatenate(batches))]
    logits = self._of_texts(outputs, num_rows)
    scores = classifier.scores(options.kind, logits)
    return make_predictions(options.kind, options.labels, np.asarray(scores))

  def _of_texts(self, logits, num_rows):
    """Returns the logits of texts, of those [rows, L] of their sequences."""
    if self._options.kind == labelled_examples.CHOICE:
      return logits.reshape([len(num_rows), -1])
    starts = np.cumsum(num_rows) - num_rows  # [texts]
    sums = np.add.reduceat(logits, starts)
    return sums / num_rows[:, None].astype(np.float32)


def logits_of(model: classifier.ClassifierModel) -> Callable:
  """Returns a function for TextClassifier, compiled once for all shapes."""
  ids = tf.TensorSpec([None, None], tf.int32)
  names = ("input_ids", "input_mask", "segment_ids")

  @tf.function(input_signature=[{name: ids for name in names}], autograph=False)
  def logits(batch):
    # As examples of one sequence each.
    return model({name: values[:, None] for name, values in batch.items()})

  return logits


def make_example(number, parts, kind, num_classes):
  """Returns the labelled_examples.Example of a tuple of texts.

  Raises:
    InputError: there are too many or too few, or one is empty.
  """
  for part in parts:
    errors.require_text(part, repr(parts)[:100])
  if kind != labelled_examples.CHOICE:
    if len(parts) > 2:
      raise errors.InputError(
        f"expected one text or two with a tab between them, and these are "
        f"{len(parts)}: {parts!r}"
      )
    return labelled_examples.Example(str(number), *parts)
  text, *endings = parts
  if len(endings) != num_classes:
    raise errors.InputError(
      f"expected a text and {num_classes} endings with tabs between them, and "
      f"these are {len(endings)} endings: {parts!r:.100}"
    )
  return labelled_examples.Example(str(number), text, endings=tuple(endings))


def greeting(task: tasks.ClassifierTask) -> str:
  """Returns what to type and how it is answered, a line of text."""
  typed = {
    False: "a text", True: "two texts with a tab between them",
    None: "a text, or two with a tab between them",
  }[task.text_pairs]
  if task.kind == labelled_examples.CHOICE:
    typed = f"a text and {len(task.labels)} endings with tabs between them"
  answered = "a number"
  if task.labels:
    answered = f"the class and the scores of {', '.join(task.labels)}"
  return f"Type {typed}; the answer is {answered}. End with Ctrl-D."


def split_texts(line: str, text_pairs: bool | None = None) -> tuple:
  """Returns the texts of a line.

  Args:
    text_pairs: whether the model was trained on several texts an example;
      False: the line is one text, whatever is in it. None: not known, then a
      separator says so.
  """
  if text_pairs is False:
    return (line.strip(),)
  separator = "\t" if "\t" in line else input_sequences.TEXT_SEPARATOR
  return tuple(part.strip() for part in line.split(separator))


def format_prediction(prediction: Prediction, output_format: str) -> str:
  """Returns a line: JSON, or the label and the score of each class in TSV."""
  label, scores = prediction
  if output_format == "json":
    values = {"label": label, **({"scores": scores} if scores else {})}
    return json.dumps(values, ensure_ascii=False)
  if isinstance(label, tuple):
    label = ",".join(label)
  shown = [f"{score:.6g}" for score in scores.values()]
  if isinstance(label, float):
    label = f"{label:.6g}"
  return "\t".join([str(label), *shown])


def format_error(error: errors.InputError, output_format: str) -> str:
  """Returns the line in place of an answer: what is wrong."""
  # A message of several lines must not become several answers.
  sentence = " ".join(str(error).split())
  if output_format == "json":
    return json.dumps({"error": sentence}, ensure_ascii=False)
  return f"error\t{sentence}"


def answer_lines(
  predict_texts: Callable[[list, int], list[Prediction]],
  source: Iterable[bytes],
  target: TextIO,
  *,
  output_format: str,
  batch_size: int,
  text_pairs: bool | None = None,
) -> int:
  """Classifies each line of a stream, see line_answers.answer_lines.

  Lines that wait, as those of a file do, are read ahead and answered some
  batches together: memory holds no more than these, however many there are.

  Args:
    predict_texts: function of a list of tuples of texts, and of batch_size.
    output_format: one of FORMATS.
    batch_size: lines in a batch; of short ones more.
    text_pairs: as of `split_texts`.

  Returns:
    How many lines were answered by an error.
  """

  def answer(lines):
    texts = [split_texts(line, text_pairs) for _, line in lines]
    predictions = predict_texts(texts, batch_size)
    return [format_prediction(found, output_format) for found in predictions]

  return line_answers.answer_lines(
    source, target, answer,
    batch_size=batch_size * _BATCHES_SORTED_TOGETHER,
    format_error=lambda number, error: format_error(error, output_format),
  )
