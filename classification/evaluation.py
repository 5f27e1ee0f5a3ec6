"""What a classifier says of data: scores, and the files that hold them.

  eval_results.txt         the original's lines, name = value
  eval_report.txt          each class, and which was taken for which
  test_results.tsv         the original's: a probability for each class
  predictions.tsv          names, probabilities and inputs
  eval_predictions.tsv     the same of what is scored, next to what is right

Letters: N examples, L classes.
"""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import tensorflow as tf
from absl import logging

from classification import (
  classifier,
  input_data,
  labelled_examples,
  prediction_files,
  scoring,
  tasks,
)
from common import file_io, result_lines
from records import pipeline
from training import distribution, evaluation_loop

# Examples that are sorted by length together, and whose scores are in memory.
_WINDOW = 1 << 12


def batch_outputs(
  model: classifier.ClassifierModel, shapes_vary: bool
) -> Callable[[dict], dict]:
  """Returns a function of a batch: what a model says of its examples.

  Args:
    shapes_vary: whether what nobody reads is left out: padding that all
      sequences share, and windows that a text does not have.
  """

  def of_batch(batch):
    if shapes_vary:
      batch = pipeline.trim_to_longest(batch)
    logits = model(batch, skip_empty=shapes_vary)  # [B, L]
    return {
      "scores": classifier.scores(model.kind, logits),
      "loss": classifier.example_losses(
        model.kind, logits, batch["label_ids"]
      ),
      "label_ids": batch["label_ids"],
    }

  return of_batch


class Evaluator:
  """A model's outputs and scores; what computes them is compiled once."""

  def __init__(
    self, model: classifier.ClassifierModel, strategy: tf.distribute.Strategy
  ):
    self._strategy = strategy
    self._predictor = evaluation_loop.Predictor(
      strategy, batch_outputs(model, not distribution.is_tpu(strategy))
    )

  def outputs(
    self, data: input_data.ClassifierData, batch_size: int
  ) -> Iterator[dict]:
    """Yields what the model says of some thousand examples after others.

    Args:
      batch_size: examples in a batch, over all replicas; of short ones more.

    Yields:
      scores float32 [n, L], loss float32 [n], label_ids; in the order of the
      examples.
    """
    return self._predictor.windows(
      pipeline.sequential_records([data.records]),
      data.features,
      batch_size=batch_size,
      window=_WINDOW,
    )

  def evaluate(
    self,
    task: tasks.ClassifierTask,
    data: dict[str, input_data.ClassifierData],
    *,
    batch_size: int,
    report_dir: str | None = None,
  ) -> dict[str, float]:
    """Returns "eval_accuracy", "eval_mismatched_accuracy", ...

    Args:
      data: "eval", "eval_mismatched" and others, which are skipped.
      batch_size: as of `outputs`.
      report_dir: where the scores of each class are written; None: nowhere.
    """
    values = {}
    for name in data:
      # "train" and "predict" have no part in it.
      if not name.startswith("eval"):
        continue
      parts = list(self.outputs(data[name], batch_size))
      outputs = {
        key: np.concatenate([part[key] for part in parts]) for key in parts[0]
      }
      results = scoring.Results(
        kind=task.kind,
        labels=task.labels,
        gold=outputs["label_ids"],
        scores=outputs["scores"],
        positive=task.positive,
      )
      found = scoring.compute(results, task.metrics)
      # Of examples; `loss` below is the original's mean over batches.
      found["loss"] = np.mean(outputs["loss"], dtype=np.float64)
      values.update({f"{name}_{key}": value for key, value in found.items()})
      if name == "eval":
        values["loss"] = scoring.mean_over_batches(
          outputs["loss"], batch_size
        )
      if report_dir and distribution.is_chief(self._strategy):
        _write_report(report_dir, name, task, results)
    return values


def _write_report(folder, name, task, results):
  """Writes how good each class is, and what is predicted of each example."""
  path = os.path.join(folder, f"{name}_report.txt")
  report = scoring.report(results)
  file_io.write_text(path, report)
  logging.info("%s:\n%s", path, report)
  path = os.path.join(folder, f"{name}_predictions.tsv")
  with prediction_files.open_table(path) as write:
    write(prediction_files.rows(
      task.kind, task.labels, task.splits[name].examples, results.scores,
      gold=True,
    ))
  logging.info("what is predicted of each example is in %s", path)
  if task.kind == labelled_examples.SINGLE:
    found = set(results.predicted.tolist())
    if len(found) == 1 < len(set(results.gold.tolist())):
      logging.warning(
        "every prediction is %r: the model tells no class from another; try "
        "more --num_train_epochs, another --learning_rate (3e-5, say) or "
        "--class_weights=balanced", task.labels[found.pop()],
      )


def result_names(task: tasks.ClassifierTask, data: Iterable[str]) -> list[str]:
  """Returns the names of what Evaluator.evaluate gives; see there."""
  names = [
    f"{name}_{metric}"
    for name in data
    if name.startswith("eval")
    for metric in (*task.metrics, "loss")
  ]
  return [*names, "loss"] if "eval" in data else names


def write_results(
  path: str, results: dict[str, float], task: tasks.ClassifierTask
) -> None:
  """Writes `name = value` lines in the order of names, as the original does.

  The log says of which of the task's classes a metric is.
  """
  shown = {
    # As in the original: its metrics were float32, and print as such.
    name: value if name == "global_step" else np.float32(value)
    for name, value in results.items()
  }
  notes = {
    name: f"of class {task.labels[task.positive]!r}"
    for name in results
    if name.split("_")[-1] in scoring.OF_POSITIVE_CLASS
  }
  result_lines.write(path, shown, notes)


def write_scores(
  folder: str,
  name: str,
  task: tasks.ClassifierTask,
  parts: Iterable[np.ndarray],
  found: list | None = None,
) -> None:
  """Writes the two files of what is predicted, while it is computed.

  Each is there when all is written, or stays as it was.

  Args:
    name: one of task.splits, "predict" or "predict_mismatched".
    parts: float32 [n, L] each.
    found: the predicted labels are added to it; None: they are not kept.
  """
  suffix = name.removeprefix("predict")
  named_path = os.path.join(folder, f"predictions{suffix}.tsv")
  path = os.path.join(folder, f"test_results{suffix}.tsv")
  examples = iter(task.splits[name].examples)
  with (
    prediction_files.open_table(named_path) as write,
    file_io.open_for_writing(path) as unnamed,
  ):
    for scores in parts:
      # As in the original: no header, numbers as numpy shows a float32.
      lines = ["\t".join(map(str, row)) + "\n" for row in scores]
      unnamed.write("".join(lines).encode("utf-8"))
      block = list(itertools.islice(examples, len(scores)))
      write(prediction_files.rows(task.kind, task.labels, block, scores))
      if found is not None:
        found += prediction_files.predicted_labels(
          task.kind, scores, task.labels
        )
  logging.info("predictions with names are in %s", named_path)
  logging.info("the scores alone, as the original has them, are in %s", path)
