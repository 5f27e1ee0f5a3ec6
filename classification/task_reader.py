"""The settings of run_classifier.py -> what is to be learned, and its data."""

import os
import runpy

from checkpoints import model_settings
from classification import (
  glue,
  glue_submission,
  own_data,
  seed_results,
  tables,
  tasks,
)
from common import config_formats, errors, run_settings
from training import setup

_PURPOSES = ("train", "eval", "predict")


def restore_input_settings(settings):
  """Returns settings that make the input as a trained model's was made."""
  if settings.do_train:
    return settings
  # Only of a model that is used as it is: a training may choose anew.
  source = next(model_settings.trained_model_files(settings))
  trained = tasks.learned_input(config_formats.read(source))
  # They mean nothing without --doc_stride, which is restored before them.
  windows = {name: trained.pop(name) for name in tasks.WINDOW_FLAGS
             if name in trained}
  settings = model_settings.restore_input_settings(settings, trained, source)
  if settings.doc_stride:
    settings = model_settings.restore_input_settings(settings, windows, source)
  return settings


def check_settings(settings):
  """Refuses flags that contradict each other or would be ignored.

  Raises:
    InputError: so, or nothing is asked for.
  """
  setup.require_one_of(
    settings, "do_train", "do_eval", "do_predict", "interactive"
  )
  run_settings.refuse_ignored(settings)
  only_answers = not purposes(settings)
  if not settings.output_dir and not only_answers:
    raise errors.InputError(
      "nowhere to write: pass --output_dir; only --interactive and "
      "--predict_file=- alone need none"
    )
  seed_results.parse_seeds(settings.seeds)


def answers_lines(settings):
  """Whether the lines of the standard input are to be answered."""
  return settings.interactive or settings.predict_file == "-"


def purposes(settings):
  """Returns for what examples are needed: train, eval, predict."""
  wanted = {
    "train": settings.do_train,
    # Evaluations during training need the data, too.
    "eval": settings.do_eval or (settings.do_train and settings.eval_steps),
    "predict": settings.do_predict and settings.predict_file != "-",
  }
  return [purpose for purpose in wanted if wanted[purpose]]


def read_task(settings, config):
  """Returns the tasks.ClassifierTask that the settings describe.

  Args:
    settings: run_settings.Settings.
    config: modeling.BertConfig of the start weights.

  Raises:
    InputError: a file is missing or broken, or does not fit the model.
  """
  if settings.task_name:
    task = _read_official(settings, config)
  else:
    task = _read_own(settings, config)
  limits = {
    purpose: settings.get(f"max_{purpose}_examples") for purpose in _PURPOSES
  }
  return task._replace(splits=tasks.used(task.splits, limits))


def load_task_module(path):
  """Runs a Python file that adds tasks by `glue.register`.

  Raises:
    InputError: there is no such file, or it adds no task.
  """
  if not os.path.isfile(path):
    raise errors.InputError(f"--task_module={path}: no such file")
  before = set(glue.TASKS)
  # Not as __main__: what the file does as a script is left out.
  runpy.run_path(path, run_name="task_module")
  if set(glue.TASKS) == before:
    raise errors.InputError(
      f"--task_module={path} adds no task: it must call glue.register"
    )


def _read_official(settings, config):
  if settings.task_module:
    load_task_module(settings.task_module)
  task = tasks.read_official(
    settings.task_name,
    settings.data_dir,
    purposes=purposes(settings),
    language=settings.language,
    config=config,
    metrics=settings.metrics,
  )
  if settings.glue_submission_dir:
    glue_submission.check_task(task.official)
  return task


def _read_own(settings, config):
  if settings.encoding:
    tables.check_encoding(settings.encoding)
  return tasks.read_own(
    _own_paths(settings),
    _columns(settings),
    kind=settings.task_kind,
    labels=settings.labels,
    config=config,
    metrics=settings.metrics,
    eval_fraction=settings.eval_fraction,
    seed=settings.seed,
    separator=settings.label_separator,
    file_format=settings.file_format,
    # None: the format's own way.
    quoted=settings.quoted_tsv or None,
    delimiter=_delimiter(settings.separator),
    encoding=settings.encoding,
    skips_bad_rows=settings.on_bad_row == "skip",
  )


def _columns(settings):
  return own_data.Columns(
    settings.text_column, settings.text_b_column, settings.label_column,
    settings.id_column,
  )


def _delimiter(text):
  """Returns the character that --separator names, None if it is not given."""
  delimiter = {"tab": "\t", "\\t": "\t"}.get(text, text)
  if delimiter is not None and len(delimiter) != 1:
    raise errors.InputError(
      f"--separator={text}: expected one character, or tab"
    )
  return delimiter


def _own_paths(settings):
  """Returns dict from what is asked for to your own file for it.

  Raises:
    InputError: a file is not given.
  """
  paths = {}
  for purpose in purposes(settings):
    name = f"{purpose}_file"
    # Both parts come from one file.
    if purpose == "eval" and settings.eval_fraction:
      name = "train_file"
    paths[purpose] = settings.get(name)
    if not paths[purpose]:
      asks = f"do_{purpose}"
      if purpose == "eval" and not settings.do_eval:
        asks = "eval_steps"
      raise errors.InputError(
        f"--{asks} needs --{name}, or --task_name and --data_dir"
      )
  return paths


def write_rows(settings, task):
  """Writes what --on_bad_row=skip left out, and what --eval_fraction drew."""
  if task.skipped:
    path = os.path.join(settings.output_dir, own_data.SKIPPED_FILE_NAME)
    own_data.write_skipped(path, task.skipped)
  if settings.eval_fraction:
    for name in ("train", "eval"):
      if name in task.splits:
        path = os.path.join(settings.output_dir, f"{name}_split.jsonl")
        own_data.write(path, task.splits[name].examples, _columns(settings))


def class_weights(settings, task):
  """Returns how much each class counts in training; None: all alike."""
  if settings.class_weights and settings.do_train:
    return tasks.class_weights(settings.class_weights, task)
  return None
