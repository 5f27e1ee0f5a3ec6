"""One model of a command: trained, evaluated, and used to predict.

run_classifier.py calls these steps in their order; with --seeds it makes
several models from the same data.
"""

import os
import sys
from typing import NamedTuple

import tensorflow as tf
from absl import logging

import modeling
from checkpoints import model_folder, weight_files
from classification import (
  classifier,
  distilling,
  evaluation,
  frozen_features,
  glue_submission,
  input_data,
  interactive,
  tasks,
)
from common import line_answers, program
from training import components, distillation, distribution, harness, train_log


class ClassifierRun(NamedTuple):
  """What all the models of one command share.

  Attributes:
    config: modeling.BertConfig, with the classes.
    task: tasks.ClassifierTask.
    options: input_data.InputOptions.
    class_weights: list of floats, or None.
    teacher: distillation.Teacher, or None.
    strategy: tf.distribute.Strategy.
    data: dict from "train", "eval", "predict" and more, such as
      "eval_mismatched", to input_data.ClassifierData.
    trim: whether batches may be cut to their longest sequence.
  """

  config: modeling.BertConfig
  task: tasks.ClassifierTask
  options: input_data.InputOptions
  class_weights: list
  teacher: distillation.Teacher | None
  strategy: tf.distribute.Strategy
  data: dict
  trim: bool


def input_options(settings, task):
  """Returns the input_data.InputOptions of run_settings.Settings and a task."""
  return input_data.InputOptions(
    kind=task.kind,
    labels=task.labels,
    **settings.pick(
      "vocab_file do_lower_case max_seq_length doc_stride max_windows"
    ),
  )


def _kind_of_run(task):
  """Returns what a run's folder says of its task."""
  return f"classification, {task.name}"


def _fixed(settings):
  """Returns what must not change while a run trains, by name."""
  if not settings.teacher_checkpoint:
    return {}
  names = ("distillation_temperature", "distillation_weight")
  return {name: settings.get(name) for name in names}


def check_output_dir(settings, run):
  """Claims --output_dir, if there is one, before it is written to."""
  components.claim_folder(
    settings, _kind_of_run(run.task), run.config, run.strategy,
    **_fixed(settings),
  )


