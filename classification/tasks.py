"""What a classifier is to learn: kind, classes, metrics and examples.

Official tasks come from glue, your own data from own_data; what a model
was trained for is in its configuration, under Hugging Face's names.
"""

import re
from typing import NamedTuple, Optional

from absl import logging

import modeling
from checkpoints import model_folder
from classification import glue, labelled_examples, own_data, scoring
from common import errors

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
WINDOW_FLAGS = ("max_windows", "window_pooling")
INPUT_FLAGS = ("max_seq_length", "doc_stride", "do_lower_case", *WINDOW_FLAGS)
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
    official: glue.Task, or None.
    text_pairs: whether examples are pairs of texts; None: not known.
    skipped: tuple of own_data.BadRow, those that were skipped.
  """

  name: str
  kind: str
  labels: tuple
  metrics: tuple
  splits: dict
  official: Optional[glue.Task] = None
  text_pairs: Optional[bool] = None
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


# Official tasks.


def read_official(name, data_dir, *, purposes, language, config, metrics):
  """Reads the files of an official task.

  Args:
    name: of the task, as in --task_name.
    data_dir: folder of its files; None where nothing is read.
    purposes: which of "train", "eval", "predict" are needed.
    language: of XNLI and PAWS-X, or None.
    config: modeling.BertConfig of the start weights: a model that was trained
      with the same classes keeps their order, unless it is trained anew.
    metrics: names to report; empty for the task's own.

  Returns:
    ClassifierTask.

  Raises:
    InputError: the task or a file is not known or broken, or the model is of
      another kind.
  """
  official = glue.find(name)
  if purposes and not data_dir:
    raise errors.InputError(
      f"--task_name={name} needs --data_dir, the folder of its files"
    )
  splits = _official_splits(official, data_dir, purposes, language)
  labels, language = tuple(official.labels), language or official.language
  # A model that is trained now gets the official order of classes.
  if "train" not in purposes:
    _check_kind(official.kind, config)
    labels = _learned_order(official, config.label_names())
  return ClassifierTask(
    name=", ".join(filter(None, [official.name, language])),
    kind=official.kind,
    labels=labels,
    metrics=metric_names(metrics or official.metrics, official.kind, labels),
    splits=splits,
    official=official,
    text_pairs=glue.has_pairs(official),
  )


def _learned_order(official, learned):
  """Returns a task's classes in the order in which a model learned them.

  Args:
    official: glue.Task.
    learned: list of what the model calls its classes, [] if nobody knows.
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
  of_purpose = {
    "train": ["train"],
    "eval": glue.eval_splits(official),
    "predict": glue.predict_splits(official),
  }
  splits = {}
  for purpose in purposes:
    for number, split in enumerate(of_purpose[purpose]):
      try:
        paths = glue.paths(official, data_dir, split, language=language)
      except errors.InputError as error:
        # Only the first is needed: MNLI without its mismatched half will do.
        if not number:
          raise
        logging.info("without the %s data: %s", split, error)
        continue
      # As in the original: the first one has the plain name.
      name = f"{purpose}_{split.split('_')[-1]}" if number else purpose
      examples = glue.read(official, data_dir, split, language=language)
      splits[name] = labelled_examples.Split(split, examples, paths)
    if not of_purpose[purpose]:
      raise errors.InputError(
        f"{official.title} has no data to {purpose}, only "
        f"{', '.join(official.layouts)}"
      )
  return splits


# Your own data.


