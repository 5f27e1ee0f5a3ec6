"""The steps of run_classifier.py: read data, train, evaluate, predict.

  eval_results.txt         name = value lines, in the original's format
  eval_report.txt          scores of each class, and the confusion matrix
  eval_predictions.tsv     correct labels and predictions

`answers` writes the other prediction files. Letters: B batch, n or N examples,
L classes, T tokens, D width of a vector.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

import configuration
import heads
from checkpoints import weight_files
from classification import (
  answers,
  bi_encoder,
  class_weights,
  data,
  glue,
  inputs,
  model,
  points,
  ranking,
  reranker,
  scores,
  sequences,
)
from classification import task as tasks
from common import errors, file_io, program, result_lines, run_settings
from records import pipeline
from running import reports, trackers
from training import distribution, evaluation_loop, harness, run_setup


class Evaluator:
  """Computes a model's outputs and scores; compiles the model only once."""

  def __init__(self, network: model.Network, strategy: tf.distribute.Strategy):
    self._network, self._strategy = network, strategy
    self.reported: dict = {}  # Fields of reports.Report, from `evaluate`.
    trim = not distribution.is_tpu(strategy)

    def outputs(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
      if trim:
        batch = pipeline.trim_to_longest(batch)
      # [B, L]
      return {"logits": network(batch), "label_ids": batch["label_ids"]}

    self._predictor = evaluation_loop.Predictor(strategy, outputs)

  def outputs(
    self, examples: inputs.ClassifierData, batch_size: int
  ) -> Iterator[dict]:
    """Yields the results of the network's `evaluated`, arrays [n, ...].

    Each item covers the next n = answers.SCORED_TOGETHER examples; the last may
    cover fewer. `batch_size` is for all replicas together; batches of short
    examples are larger.
    """
    for outputs in self._predictor.windows(
      pipeline.sequential_records([examples.records]),
      examples.features,
      batch_size=batch_size,
      window=answers.SCORED_TOGETHER,
    ):
      yield self._network.evaluated(**outputs)

  def evaluate(
    self,
    task: tasks.ClassifierTask,
    records: dict[str, inputs.ClassifierData],
    *,
    batch_size: int,
    report_dir: str | None = None,
  ) -> dict[str, float]:
    """Returns {"eval_accuracy": ..., "eval_mismatched_accuracy": ..., ...}.

    Args:
      records: {"eval": ..., "eval_mismatched": ...}; other names are skipped.
      report_dir: folder for the reports; None: no reports are written.
    """
    values: dict[str, float] = {}
    for name in _scored(records):
      parts = list(self.outputs(records[name], batch_size))
      outputs = {
        key: np.concatenate([part[key] for part in parts]) for key in parts[0]
      }
      losses = self._network.evaluation_losses(outputs, batch_size)
      results = scores.Results(
        task.task_kind,
        task.labels,
        outputs["label_ids"],
        outputs["scores"],
        task.positive,
        outputs.get("vectors"),
      )
      if task.task_kind in data.OF_RANKS:
        queries = data.query_numbers(task.splits[name])
        results = results._replace(queries=queries)
      metrics = scores.compute(results, task.metrics)
      # This is the mean over examples; `loss` below is the mean over batches.
      metrics["loss"] = np.mean(losses, dtype=np.float64)
      values |= {f"{name}_{key}": value for key, value in metrics.items()}
      if name == "eval":
        values["loss"] = scores.mean_over_batches(losses, batch_size)
      if report_dir and distribution.is_chief(self._strategy):
        text = _write_report(report_dir, name, task.splits[name], results)
        if name == "eval":
          self.reported = {
            "details": text,
            "mistakes": _mistakes(results, task.splits[name]),
          }
          if task.task_kind == data.SINGLE:
            self.reported |= {
              # The page shows the matrix, which follows, in colors.
              "details": text.partition("\n\n")[0],
              "confusions": results.confusions(),
              "probabilities": results.scores,
              "gold": np.asarray(results.gold),
            }
    return values


def _scored(names: Iterable[str]) -> list[str]:
  """Returns the names of evaluation data, which start with "eval"."""
  return [name for name in names if name.startswith("eval")]


def _mistakes(results: scores.Results, examples: list) -> list[reports.Mistake]:
  """Returns the worst predictions as reports.Mistakes, the worst first."""
  if results.task_kind in data.OF_RANKS:
    mistakes = sorted(ranking.mistakes(results, examples), reverse=True)
    return [reports.Mistake(*each) for each in mistakes]
  sizes = scores.error_sizes(results)
  worst = [n for n in np.argsort(-sizes)[: reports.NUM_MISTAKES] if sizes[n]]
  rows = answers.rows(
    results, [examples[n] for n in worst], results.scores[worst], gold=True
  )
  return [
    reports.Mistake(
      sizes[n],
      " ‖ ".join(
        cell
        for column, cell in row.items()
        if column in ("text", "text_b") or column.startswith("ending_")
      ),
      row["gold"],
      row["predicted"],
      results.scores[n].max() if results.task_kind == data.SINGLE else None,
    )
    for n, row in zip(worst, rows)
  ]


def _write_report(
  folder: str, name: str, examples: list, results: scores.Results
) -> str:
  """Writes <name>_report.txt and <name>_predictions.tsv; returns the report."""
  path = os.path.join(folder, f"{name}_report.txt")
  report = scores.report(results)
  file_io.write_text(path, report)
  logging.info("%s:\n%s", path, report)
  path = os.path.join(folder, f"{name}_predictions.tsv")
  with answers.open_table(path) as write:
    write(answers.rows(results, examples, results.scores, gold=True))
  logging.info("predictions and correct labels are in %s", path)
  return report


def result_names(task: tasks.ClassifierTask, names: Iterable[str]) -> list[str]:
  """Returns the keys of Evaluator.evaluate's result."""
  scored = _scored(names)
  values = [
    f"{name}_{metric}" for name in scored for metric in (*task.metrics, "loss")
  ]
  return [*values, "loss"] if "eval" in scored else values


def write_results(
  path: str, results: dict[str, float], task: tasks.ClassifierTask
) -> None:
  """Writes `name = value` lines, sorted by name, in the original's format.

  It also logs them, with the class to which F1, precision and recall refer.
  """
  shown = {
    # As in the original: metrics are printed in float32.
    name: value if name == "global_step" else np.float32(value)
    for name, value in results.items()
  }
  notes = {
    name: f"of class {task.labels[task.positive]!r}"
    for name in results
    if name.split("_")[-1] in scores.OF_POSITIVE_CLASS
  }
  result_lines.write(path, shown, notes)


class RunInputs(NamedTuple):
  """The objects that all models of a run share (--seeds trains several).

  Attributes:
    config: the model configuration, with the task's classes.
    task: the task with its examples.
    options: the options that determine the records.
    class_weights: one weight per class; None: all are 1.
    records: {name: inputs.ClassifierData} for the names in `task.splits`.
  """

  config: configuration.BertConfig
  task: tasks.ClassifierTask
  options: sequences.InputOptions
  class_weights: list[float] | None
  strategy: tf.distribute.Strategy
  records: dict


def prepare(
  settings: run_settings.Settings,
  config: configuration.BertConfig,
  strategy: tf.distribute.Strategy,
) -> RunInputs:
  """Reads the data and writes the records; `config` is the initial model's."""
  task = tasks.read_task(settings, config)
  bi_encoder.check(settings, config, task.task_kind)
  options = sequences.options_of(settings, task.task_kind, task.labels)
  if task.text_pairs and task.task_kind not in data.OF_VECTORS:
    config.check_pairs(sequences.tokenizer_of(options).specials.segment_b)
  weights = None
  if settings.class_weights:
    weights = class_weights.parse(
      settings.class_weights, task.splits["train"], task.labels, task.task_kind
    )
  config = tasks.trained_config(config, task)
  # Claim the folder before writing the first file.
  run_setup.claim_folder(settings, task.name, config, strategy)
  tasks.log_examples(task, weights)
  splits = dict(task.splits)
  if task.task_kind in data.OF_RANKS:
    ranking.prepare(
      splits, settings.ranking_loss, **settings.pick("group_size seed")
    )
  records = inputs.prepare_all(settings.output_dir, splits, options)
  return RunInputs(config, task, options, weights, strategy, records)


def make_network(
  settings: run_settings.Settings,
  config: configuration.BertConfig,
  task: tasks.ClassifierTask,
  **model_options,
) -> model.Network:
  """Creates the model of a task, with its variables.

  Raises InputError: see bi_encoder.BiEncoder.
  """
  if task.task_kind in data.OF_VECTORS:
    is_scored = task.task_kind == data.SIMILARITY
    network = bi_encoder.BiEncoder if is_scored else bi_encoder.Retriever
    for file, _ in points.losses_of(settings, task.task_kind):
      if hasattr(file, "network"):
        network = file.network(network)
    return network(settings, config, task, **model_options)
  outputs = model.num_outputs(task.task_kind, task.labels)
  model_options["is_frozen"] = settings.freeze_encoder
  if task.task_kind in data.OF_RANKS:
    return reranker.Reranker(
      config,
      task.task_kind,
      outputs,
      loss=settings.ranking_loss,
      **model_options,
    )
  return model.ClassifierModel(config, task.task_kind, outputs, **model_options)


def _require_pooler(path: str) -> None:
  """Raises InputError if a checkpoint has no pooler that can be frozen."""
  if "bert/pooler/dense/kernel" not in weight_files.open_reader(path).shapes:
    raise errors.InputError(
      f"{path} has no pooler (bert/pooler/dense), so --freeze_pooler would "
      "freeze random weights: leave out --freeze_pooler, which trains a new "
      "pooler with the classifier"
    )


class ModelRun:
  """A model with its folder, and the steps of run_classifier.py."""

  def __init__(self, settings: run_settings.Settings, run: RunInputs):
    """Creates the model, and finds its initial weights.

    The --output_dir of `settings` is the folder of this model.
    """
    self._settings, self._run, self._records = settings, run, run.records
    # Check the folder first, because creating the model takes longer.
    self._start = run_setup.open_run(
      settings, run.task.name, run.config, run.strategy
    )
    self._step = self._start.step
    if settings.do_train and settings.freeze_pooler and self._start.path:
      _require_pooler(self._start.path)
    loads_weights = weight_files.without_random_init(self._start.path)
    with run.strategy.scope(), loads_weights:
      self._model = make_network(
        settings,
        run.config,
        run.task,
        **run_setup.model_options(settings, run.strategy),
      )
    self._model.train_with(points.losses_of(settings, run.task.task_kind))
    # Evaluations during and after training share its compiled function.
    self._evaluator = Evaluator(self._model, run.strategy)

  @property
  def variables(self) -> tuple[tf.Variable, ...]:
    """All variables of the encoder and the head."""
    return self._model.variables

  @property
  def export_head(self) -> dict:
    """The arguments with which this model is exported, such as the head."""
    task = self._run.task
    if task.task_kind in data.OF_VECTORS:
      head = points.head_of(self._settings, task.task_kind)
      sparse = "sparse_pooling sparse_activation"
      names = sparse if head == "sparse" else tasks.VECTOR_FLAGS
      return {"head": head, **self._settings.pick(names)}
    # A single output (a number or an ending's score) has no class name.
    single = model.num_outputs(task.task_kind, task.labels) == 1
    return {"head": "classification", "labels": () if single else task.labels}

  def load_weights(self) -> None:
    """Loads the weights, for evaluation or prediction without training."""
    assert self._start.path  # Without training, a random start is refused.
    weight_files.load(
      self._model.variables,
      self._start.path,
      allowed_missing=self._model.allowed_missing,
    )

  def train(self) -> None:
    """Trains from the initial weights, and writes final_model."""
    settings, run = self._settings, self._run
    self._step = harness.train(
      settings,
      harness.TrainingSpec(
        self._model,
        run.config,
        run.strategy,
        model.objective(self._model, run.class_weights),
        settings.output_dir,
        length=harness.training_length(
          settings, run.records["train"].num_records
        ),
        # To freeze the pooler, the checkpoint must contain it.
        new_variables=[
          name
          for name in model.NEW_VARIABLES
          if name not in heads.POOLER or not settings.freeze_pooler
        ],
        data=self._training_data,
        evaluate=self._scores,
        result_names=result_names(run.task, run.records),
        write=self._write_model,
      ),
      self._start,
    )
    if distribution.is_chief(run.strategy):
      self._log_next_commands()

  def _training_data(self) -> harness.TrainingData:
    settings, run = self._settings, self._run
    # A frozen encoder's outputs are the same in all epochs and for all seeds.
    # Store them, except for data to predict, which are read only once. The
    # loop calls this method only after it has loaded the weights.
    if settings.freeze_encoder:
      self._records = {
        name: examples
        if name.startswith("predict")
        else inputs.store_states(
          self._model,
          examples,
          strategy=run.strategy,
          batch_size=settings.eval_batch_size,
        )
        for name, examples in run.records.items()
      }
    trim = run_setup.shapes_may_vary(settings, run.strategy)
    return inputs.training_data(self._records["train"], trim)

  def _log_next_commands(self) -> None:
    """Logs the commands that serve and export the trained model."""
    folder = os.path.join(self._settings.output_dir, "final_model")
    export = os.path.join(self._settings.output_dir, "saved_model")
    logging.info(
      "%s",
      program.hint(
        f"to serve predictions over HTTP: python serve.py --model_dir={folder}"
      ),
    )
    logging.info(
      "%s",
      program.hint(
        "to export it for serving: python export_saved_model.py "
        f"--head={self.export_head['head']} --model_dir={folder} "
        f"--export_dir={export}"
      ),
    )

  def _write_model(self, folder: str, step: int) -> None:
    """Writes the current weights as a model folder."""
    settings, run = self._settings, self._run
    # The folder stores the column flags, so they are not needed to predict.
    columns = (
      {}
      if run.task.official
      else {
        name: value
        for name, value in settings.pick(tasks.COLUMN_FLAGS).items()
        if value is not None
      }
    )
    self._model.write(
      folder,
      settings,
      run.config,
      {
        **settings.pick(tasks.INPUT_FLAGS),
        **columns,
        tasks.TEXT_PAIRS: run.task.text_pairs,
      },
      step,
    )

  def _scores(self, report_dir: str | None = None) -> dict[str, float]:
    return self._evaluator.evaluate(
      self._run.task,
      self._records,
      batch_size=self._settings.eval_batch_size,
      report_dir=report_dir,
    )

  def evaluate(self) -> dict[str, float]:
    """Writes and returns the results of Evaluator.evaluate."""
    folder = self._settings.output_dir
    # All processes compute, but only the chief writes.
    results = self._scores(folder)
    if distribution.is_chief(self._run.strategy):
      trackers.write_evaluation(folder, self._step, results)
      write_results(
        os.path.join(folder, "eval_results.txt"),
        {"global_step": self._step, **results},
        self._run.task,
      )
    return results

  def write_report(self, results: dict) -> None:
    """Writes the report page and the model card; see reports."""
    task = self._run.task
    if distribution.is_chief(self._run.strategy):
      reports.write_all(
        self._settings,
        reports.Report(
          "sentence-similarity"
          if task.task_kind in data.OF_VECTORS
          else "text-ranking"
          if task.task_kind in data.OF_RANKS
          else "text-classification",
          results,
          labels=task.labels,
          text_pairs=task.text_pairs,
          **self._evaluator.reported,
        ),
      )

  def write_predictions(self, name: str, network: Callable | None) -> None:
    """Writes the predictions for the examples of a split.

    Args:
      name: key of `task.splits` that starts with "predict".
      network: function of input_ids, input_mask and segment_ids, int32 arrays
        [B, T]; returns a dict with logits [B, L], or an embedding [B, D]. None:
        the model of this run.
    """
    settings, run = self._settings, self._run
    parts = self._scores_of(name, network)
    if not distribution.is_chief(run.strategy):
      for _ in parts:  # The chief's computation needs all processes' devices.
        pass
      return
    official = settings.glue_submission_dir and run.task.official
    # Only a submission needs all labels; official test sets fit in memory.
    labels: list | None = [] if official else None
    answers.write_predictions(
      settings.output_dir,
      name.removeprefix("predict"),
      run.options,
      run.task.splits[name],
      parts,
      predicted=labels,
    )
    if official and labels is not None:
      split = glue.splits(official, "predict")[name != "predict"]
      glue.write_submission(
        settings.glue_submission_dir, official, split, labels
      )

  def _scores_of(
    self, name: str, network: Callable | None
  ) -> Iterator[np.ndarray]:
    """Returns an iterator of the examples' scores, float32 [n, L], in order."""
    run, size = self._run, self._settings.predict_batch_size
    if not network:
      outputs = self._evaluator.outputs(run.records[name], size)
      return (part["scores"] for part in outputs)
    is_vector = run.task.task_kind in data.OF_VECTORS
    output = "embedding" if is_vector else "logits"
    return answers.score_blocks(
      lambda batch: network(**batch)[output],
      run.options,
      run.task.splits[name],
      size,
    )
