"""Flags of run_classifier.py that would be ignored beside others: refused."""

from typing import Callable, NamedTuple

from common import errors

# --predict_file: texts come on the standard input.
STANDARD_INPUT = "-"


class Conflict(NamedTuple):
  """Flags that are ignored under some condition.

  Attributes:
    flags: their names, with spaces between them.
    condition: function of a dict of the values of all flags.
    reason: what follows their name in the error.
  """

  flags: str
  condition: Callable
  reason: str


def _answers(values):
  return values["interactive"] or values["predict_file"] == STANDARD_INPUT


def _no_predictions(values):
  writes = values["do_predict"] and values["predict_file"] != STANDARD_INPUT
  return not (values["task_name"] and writes)


CONFLICTS = (
  Conflict(
    "train_file eval_file labels task_kind text_column text_b_column "
    "label_column id_column file_format quoted_tsv label_separator",
    lambda values: values["task_name"],
    "is for your own files, and --task_name asks for an official task; leave "
    "one of them out",
  ),
  Conflict(
    "predict_file",
    lambda values: (
      values["task_name"] and values["predict_file"] != STANDARD_INPUT
    ),
    "names your own file, and --task_name asks for an official task; leave "
    "one of them out",
  ),
  Conflict(
    "data_dir language",
    lambda values: not values["task_name"],
    "is for official tasks; pass --task_name too, or leave it out",
  ),
  Conflict(
    "max_windows window_pooling",
    lambda values: not values["doc_stride"],
    "is for texts in several windows; pass --doc_stride too, or leave it out",
  ),
  Conflict(
    "class_weights",
    lambda values: not values["do_train"],
    "is for training; pass --do_train too, or leave it out",
  ),
  Conflict(
    "freeze_layers bucket_by_length",
    lambda values: values["freeze_encoder"],
    "has nothing to work on beside --freeze_encoder, which trains no layer "
    "and reads no sequences; leave one of them out",
  ),
  Conflict(
    "seed",
    lambda values: values["seeds"],
    "is replaced by each of --seeds; leave one of them out",
  ),
  Conflict(
    "seeds",
    lambda values: _answers(values) or values["glue_submission_dir"],
    "makes several models, and texts are answered, or GLUE's files written, "
    "by one; run again with the best as --init_checkpoint",
  ),
  Conflict(
    "glue_submission_dir",
    _no_predictions,
    "needs --task_name and --do_predict of its test files; pass both, or leave "
    "it out",
  ),
)


def check(values, given):
  """Refuses flags that were given and would be ignored.

  Args:
    values: dict from the name of each flag to its value.
    given: names of the flags that were given and not left at their default.

  Raises:
    InputError: there is one; the first is named.
  """
  for conflict in CONFLICTS:
    if not conflict.condition(values):
      continue
    for name in conflict.flags.split():
      asks = values[name] is not False and values[name] not in (None, "", [])
      if name in given and asks:
        raise errors.InputError(f"--{name} {conflict.reason}")