class ModelRun:
  """A model with its folder; the steps of run_classifier.py."""

  def __init__(self, settings, run, output_dir):
    """Makes the model and finds out where its weights start.

    Args:
      settings: run_settings.Settings.
      run: ClassifierRun.
      output_dir: folder of this model; None where nothing is written.

    Raises:
      InputError: the folder is another run's, or nothing is trained and
        there are no weights.
    """
    self._settings = settings
    self._run = run
    self._output_dir = output_dir
    # Before the model is made, which takes longer than to refuse a folder.
    start = components.open_run(
      settings, _kind_of_run(run.task), run.config, run.strategy, output_dir,
      **_fixed(settings),
    )
    self._start = distillation.student_start(
      settings, start, run.teacher, run.config
    )
    self._step = self._start.step
    self._data = run.data
    with run.strategy.scope():
      self._model = self._make_model()
    # Made once: evaluations during training use the same compiled function.
    self._evaluator = evaluation.Evaluator(self._model, run.strategy)

  def _make_model(self):
    settings, run = self._settings, self._run
    return classifier.ClassifierModel(
      run.config,
      run.task.kind,
      classifier.num_outputs(run.task.kind, run.task.labels),
      is_frozen=settings.freeze_encoder,
      **components.model_options(settings, run.strategy),
    )

  def load_weights(self):
    """Loads the weights to evaluate or predict with."""
    weight_files.load(self._model.variables, self._start.path)

  def train(self):
    """Trains from the start weights and writes final_model."""
    settings, run = self._settings, self._run
    task = harness.Task(
      self._model,
      run.config,
      run.strategy,
      classifier.objective(
        self._model, run.class_weights, skip_empty=run.trim,
        distills=self._make_distillation(),
      ),
      self._output_dir,
      length=harness.training_length(settings, run.data["train"].num_records),
      new_variables=classifier.NEW_VARIABLES,
      data=self._training_data,
      evaluate=self._scores,
      result_names=evaluation.result_names(run.task, run.data),
      write=self._write_model,
    )
    self._step = harness.train(settings, task, self._start)
    if distribution.is_chief(run.strategy):
      self._log_next_commands()

  def _training_data(self):
    # The weights are there: the features are a function of them.
    if self._settings.freeze_encoder:
      self._data = {**self._data, **self._cached_features()}
    return input_data.training_data(self._data["train"], self._run.trim)

  def _log_next_commands(self):
    """Says how the model that was trained is used, in commands to paste."""
    model = os.path.join(self._output_dir, "final_model")
    export = os.path.join(self._output_dir, "saved_model")
    logging.info("%s", program.hint(
      "to answer texts: python run_classifier.py --do_predict "
      f"--predict_file=- --model_dir={model}"
    ))
    logging.info("%s", program.hint(
      "to export it for serving: python export_saved_model.py "
      f"--head=classification --model_dir={model} --export_dir={export}"
    ))

  def _make_distillation(self):
    """Returns the distilling.Distillation of the teacher; None without one."""
    settings, run = self._settings, self._run
    if not run.teacher:
      return None
    with run.strategy.scope():
      return distilling.Distillation(
        settings, run.teacher, run.task,
        **components.model_options(settings, run.strategy),
      )

  def _cached_features(self):
    """Returns the data to train and evaluate on with a frozen encoder.

    Its features are the same in every epoch, and for every seed.
    """
    settings, run = self._settings, self._run
    return {
      name: frozen_features.ensure(
        os.path.join(settings.output_dir, f"{name}.features.tf_record"),
        self._model,
        data,
        strategy=run.strategy,
        batch_size=settings.eval_batch_size,
      )
      for name, data in run.data.items()
      # What is predicted is read once: keeping its features saves nothing.
      if not name.startswith("predict")
    }

  def _write_model(self, folder, step):
    """Writes the weights of now as a model folder."""
    settings, run = self._settings, self._run
    # With the weights, so that the folder alone is enough to predict.
    given = {name: settings.get(name) for name in tasks.INPUT_FLAGS}
    given[tasks.TEXT_PAIRS] = run.task.text_pairs
    model_folder.write(
      folder, self._model.variables, tasks.with_input(run.config, given),
      run.options.vocab_file, run.options.do_lower_case, step=step,
    )

  def _scores(self, report_dir=None):
    return self._evaluator.evaluate(
      self._run.task, self._data,
      batch_size=self._settings.eval_batch_size, report_dir=report_dir,
    )

  def evaluate(self):
    """Writes and returns the results, see evaluation.Evaluator.evaluate."""
    # By all processes, which share the computation; only the chief writes.
    results = self._scores(self._output_dir)
    if distribution.is_chief(self._run.strategy):
      path = os.path.join(self._output_dir, "eval_results.txt")
      evaluation.write_results(
        path, {"global_step": self._step, **results}, self._run.task
      )
      if self._settings.do_train:
        train_log.write_last_evaluation(
          self._output_dir, self._step, results
        )
    return results

  def write_predictions(self, name):
    """Writes what is predicted for one of the data to predict."""
    settings, run = self._settings, self._run
    # By all processes together, too.
    parts = (
      outputs["scores"] for outputs in self._evaluator.outputs(
        run.data[name], settings.predict_batch_size
      )
    )
    if not distribution.is_chief(run.strategy):
      for _ in parts:  # Its devices have their share in each.
        pass
      return
    # Of an official test set, which memory holds.
    labels = [] if settings.glue_submission_dir else None
    evaluation.write_scores(self._output_dir, name, run.task, parts, labels)
    if settings.glue_submission_dir:
      glue_submission.write(
        settings.glue_submission_dir, run.task.official,
        run.task.splits[name].name, labels,
      )

  def answer_lines(self):
    """Answers the lines of the standard input until it ends.

    Raises:
      InputError: lines of --predict_file=- could not be read; all others are
        answered by then.
    """
    settings = self._settings
    if settings.interactive or sys.stdin.isatty():
      # Not among the answers, which may be piped on.
      print(interactive.greeting(self._run.task), file=sys.stderr, flush=True)
    text_classifier = interactive.TextClassifier(
      interactive.logits_of(self._model), self._run.options
    )
    bad = interactive.answer_lines(
      text_classifier.predict_texts,
      *line_answers.standard_streams(),
      output_format=settings.answer_format,
      batch_size=settings.predict_batch_size,
      text_pairs=self._run.task.text_pairs,
    )
    if not settings.interactive:
      line_answers.require_all_answered(bad)