def read_own(
  paths,
  columns,
  *,
  kind,
  labels,
  config,
  metrics,
  eval_fraction=0.0,
  seed=0,
  **format_options,
):
  """Reads files of one's own.

  Args:
    paths: dict from "train", "eval", "predict" to files, where needed. What
      is to be predicted needs no labels.
    columns: own_data.Columns.
    kind: one of labelled_examples.KINDS; None for the model's own, or else
      one class of several.
    labels: the classes; empty for those of the training data or of the model.
    config: modeling.BertConfig of the start weights.
    metrics: names to report; empty for the usual ones.
    eval_fraction: where "eval" and "train" are one file, the share of it that
      is scored; the rest is trained on.
    seed: of that division.
    **format_options: of own_data.TableOptions but kind and labels.

  Returns:
    ClassifierTask.

  Raises:
    InputError: a file is broken, no classes are known, or, where nothing is
      trained, kind or labels are not the model's.
  """
  kind = _own_kind(kind, "train" in paths, config)
  splits, skipped = {}, []

  def read_split(name, labels):
    chosen = columns._replace(label=None) if name == "predict" else columns
    # A file that is divided is read once, for both its parts.
    is_divided = eval_fraction and name == "eval"
    # What is predicted may be more than memory holds.
    reads = own_data.ExampleStream if name == "predict" else own_data.read
    examples = reads(
      paths[name], chosen, kind=kind, labels=tuple(labels),
      split="train" if is_divided else name, skipped=skipped,
      **format_options,
    )
    splits[name] = labelled_examples.Split(name, examples, [paths[name]])

  if "train" in paths:
    read_split("train", labels)
  labels = tuple(_own_labels(kind, labels, splits.get("train"), config))
  for name in paths:
    if name == "eval" and eval_fraction and "train" in splits:
      splits["eval"] = splits["train"]._replace(name="eval")
    elif name != "train":
      read_split(name, labels)
  _divide(splits, eval_fraction, seed)
  metrics = metrics or scoring.default_metrics(kind, len(labels))
  return ClassifierTask(
    name="own data",
    kind=kind,
    labels=labels,
    metrics=metric_names(metrics, kind, labels),
    splits=splits,
    text_pairs=_own_text_pairs(columns, splits, config),
    skipped=tuple(skipped),
  )


def _own_kind(kind, trains, config):
  """Returns the kind of task, from the first place that has it."""
  if kind is None:
    kind = model_kind(config)
  elif not trains:
    _check_kind(kind, config)
  if kind == labelled_examples.CHOICE:
    raise errors.InputError(
      "multiple choice is not for one's own columns: write the files as SWAG "
      "has them and pass --task_name=swag, or train for another --task_kind"
    )
  return kind


def _own_text_pairs(columns, splits, config):
  """Returns ClassifierTask.text_pairs: by the columns, or else the model."""
  if columns.text_b is not None:
    return True
  # Without data the columns are not asked for.
  return False if splits else learned_text_pairs(config)


def _divide(splits, fraction, seed):
  """Leaves each of "train" and "eval" its part of their common examples.

  With a fraction of 0 they have none in common, and stay as they are.
  """
  common = splits.get("eval") or splits.get("train")
  if common is None or not fraction:
    return
  parts = labelled_examples.split_off(common.examples, fraction, seed)
  for name, examples in zip(("train", "eval"), parts):
    if name in splits:
      splits[name] = splits[name]._replace(examples=examples)


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
    return own_data.label_list(train.examples)
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


# What a model's configuration says.


def model_kind(config):
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


def learned_input(values):
  """Returns how the input of a trained model was made.

  Args:
    values: dict of its bert_config.json.

  Returns:
    dict from some of INPUT_FLAGS, in their order, to values; {} if the file
    does not say.

  Raises:
    InputError: its entry is no dict.
  """
  learned = model_folder.input_settings(values)
  return {name: learned[name] for name in INPUT_FLAGS if name in learned}


def learned_text_pairs(config):
  """Returns whether a model was trained on pairs of texts, None: not known.

  Args:
    config: modeling.BertConfig of its weights.
  """
  return model_folder.input_settings(config.to_dict()).get(TEXT_PAIRS)


def with_input(config, values):
  """Returns a modeling.BertConfig that `learned_input` finds values in.

  Args:
    config: modeling.BertConfig.
    values: dict from INPUT_FLAGS and TEXT_PAIRS to their values.
  """
  chosen = {
    name: values[name] for name in (*INPUT_FLAGS, TEXT_PAIRS)
    if name in values and (values["doc_stride"] or name not in WINDOW_FLAGS)
  }
  return model_folder.with_input_settings(config, chosen)


def trained_config(config, task):
  """Returns the modeling.BertConfig of a model for a ClassifierTask.

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


# What is made of the examples.


def metric_names(names, kind, labels):
  """Returns the metrics to report, a tuple.

  Raises:
    InputError: the kind of task does not have one of them.
  """
  names = list(names)
  # As in the original: always there.
  if kind == labelled_examples.SINGLE and "accuracy" not in names:
    names.append("accuracy")
  scoring.check_metrics(names, kind, len(labels))
  return tuple(names)


def used(splits, limits):
  """Returns splits cut to their limits; those to predict lose their labels.

  Args:
    splits: dict like ClassifierTask.splits.
    limits: dict from "train", "eval", "predict" to how many examples to take,
      the first ones; 0: all.

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


def class_weights(given, task):
  """Returns the weights of a task's classes in training, a list of floats.

  Args:
    given: as of labelled_examples.class_weights.
    task: ClassifierTask with a "train" split.

  Raises:
    InputError: they do not fit the classes, or there are no classes.
  """
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
