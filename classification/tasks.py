"""What a classifier is to learn: kind, classes, metrics and examples.

Official tasks come from glue, your own files from dataset; what a model was
trained for is in its configuration, under Hugging Face's names.
"""

import os
import re
import runpy
from typing import NamedTuple

from absl import logging

import configuration
import modeling
from checkpoints import model_folder, model_settings
from classification import (
  dataset,
  glue,
  glue_submission,
  labelled_examples,
  scoring,
  seed_results,
  tables,
)
from common import errors, run_settings
from training import components

# kind -> `problem_type` in the configuration.
PROBLEM_TYPES = {
  labelled_examples.SINGLE: "single_label_classification",
  labelled_examples.REGRESSION: "regression",
  labelled_examples.MULTI_LABEL: "multi_label_classification",
  labelled_examples.CHOICE: "multiple_choice",
}
# What others call two classes that their task has numbers or short names for.
_NUMBERED = (("0", "1"), ("neg", "pos"))
_NAMES_OF_NUMBERED = (
  ("negative", "positive"),
  ("unacceptable", "acceptable"),
  ("not_equivalent", "equivalent"),
  ("not_duplicate", "duplicate"),
)
# The flags of which a trained model's configuration keeps the values.
INPUT_FLAGS = ("max_seq_length", "doc_stride", "do_lower_case", "max_windows")
# What it keeps besides: whether examples were pairs of texts.
TEXT_PAIRS = "text_pairs"


class ClassifierTask(NamedTuple):
  """What is asked of a model.

  Attributes:
    name: of an official task, with its language where there are several;
      else "own data".
    kind: one of labelled_examples.KINDS.
    labels: tuple of str, the classes in order; empty for regression.
    metrics: tuple of names of scoring.
    splits: dict from "train", "eval", "predict" and more, such as
      "eval_mismatched", to labelled_examples.Split.
    text_pairs: whether examples are pairs of texts; None: not known.
    skipped: tuple of dataset.BadRow.
  """

  name: str
  kind: str
  labels: tuple
  metrics: tuple
  splits: dict
  official: glue.Task | None = None
  text_pairs: bool | None = None
  skipped: tuple = ()

  @property
  def positive(self):
    """The number of the class that F1, precision and recall are of.

    Of two classes the second; of an official task the official second one,
    in whatever order a model has learned them.
    """
    if self.official and len(self.official.labels) == 2:
      return self.labels.index(self.official.labels[1])
    return 1


# Settings.


def restore_input_settings(settings):
  """Returns settings that make the input as a trained model's was made."""
  # A training may choose anew.
  if settings.do_train:
    return settings
  source = next(model_settings.trained_model_files(settings))
  return model_settings.restore_input_settings(
    settings, learned_input(configuration.read(source)), source
  )


def check_settings(settings) -> None:
  """Refuses flags that contradict each other or would be ignored.

  Raises:
    InputError: so, or nothing is asked for.
  """
  components.require_one_of(
    settings, "do_train", "do_eval", "do_predict", "interactive"
  )
  run_settings.refuse_ignored(settings)
  seed_results.parse_seeds(settings.seeds)


def answers_lines(settings) -> bool:
  """Whether the lines of the standard input are to be answered."""
  return settings.interactive or settings.predict_file == "-"


def purposes(settings) -> list[str]:
  """Returns for what examples are needed: train, eval, predict."""
  return list(components.files_to_read(settings))


def read_task(settings, config: modeling.BertConfig) -> ClassifierTask:
  """Returns the task that run_settings.Settings describe.

  Args:
    config: of the start weights: their kind, and their classes in their order,
      are the task's unless it is trained anew.

  Raises:
    InputError: the task or a file is unknown or broken, no classes are known,
      or, where nothing is trained, kind or classes are not the model's.
  """
  read = _read_official if settings.task_name else _read_own
  task = read(settings, config, purposes(settings))
  names = settings.metrics or task.metrics
  limits = {
    purpose: settings.get(f"max_{purpose}_examples")
    for purpose in ("train", "eval", "predict")
  }
  return task._replace(
    metrics=metric_names(names, task.kind, task.labels),
    splits=used(task.splits, limits),
  )


