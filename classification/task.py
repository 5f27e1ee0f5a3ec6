"""Determines a classifier's task: its kind, classes, metrics and examples.

`glue` reads official tasks, `data` reads the user's files. A model's
configuration stores the kind and the classes under Hugging Face's keys.
"""

import collections
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from absl import logging

import configuration
from checkpoints import model_files, model_folder
from classification import data, glue, points, ranking, scores, soft_labels
from common import errors, run_settings
from training import run_setup

# Numeric or short class names of tasks, and the names for them in models of
# other projects.
_NUMBERED = (("0", "1"), ("neg", "pos"))
_NAMES_OF_NUMBERED = (
  ("negative", "positive"),
  ("unacceptable", "acceptable"),
  ("not_equivalent", "equivalent"),
  ("not_duplicate", "duplicate"),
)
# The flags that a trained model's configuration stores.
INPUT_FLAGS = "max_seq_length doc_stride do_lower_case max_windows"
# A bi-encoder's configuration also stores these flags, and task_kind.
VECTOR_FLAGS = "pooling pooling_layer normalize"
# Also stored: whether examples are pairs and, for own data, the text columns.
TEXT_PAIRS = "text_pairs"
COLUMN_FLAGS = "text_column text_b_column"


class ClassifierTask(NamedTuple):
  """The task of a model.

  Attributes:
    name: "classification, own data", or "classification, " followed by the name
      of an official task and, if it has several languages, the language.
    task_kind: one of data.KINDS.
    labels: the classes (str) in order; empty for data.OF_NUMBERS.
    metrics: names of metrics.
    splits: {name: list of data.Example} for "train", "eval", "predict" and
      names such as "eval_mismatched"; "predict" may be a data.ExampleStream.
    official: None for the user's data.
    text_pairs: whether examples are pairs of texts.
  """

  name: str
  task_kind: str
  labels: tuple
  metrics: tuple
  splits: dict
  official: glue.OfficialTask | None = None
  text_pairs: bool = False

  @property
  def positive(self) -> int:
    """The index of the class to which F1, precision and recall refer.

    It is the second of two classes; for an official task, the second in the
    task's order, which may differ from the model's order.
    """
    if self.official and len(self.official.labels) == 2:
      return self.labels.index(self.official.labels[1])
    return 1


def complete_settings(
  settings: run_settings.Settings, files: model_files.ModelFiles
) -> run_settings.Settings:
  """Returns settings with those that a trained model stores.

  Pooling is also read from sentence-transformers' folders.
  """
  names = VECTOR_FLAGS
  # Training may change INPUT_FLAGS; for own data, it keeps the task_kind.
  if not settings.do_train:
    names += f" {INPUT_FLAGS} task_kind"
    if not settings.task_name:
      names += f" {COLUMN_FLAGS}"
  elif not settings.task_name:
    names += " task_kind"
  completed = files.complete(settings, names.split())
  if completed.task_kind in data.OF_VECTORS:
    head = points.head_of(settings, completed.task_kind)
    return files.complete(settings, names.split(), head=head)
  return completed


def read_task(
  settings: run_settings.Settings, config: configuration.BertConfig
) -> ClassifierTask:
  """Returns the task that run_settings.Settings describe.

  Without training, the kind, the classes and their order must fit the model.
  """
  read = _read_official if settings.task_name else _read_own
  task = read(settings, config, list(run_setup.files_to_read(settings)))
  metrics = tuple(settings.metrics or task.metrics)
  # As in the original: accuracy is always reported.
  if task.task_kind == data.SINGLE and "accuracy" not in metrics:
    metrics = (*metrics, "accuracy")
  scores.check_metrics(metrics, task.task_kind, len(task.labels))
  return task._replace(
    metrics=metrics,
    splits={
      name: _limited(name, examples, settings)
      for name, examples in task.splits.items()
    },
  )


def _limited(
  name: str, examples: Sequence, settings: run_settings.Settings
) -> Sequence:
  """Applies max_*_examples, and removes the labels of data to predict."""
  if isinstance(examples, data.ExampleStream):
    return examples
  purpose = name.split("_")[0]
  examples = examples[: settings.get(f"max_{purpose}_examples") or None]
  if purpose == "predict":
    # As in the original: data to predict are written without their labels.
    return [example._replace(label=None) for example in examples]
  data.check_labelled(examples)
  return examples


