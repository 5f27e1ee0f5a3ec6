"""Labels a file with a model, and scores the labels.

  eval_results.txt    name = value lines
  eval_report.txt     precision, recall, F1 and support of each type

and test_results.txt, test_report.txt for a file to predict that has labels.
"""

import os
from typing import NamedTuple

import tensorflow as tf
from absl import logging

from common import file_io, result_lines
from records import pipeline
from tagging import dataset, input_data, scoring, taggers
from training import evaluation_loop


class Evaluation(NamedTuple):
  """Scores of predicted labels, and a table of those of each type."""

  results: dict[str, float]
  report: str


class FilePredictor:
  """Labels files with one model, which is compiled once for all of them."""

  def __init__(self, model: taggers.TaggingModel, run):
    """Takes the model.

    Args:
      model: with its weights.
      run: what has `labels`, list of str; `strategy`, the
        tf.distribute.Strategy of the model; and `trim`, whether batches may
        be cut to their longest sequence.
    """
    self._labels, self._trim = run.labels, run.trim
    trim = run.trim

    def of_batch(batch):
      length = batch["label_ids"].shape[1]
      if trim:
        batch = pipeline.trim_to_longest(batch)
      logits = model(batch)  # [B, T', L]
      # [B, T']
      predicted = tf.argmax(logits, axis=-1, output_type=tf.int32)
      # Back to one width, so that the rows of all batches stack.
      missing = length - tf.shape(predicted)[1]
      losses = taggers.word_losses(logits, batch["label_ids"])
      return {
        "predicted": tf.pad(predicted, [[0, 0], [0, missing]]),
        # A sum for each window: a mean of means would weigh short ones more.
        "loss": tf.reduce_sum(losses, axis=1),
      }

    self._predictor = evaluation_loop.Predictor(run.strategy, of_batch)

  def predict(
    self, data: input_data.TaggingData, batch_size: int
  ) -> tuple[list[list[str]], float]:
    """Returns the labels of each sentence of a file, and a word's mean loss.

    batch_size counts windows over all replicas; of short ones there are more.
    """
    lengths = [len(window.input_ids) for window in data.windows]
    outputs = self._predictor.predict(
      pipeline.sequential_records([data.records]), data.features,
      num_records=len(data.windows), batch_size=batch_size,
      lengths=lengths if self._trim else None
    )
    predicted = dataset.predicted_labels(
      data.sentences, data.windows, outputs["predicted"], self._labels
    )
    # Of the file: every word is in exactly one window.
    num_words = sum(len(sentence) for sentence in predicted)
    return predicted, outputs["loss"].sum() / num_words


def evaluate(
  data: input_data.TaggingData, predicted: list[list[str]], loss: float,
  scheme: str
) -> Evaluation:
  """Scores the predicted labels of labelled data.

  With the scheme "none" each word counts as an entity. `loss`, the mean of a
  word, goes to the results.
  """
  gold = [sentence.labels for sentence in data.sentences]
  if scheme == "none":
    counts = scoring.count_entities(gold, predicted, scoring.words)
    results = {"accuracy": scoring.accuracy(gold, predicted)}
  else:
    counts = scoring.count_entities(gold, predicted)
    results = scoring.entity_scores(gold, predicted)
  return Evaluation({"loss": loss, **results}, scoring.report(counts))


def result_names(data: input_data.TaggingData, scheme: str) -> list[str]:
  """Returns the names of the results of labelled data, before there are any."""
  gold = [sentence.labels for sentence in data.sentences]
  # The gold labels stand in for predictions. A type that would only be
  # predicted is not named: its scores are 0.
  return list(evaluate(data, gold, 0.0, scheme).results)


def write_scores(output_dir: str, name: str, found: Evaluation, **others):
  """Writes <name>_results.txt, with `others`, and <name>_report.txt."""
  path = os.path.join(output_dir, f"{name}_results.txt")
  result_lines.write(path, {**found.results, **others})
  logging.info("scores of each type:\n%s", found.report)
  path = os.path.join(output_dir, f"{name}_report.txt")
  file_io.write_text(path, found.report)


def write_predictions(
  output_dir: str, data: input_data.TaggingData, predicted: list[list[str]]
):
  """Writes a file with its predicted labels, in its own format."""
  ending = "jsonl" if data.file_format == "jsonl" else "conll"
  path = os.path.join(output_dir, f"test_predictions.{ending}")
  lines = input_data.with_predictions(data, predicted)
  file_io.write_text(path, "".join(lines))
  logging.info("predictions are in %s", path)


def comparison_table(rows: list[tuple[str, dict]]) -> str:
  """Returns a table of (features, results) pairs."""
  names = [
    name
    for name in ("precision", "recall", "f1", "accuracy", "loss")
    if name in rows[0][1]
  ]
  table = [f"{'features':24}" + "".join(f"{name:>11}" for name in names)]
  for features, results in rows:
    values = "".join(f"{results[name]:11.4f}" for name in names)
    table.append(f"{features:24}{values}")
  return "\n".join(table)
