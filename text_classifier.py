"""Classifies texts as they come, with a model that is loaded once.

A line holds one text, or several with a tab or " ||| " between them: the two
texts of a pair, or a text and the endings to choose from.
"""

import json
import queue
import threading
from typing import NamedTuple

import numpy as np
import tensorflow as tf

import classifier_examples
import classifier_input
import classifier_model
import errors
import prediction_files
import text_batches

FORMATS = ("tsv", "json")


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
  if kind == classifier_examples.REGRESSION:
    return [Prediction(float(row[0]), {}) for row in outputs]
  if kind == classifier_examples.CHOICE:
    labels = [str(number) for number in range(outputs.shape[1])]
  found = prediction_files.predicted_labels(kind, outputs, labels)
  return [
    Prediction(label, dict(zip(labels, row.tolist())))
    for label, row in zip(found, outputs)
  ]


class TextClassifier:
  """A model, compiled once for batches and texts of any size."""

  def __init__(self, model, options):
    """Takes a classifier_model.ClassifierModel and its input's Options."""
    self._options = options
    ids = tf.TensorSpec([None, None, None], tf.int32)
    names = ("input_ids", "input_mask", "segment_ids")

    @tf.function(input_signature=[{name: ids for name in names}])
    def compute(batch):
      logits = model(classifier_input.trimmed(batch))
      return classifier_model.scores(model.kind, logits)

    self._compute = compute

  def predict_texts(self, texts):
    """Classifies texts.

    Args:
      texts: list of tuples of str: (text,), (text, second text), or for
        multiple choice (text, ending, ending, ...).

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
    arrays, num_rows = classifier_input.encode(examples, options)
    present = np.arange(num_rows.max()) < num_rows[:, None]
    batch = {}
    for name, rows in arrays.items():
      batch[name] = np.zeros([*present.shape, rows.shape[1]], np.int32)
      batch[name][present] = rows
    outputs = self._compute(batch).numpy()
    return make_predictions(options.kind, options.labels, outputs)


def make_example(number, parts, kind, num_classes):
  """Returns the classifier_examples.Example of a tuple of texts.

  Raises:
    InputError: there are too many or too few.
  """
  if kind != classifier_examples.CHOICE:
    if len(parts) > 2:
      raise errors.InputError(
        f"expected one text or two with a tab between them, and these are "
        f"{len(parts)}: {parts!r}"
      )
    return classifier_examples.Example(str(number), *parts)
  text, *endings = parts
  if len(endings) != num_classes:
    raise errors.InputError(
      f"expected a text and {num_classes} endings with tabs between them, and "
      f"these are {len(endings)} endings: {parts!r}"
    )
  return classifier_examples.Example(str(number), text, endings=tuple(endings))


def split_texts(line):
  """Returns the texts of a line, a tuple of str."""
  separator = "\t" if "\t" in line else text_batches.SEPARATOR
  return tuple(part.strip() for part in line.split(separator))


def format_prediction(prediction, output_format):
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
  return "\t".join([label, *shown])


def answer_lines(predict_texts, source, target, *, output_format, batch_size):
  """Reads lines and writes one for each at once, in order.

  Lines that are there already when the model is free are computed together.
  An empty line is answered by an empty line.

  Args:
    predict_texts: function of a list of tuples of texts.
    source: stream of bytes.
    target: stream of text; flushed after every answer.
    output_format: one of FORMATS.
    batch_size: at most so many lines together.

  Raises:
    InputError: a line is not UTF-8 or has too many texts; it is named.
  """
  for lines in _batches(source, batch_size):
    texts = {}
    for number, line in lines:
      where = f"standard input:{number}"
      try:
        line = line.decode("utf-8").rstrip("\r\n")
      except UnicodeDecodeError as error:
        raise errors.InputError(
          f"{where}: not UTF-8 (byte {error.start} of the line); send UTF-8"
        ) from error
      if line.strip():
        texts[number] = split_texts(line)
    try:
      found = predict_texts(list(texts.values())) if texts else []
    except errors.InputError as error:
      first, last = lines[0][0], lines[-1][0]
      raise errors.InputError(
        f"standard input:{first}-{last}: {error}"
      ) from error
    answers = dict(zip(texts, found))
    for number, _ in lines:
      if number in answers:
        target.write(format_prediction(answers[number], output_format))
      target.write("\n")
    target.flush()


def _batches(source, batch_size):
  """Yields lists of (number, line): what has come, never waiting for more."""
  waiting = queue.Queue(maxsize=4 * batch_size)

  def read():
    for numbered in enumerate(source, 1):
      waiting.put(numbered)
    waiting.put(None)

  threading.Thread(target=read, daemon=True).start()
  while (first := waiting.get()) is not None:
    lines = [first]
    while len(lines) < batch_size and not waiting.empty():
      following = waiting.get()
      if following is None:
        yield lines
        return
      lines.append(following)
    yield lines