def load_task_module(path: str) -> None:
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


def own_columns(settings) -> dataset.Columns:
  """Returns the columns that run_settings.Settings name."""
  return dataset.Columns(
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


def write_rows(settings, task: ClassifierTask) -> None:
  """Writes what --on_bad_row=skip left out, and what --eval_fraction drew."""
  folder = settings.output_dir
  if task.skipped:
    dataset.write_skipped(
      os.path.join(folder, dataset.SKIPPED_FILE_NAME), task.skipped
    )
  if settings.eval_fraction:
    for name in {"train", "eval"} & task.splits.keys():
      dataset.write(
        os.path.join(folder, f"{name}_split.jsonl"),
        task.splits[name].examples, own_columns(settings),
      )


# Official tasks.


def _read_official(settings, config, purposes):
  if settings.task_module:
    load_task_module(settings.task_module)
  official = glue.find(settings.task_name)
  if settings.glue_submission_dir:
    glue_submission.check_task(official)
  if purposes and not settings.data_dir:
    raise errors.InputError(
      f"--task_name={settings.task_name} needs --data_dir, the folder of its "
      "files"
    )
  splits = _official_splits(
    official, settings.data_dir, purposes, settings.language
  )
  labels = tuple(official.labels)
  # A model that is trained now gets the official order of classes.
  if not settings.do_train:
    _check_kind(official.kind, config)
    labels = _learned_order(official, config.label_names())
  return ClassifierTask(
    name=", ".join(
      filter(None, [official.name, settings.language or official.language])
    ),
    kind=official.kind,
    labels=labels,
    metrics=official.metrics,
    splits=splits,
    official=official,
    text_pairs=glue.has_pairs(official),
  )


def _learned_order(official, learned):
  """Returns a task's classes in the order in which a model learned them.

  Args:
    learned: what the model calls its classes, [] if nobody knows.
  """
  labels = tuple(official.labels)
  if not labels or _are_generic(learned):
    return labels
  names = {label.lower(): label for label in labels}
  # A model of others may call class 1 "positive" or "equivalent".
  if labels in _NUMBERED:
    for others in _NAMES_OF_NUMBERED:
      names.update(zip(others, labels))
  found = tuple(names.get(name.lower()) for name in learned)
  # Every class once: nothing is left to guess.
  if len(found) == len(labels) and set(found) == set(labels):
    return found
  logging.warning(
    "the classes of the model are called %s (id2label in --bert_config_file), "
    "those of %s %s: they are taken in this order, which may be wrong",
    ", ".join(learned), official.title, ", ".join(labels),
  )
  return labels


def _are_generic(names):
  """Whether names of classes say nothing: none, or LABEL_0, LABEL_1, ..."""
  return all(re.fullmatch(r"LABEL_\d+", name) for name in names)


def _official_splits(official, data_dir, purposes, language):
  found = {}
  for purpose in purposes:
    names = glue.splits(official, purpose)
    if not names:
      raise errors.InputError(
        f"{official.title} has no data to {purpose}, only "
        f"{', '.join(official.layouts)}"
      )
    for number, split in enumerate(names):
      # As in the original: the first one has the plain name.
      name = f"{purpose}_{split.split('_')[-1]}" if number else purpose
      # Only the first is needed: MNLI without its mismatched half will do.
      if number and not glue.exists(official, data_dir, split):
        logging.info("without the %s data, which are not there", split)
        continue
      examples = glue.read(official, data_dir, split, language=language)
      found[name] = labelled_examples.Split(split, examples)
  return found


# Your own data.


def _read_own(settings, config, purposes):
  if settings.encoding:
    tables.check_encoding(settings.encoding)
  skipped, kind = [], _own_kind(settings, config)
  paths = {purpose: settings.get(f"{purpose}_file") for purpose in purposes}
  if "eval" in paths and settings.eval_fraction:
    paths["eval"] = settings.train_file
  examples, labels = _own_examples(
    settings,
    config,
    paths,
    kind=kind,
    separator=settings.label_separator,
    file_format=settings.file_format,
    quoted=settings.quoted_tsv,
    delimiter=_delimiter(settings.separator),
    encoding=settings.encoding,
    skips_bad_rows=settings.on_bad_row == "skip",
    skipped=skipped,
  )
  text_pairs = settings.text_b_column is not None
  if not (text_pairs or examples):  # Then the columns are not asked for.
    text_pairs = learned_text_pairs(config)
  return ClassifierTask(
    name="own data",
    kind=kind,
    labels=labels,
    metrics=scoring.default_metrics(kind, len(labels)),
    splits={
      name: labelled_examples.Split(name, found)
      for name, found in examples.items()
    },
    text_pairs=text_pairs,
    skipped=tuple(skipped),
  )


def _own_examples(settings, config, paths, **options):
  """Returns the examples of each of `paths`, and the classes."""
  examples, columns = {}, own_columns(settings)
  fraction = settings.eval_fraction
  if "train" in paths:
    examples["train"] = dataset.read(
      paths["train"], columns, labels=settings.labels, **options
    )
  labels = _own_labels(
    options["kind"], settings.labels, examples.get("train"), config
  )
  if "eval" in paths and fraction and "train" in paths:
    examples["eval"] = examples["train"]
  elif "eval" in paths:
    examples["eval"] = dataset.read(
      paths["eval"], columns, labels=labels,
      split="train" if fraction else "eval", **options,
    )
  if fraction and examples:
    parts = labelled_examples.split_off(
      examples.get("eval") or examples["train"], fraction, settings.seed
    )
    parts = dict(zip(("train", "eval"), parts))
    examples = {name: parts[name] for name in examples}
  if "predict" in paths:
    # They may be more than memory holds, and need no labels.
    examples["predict"] = dataset.ExampleStream(
      paths["predict"], columns._replace(label=None), split="predict", **options
    )
  return examples, tuple(labels)


def _own_kind(settings, config):
  """Returns the kind of task, from the first place that has it."""
  kind = settings.task_kind or model_kind(config)
  if not settings.do_train:
    _check_kind(kind, config)
  if kind == labelled_examples.CHOICE:
    raise errors.InputError(
      "multiple choice is not for one's own columns: write the files as SWAG "
      "has them and pass --task_name=swag, or train for another --task_kind"
    )
  return kind


def _own_labels(kind, labels, train, config):
  """Returns the classes, from the first place that has them."""
  if kind == labelled_examples.REGRESSION:
    if labels:
      raise errors.InputError(
        "--labels are names of classes, and regression has none; leave them "
        "out, or pass another --task_kind"
      )
    return ()
  learned = config.label_names()
  if labels:
    _check_labels(labels, kind)
    if not train:
      _check_learned_labels(labels, learned)
    return labels
  if train:
    return dataset.label_list(train)
  # As the model says them: this file may lack some of its classes.
  if learned:
    return learned
  raise errors.InputError(
    "no classes known: --bert_config_file has no id2label; pass --labels, or "
    "the bert_config.json in the final_model of a training, or --do_train"
  )


def _check_labels(labels, kind):
  given = f"--labels={','.join(labels)}"
  if len(set(labels)) < len(labels):
    raise errors.InputError(
      f"{given}: a class is there twice; name each once"
    )
  if len(labels) < 2 and kind == labelled_examples.SINGLE:
    raise errors.InputError(
      f"{given}: one class leaves nothing to learn; name two or more"
    )


def _check_learned_labels(labels, learned):
  """Refuses classes that are not the model's, where it is not trained."""
  same = list(labels) == learned
  if _are_generic(learned):  # Then they may be given better names.
    same = not learned or len(labels) == len(learned)
  if not same:
    raise errors.InputError(
      f"--labels={','.join(labels)}, but the model was trained for "
      f"{','.join(learned)} (id2label in --bert_config_file); leave --labels "
      "out, or pass --do_train"
    )


# What a model's configuration says, and metrics, limits and weights.


def model_kind(config: modeling.BertConfig) -> str:
  """Returns the kind in a model's configuration, or one class of several.

  Raises:
    InputError: it says another than those known here.
  """
  problem_type = config.to_dict().get("problem_type")
  if problem_type is None:
    return labelled_examples.SINGLE
  for kind, name in PROBLEM_TYPES.items():
    if name == problem_type:
      return kind
  raise errors.InputError(
    f"problem_type in --bert_config_file is {problem_type!r}; expected one of "
    f"{', '.join(PROBLEM_TYPES.values())}"
  )


def _check_kind(kind, config):
  """Refuses a model of another kind, where it is not trained anew."""
  if config.to_dict().get("problem_type") is None:
    return
  if (learned := model_kind(config)) != kind:
    raise errors.InputError(
      f"the task is {kind}, but the model was trained for {learned} "
      "(problem_type in --bert_config_file); leave --task_kind out, take "
      "another model, or pass --do_train"
    )


def learned_input(values: dict) -> dict:
  """Returns how the input of a trained model was made.

  Args:
    values: of its bert_config.json.

  Returns:
    Values of some of INPUT_FLAGS, in their order; {} if the file does not say.

  Raises:
    InputError: its entry is no dict.
  """
  learned = model_folder.input_settings(values)
  return {name: learned[name] for name in INPUT_FLAGS if name in learned}


def learned_text_pairs(config: modeling.BertConfig) -> bool | None:
  """Returns whether a model was trained on pairs of texts, None: not known."""
  return model_folder.input_settings(config.to_dict()).get(TEXT_PAIRS)


def with_input(
  config: modeling.BertConfig, values: dict
) -> modeling.BertConfig:
  """Returns a configuration that `learned_input` finds values in.

  Args:
    values: of INPUT_FLAGS and TEXT_PAIRS.
  """
  chosen = {
    name: values[name] for name in (*INPUT_FLAGS, TEXT_PAIRS)
    if name in values
  }
  return model_folder.with_input_settings(config, chosen)


def trained_config(
  config: modeling.BertConfig, task: ClassifierTask
) -> modeling.BertConfig:
  """Returns the configuration of a model for a task.

  The classes and the kind are a part of the model: a run's folder with others
  is refused, and a trained model needs nobody to name them. How long its
  sequences are is not.
  """
  values = model_folder.without_input_settings(config).to_dict()
  # Of whatever the start weights were trained for before.
  values.pop("id2label", None)
  if task.labels:
    values["id2label"] = {str(n): name for n, name in enumerate(task.labels)}
  values["problem_type"] = PROBLEM_TYPES[task.kind]
  return modeling.BertConfig.from_dict(values)


def metric_names(names: tuple, kind: str, labels: tuple) -> tuple:
  """Returns the metrics to report.

  Raises:
    InputError: the kind of task does not have one of them.
  """
  # As in the original: always there.
  if kind == labelled_examples.SINGLE and "accuracy" not in names:
    names = (*names, "accuracy")
  scoring.check_metrics(names, kind, len(labels))
  return tuple(names)


def used(splits: dict, limits: dict[str, int]) -> dict:
  """Returns splits cut to their limits; those to predict lose their labels.

  Args:
    splits: as of ClassifierTask.
    limits: how many of the first examples to "train", "eval", "predict" to
      take; 0: all.

  Raises:
    InputError: an example to learn from or to score has no label.
  """
  result = {}
  for name, split in splits.items():
    purpose = name.split("_")[0]
    examples = split.examples[: limits[purpose] or None]
    if purpose != "predict":
      labelled_examples.check_labelled(examples)
    elif isinstance(examples, list):
      # As in the original: records of what is predicted have no label.
      examples = [example._replace(label=None) for example in examples]
    result[name] = split._replace(examples=examples)
  return result


def class_weights(
  given: str | None, task: ClassifierTask
) -> list[float] | None:
  """Returns the weights of a task's classes in training; None: all alike.

  Args:
    given: as of labelled_examples.class_weights.

  Raises:
    InputError: they do not fit the classes, or there are no classes.
  """
  if not given:
    return None
  if task.kind not in (
    labelled_examples.SINGLE, labelled_examples.MULTI_LABEL
  ):
    raise errors.InputError(
      f"--class_weights are for classes, and this task is {task.kind}; leave "
      "them out"
    )
  return labelled_examples.class_weights(
    given, task.splits["train"].examples, task.labels, task.kind
  )