def _read_official(
  settings: run_settings.Settings,
  config: configuration.BertConfig,
  purposes: list[str],
) -> ClassifierTask:
  official = glue.find(settings.task_name)
  if settings.glue_submission_dir:
    glue.check_submission(official)
  if purposes and not settings.data_dir:
    raise errors.InputError(
      f"--task_name={settings.task_name} needs --data_dir, the folder of its "
      "files"
    )
  task_kind = _official_kind(settings, official)
  splits: dict = {}
  labels = tuple(official.labels)
  for purpose in purposes:
    splits |= _official_splits(settings, official, purpose)
  # Without training, the classes have the order of the model's outputs.
  if not settings.do_train:
    _check_kind(task_kind, config)
    labels = _learned_order(official, config.label_names())
  language = settings.language or official.language
  return ClassifierTask(
    ", ".join(filter(None, ("classification", official.name, language))),
    task_kind,
    labels,
    official.metrics,
    splits,
    official,
    text_pairs=glue.has_pairs(official),
  )


def _official_kind(
  settings: run_settings.Settings, official: glue.OfficialTask
) -> str:
  """Returns the kind of a task; for scored pairs it may be similarity."""
  has_scored_pairs = official.scores and glue.has_pairs(official)
  kinds = [official.task_kind, *[data.SIMILARITY] * bool(has_scored_pairs)]
  if settings.task_kind in (None, *kinds):
    return settings.task_kind or official.task_kind
  raise errors.InputError(
    f"--task_kind={settings.task_kind}: {official.title} supports only "
    f"{' and '.join(kinds)}; for another kind pass its files as your own, with "
    "--train_file and the column flags"
  )


def _learned_order(
  official: glue.OfficialTask, learned: list[str]
) -> tuple[str, ...]:
  """Returns a task's classes in the order of the model's outputs.

  `learned` has the model's class names in the order of its outputs.
  """
  labels = tuple(official.labels)
  if (
    not labels
    or not learned
    or (_are_generic(learned) and len(learned) == len(labels))
  ):
    return labels
  names = {label.lower(): label for label in labels}
  # Models of other projects may name class 1 "positive" or "equivalent".
  if labels in _NUMBERED:
    for other_names in _NAMES_OF_NUMBERED:
      names.update(zip(other_names, labels))
  order = tuple(names.get(name.lower(), "") for name in learned)
  # If every class occurs once, the names determine the order.
  if len(order) == len(labels) and set(order) == set(labels):
    return order
  if len(learned) != len(labels):
    raise errors.InputError(
      f"the model was trained to classify ({', '.join(learned)}), but "
      f"{official.title} has the classes {', '.join(labels)}; use a model that "
      "was trained for this task, or pass --do_train"
    )
  logging.warning(
    "the model's classes are %s (id2label in --bert_config_file), and the "
    "classes of %s are %s: matched them in this order, which may be wrong",
    ", ".join(learned),
    official.title,
    ", ".join(labels),
  )
  return labels


def _are_generic(names: Iterable[str]) -> bool:
  """Returns whether all class names are like LABEL_0, or there are none."""
  return all(re.fullmatch(r"LABEL_\d+", name) for name in names)


def _official_splits(
  settings: run_settings.Settings, official: glue.OfficialTask, purpose: str
) -> dict[str, list[data.Example]]:
  splits: dict = {}
  for split in glue.splits(official, purpose):
    # As in the original: the first split is named "eval" or "predict". Other
    # splits, such as MNLI's mismatched ones, are optional.
    if splits and not glue.exists(official, settings.data_dir, split):
      logging.info("skipped the %s data: no such file", split)
      continue
    name = f"{purpose}_{split.split('_')[-1]}" if splits else purpose
    splits[name] = glue.read(
      official, settings.data_dir, split, **settings.pick("language encoding")
    )
  if not splits:
    raise errors.InputError(
      f"{official.title} has no {purpose} data, only "
      f"{', '.join(official.layouts)}"
    )
  return splits


def _read_own(
  settings: run_settings.Settings,
  config: configuration.BertConfig,
  purposes: list[str],
) -> ClassifierTask:
  task_kind = _own_kind(settings, config, purposes)
  examples, labels = _own_examples(settings, config, purposes, task_kind)
  text_pairs = settings.text_b_column is not None or task_kind in data.OF_PAIRS
  learned = model_folder.input_settings(config.to_dict()).get(TEXT_PAIRS)
  if not settings.do_train and text_pairs and learned is False:
    logging.warning(
      "input differs from training: --text_b_column=%s (trained with single "
      "texts)",
      settings.text_b_column,
    )
  return ClassifierTask(
    "classification, own data",
    task_kind,
    labels,
    scores.default_metrics(task_kind, len(labels)),
    examples,
    text_pairs=text_pairs,
  )


