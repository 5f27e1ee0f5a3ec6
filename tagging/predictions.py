"""Labels files with a tagging model."""

import operator
import os

import tensorflow as tf
from absl import logging

from common import file_io
from records import pipeline
from running import reports
from tagging import data, inputs, windowing
from tagging import model as tagging_model
from training import evaluation_loop


class FilePredictor:
  """Labels files with a model that it compiles once for all files."""

  def __init__(
    self,
    model: tagging_model.TaggingModel,
    labels: list[str],
    *,
    strategy: tf.distribute.Strategy,
    trim: bool,
  ):
    """Takes the model; with `trim`, trims batches to their longest sequence."""
    self._labels, self._trim = labels, trim

    def predict_batch(batch: dict) -> dict:
      length = batch["label_ids"].shape[1]
      if trim:
        batch = pipeline.trim_to_longest(batch)
      logits = model(batch)  # [B, T', L]
      predicted = tf.argmax(logits, axis=-1, output_type=tf.int32)  # [B, T']
      # Equal widths allow stacking the rows of all batches.
      missing = length - tf.shape(predicted)[1]
      losses = tagging_model.word_losses(logits, batch["label_ids"])
      return {
        "predicted": tf.pad(predicted, [[0, 0], [0, missing]]),
        # A mean per window would give the words of short windows more weight.
        "loss": tf.reduce_sum(losses, axis=1),
      }

    self._predictor = evaluation_loop.Predictor(strategy, predict_batch)

  def predict(
    self, file: inputs.TaggingData, batch_size: int
  ) -> tuple[list[list[str]], float]:
    """Returns the labels of a file's sentences, and the mean loss per word.

    `batch_size` counts windows of all replicas; it may grow for short windows.
    """
    windows = file.windows
    lengths = [len(window.input_ids) for window in windows]
    outputs = self._predictor.predict(
      pipeline.sequential_records([file.records]),
      file.features,
      num_records=len(windows),
      batch_size=batch_size,
      lengths=lengths if self._trim else None,
    )
    window_labels = (
      [self._labels[row[position]] for position in window.positions]
      for window, row in zip(windows, outputs["predicted"])
    )
    count = len(file.sentences)
    predicted = windowing.of_sentences(windows, window_labels, count)
    # Exactly one window has the loss of each word.
    return predicted, outputs["loss"].sum() / sum(map(len, predicted))


def write(
  folder: str, file: inputs.TaggingData, predicted: list[list[str]], scheme: str
) -> None:
  """Writes test_predictions.jsonl or .conll: `file` with predicted labels."""
  ending = "jsonl" if file.file_format == "jsonl" else "conll"
  path = os.path.join(folder, f"test_predictions.{ending}")
  lines = data.with_predictions(file.path, file.file_format, predicted, scheme)
  file_io.write_text(path, "".join(lines))
  logging.info("predictions are in %s", path)


def mistakes(
  sentences: list[data.Sentence], predicted: list[list[str]]
) -> list[reports.Mistake]:
  """Returns a Mistake per sentence with wrong labels; its size counts them."""

  def marked(words: list[str], labels: list[str]) -> str:
    named = [f"{w}/{label}" for w, label in zip(words, labels) if label != "O"]
    return " ".join(named) or "O"

  wrong = []
  for sentence, labels in zip(sentences, predicted):
    gold, words = sentence.labels or [], sentence.words
    if size := sum(map(operator.ne, gold, labels)):
      wrong.append(
        reports.Mistake(
          size, " ".join(words), marked(words, gold), marked(words, labels)
        )
      )
  return wrong