def _own_examples(
  settings: run_settings.Settings,
  config: configuration.BertConfig,
  purposes: list[str],
  task_kind: str,
) -> tuple[dict, tuple[str, ...]]:
  """Returns the examples of each purpose, and the classes."""
  examples: dict = {}
  fraction = settings.eval_fraction
  classes = (
    settings.labels
    or settings.get("label_columns")
    or soft_labels.class_names(settings.get("soft_label_columns") or ())
  )
  if "train" in purposes:
    examples["train"] = data.read(
      settings.train_file, settings, task_kind, labels=classes
    )
  labels = _own_labels(task_kind, classes, examples.get("train"), config)
  if "eval" in purposes and not (fraction and examples):
    examples["eval"] = data.read(
      settings.train_file if fraction else settings.eval_file,
      settings,
      task_kind,
      labels=labels,
      split="train" if fraction else "eval",
    )
  if fraction and examples:
    (unsplit,) = examples.values()
    module = ranking if task_kind in data.OF_RANKS else data
    train, held_out = module.split_off(unsplit, fraction, settings.seed)
    held_out = [x._replace(label=soft_labels.hard(x.label)) for x in held_out]
    parts = train, held_out
    examples = {
      name: part
      for name, part in zip(("train", "eval"), parts)
      if name in purposes
    }
  if "predict" in purposes:
    # Data to predict need no labels, and may not fit in memory.
    examples["predict"] = data.ExampleStream(
      settings.predict_file,
      settings,
      task_kind,
      split="predict",
      has_labels=False,
      limit=settings.max_predict_examples,
    )
  return examples, tuple(labels)


def _own_kind(
  settings: run_settings.Settings,
  config: configuration.BertConfig,
  purposes: list[str],
) -> str:
  """Returns the kind from --task_kind, the configuration or the default."""
  task_kind = settings.task_kind or model_kind(config) or data.SINGLE
  if {task_kind, model_kind(config)} == set(data.OF_RANKS):
    task_kind = data.RANKING_LOGIT  # --task_kind=ranking includes this kind.
  if not settings.do_train:
    _check_kind(task_kind, config)
  if task_kind in data.OF_PAIRS and purposes and not settings.text_b_column:
    raise errors.InputError(
      f"--task_kind={task_kind} needs pairs of texts; pass --text_b_column"
    )
  if task_kind == data.CHOICE:
    raise errors.InputError(
      "multiple choice does not support your own columns: write your files in "
      "SWAG's format and pass --task_name=swag, or train for another "
      "--task_kind"
    )
  return task_kind


def _own_labels(
  task_kind: str,
  labels: Sequence[str],
  train: list[data.Example] | None,
  config: configuration.BertConfig,
) -> Sequence[str]:
  """Returns the classes from the flags, the training data or the model."""
  if task_kind in data.OF_NUMBERS:
    if labels:
      raise errors.InputError(
        f"--labels has no effect: {task_kind} has no classes; leave it out, or "
        "pass another --task_kind"
      )
    return ()
  if labels:
    _check_labels(labels, task_kind, None if train else config.label_names())
    return labels
  if train:
    return data.label_list(train)
  if learned := config.label_names():
    if twice := sorted({name for name in learned if learned.count(name) > 1}):
      raise errors.InputError(
        f"id2label in --bert_config_file has {', '.join(twice)} twice, and "
        "each class needs a column; give each label its own name in the file"
      )
    return learned
  raise errors.InputError(
    "unknown classes: --bert_config_file has no id2label; pass --labels, the "
    "bert_config.json in a trained model's final_model, or --do_train"
  )


def _check_labels(
  labels: Sequence[str], task_kind: str, learned: list[str] | None
) -> None:
  """Checks --labels; `learned`: the model's classes, or None in training."""
  flag = f"--labels={','.join(labels)}"
  if len(set(labels)) < len(labels):
    raise errors.InputError(f"{flag}: duplicate class; pass each class once")
  if len(labels) < 2 and task_kind == data.SINGLE:
    raise errors.InputError(
      f"{flag}: with one class there is nothing to learn; pass two or more"
    )
  # Generic names, such as LABEL_0, may be replaced.
  learned = learned or list(labels)
  matches_model = list(labels) == learned or (
    _are_generic(learned) and len(labels) == len(learned)
  )
  if not matches_model:
    raise errors.InputError(
      f"{flag}, but the model was trained for {','.join(learned)} (id2label "
      "in --bert_config_file); leave --labels out, or pass --do_train"
    )


def model_kind(config: configuration.BertConfig) -> str | None:
  """Returns the kind of task in a model's configuration, or None."""
  problem_type = config.to_dict().get("problem_type")
  if problem_type is None:
    return None
  if problem_type not in configuration.PROBLEMS:
    raise errors.InputError(
      f"problem_type in --bert_config_file is {problem_type!r}; expected one "
      f"of {', '.join(configuration.PROBLEMS)}"
    )
  return configuration.PROBLEMS[problem_type].task_kind


def _check_kind(task_kind: str, config: configuration.BertConfig) -> None:
  """Raises InputError if a model was trained for a different kind of task."""
  learned = model_kind(config)
  # Model files of sentence-transformers do not distinguish regression and
  # ranking.
  is_alike = {task_kind, learned} <= {data.REGRESSION, *data.OF_RANKS}
  if learned not in (None, task_kind) and not is_alike:
    raise errors.InputError(
      f"the task kind is {task_kind}, but the model was trained for {learned} "
      "(problem_type in --bert_config_file); leave --task_kind out, use a "
      "different model, or pass --do_train"
    )


def trained_config(
  config: configuration.BertConfig, task: ClassifierTask
) -> configuration.BertConfig:
  """Returns the configuration of a model that is trained for a task.

  It stores the classes and the kind, so a trained model needs no flags for
  them, and a run with other classes or another kind cannot use its output_dir.
  It does not store the input settings, such as max_seq_length.
  """
  values = model_folder.without_input_settings(config).to_dict()
  # The initial model may have been trained for different classes.
  values.pop("id2label", None)
  if task.labels:
    values["id2label"] = {str(n): name for n, name in enumerate(task.labels)}
  values["problem_type"] = configuration.PROBLEM_OF_KIND[task.task_kind]
  return configuration.BertConfig.from_dict(values)


def log_examples(task: ClassifierTask, weights: list | None = None) -> None:
  """Logs the training classes, their weights, and warnings about the data."""
  if "train" not in task.splits:
    return
  if task.labels:
    counts = data.class_counts(task.splits["train"], task.labels)
    width = max(len("class"), *map(len, counts)) + 2
    logging.info("  %-*s%10s%10s", width, "class", "examples", "weight")
    for label, weight in zip(counts, weights or [1.0] * len(counts)):
      logging.info("  %-*s%10d%10.4g", width, label, counts[label], weight)
    for sentence in _doubts(counts):
      logging.warning("%s", sentence)
  is_single = task.task_kind == data.SINGLE and not task.official
  if is_single and len(task.labels) > 2 and data.are_numbers(task.labels):
    logging.warning(
      "all %d classes are numbers; to predict a number instead of one of "
      "these classes, pass --task_kind=regression",
      len(task.labels),
    )
  inputs = {
    name: {(each.text_a, each.text_b, each.endings) for each in examples}
    for name, examples in task.splits.items()
    if name in ("train", "eval")
  }
  if "eval" in inputs and inputs["eval"] <= inputs["train"]:
    logging.warning(
      "all evaluation examples are also training examples, so the scores say "
      "nothing about new texts; pass another --eval_file, or "
      "--eval_fraction=0.1 instead"
    )


def _doubts(counts: dict[str, int]) -> list[str]:
  """Returns warnings about classes that may be mistakes."""
  by_lower_case = collections.defaultdict(list)
  for label in counts:
    # Unlike lower(), casefold() makes "ß" and "ss" equal.
    by_lower_case[label.casefold()].append(repr(label))
  warnings = [
    f"classes that differ only in case: {', '.join(labels)}; if they are the "
    "same class, spell it the same everywhere"
    for labels in by_lower_case.values()
    if len(labels) > 1
  ]
  rare = ("no training example", "only one training example: is it misspelled?")
  return warnings + [
    f"class {label!r} has {rare[count]}"
    for label, count in counts.items()
    if count < 2
  ]
