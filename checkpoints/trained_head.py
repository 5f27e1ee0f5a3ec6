"""Determines which heads the weights of a model have."""

import os
import re
from typing import NamedTuple

import configuration
from checkpoints import sentence_folder, weight_files
from common import errors, file_io, json_files, run_settings


class _Head(NamedTuple):
  """A head's use (a verb), its script, and one of its variables."""

  use: str
  script: str
  variable: str


_HEADS = {
  "classification": _Head("classify", "run_classifier.py", "output_weights"),
  "tagging": _Head("tag words", "run_ner.py", "output_weights"),
  "span": _Head("answer questions", "run_squad.py", "cls/squad/output_weights"),
  "masked_lm": _Head(
    "fill in [MASK]", "run_pretraining.py", "cls/predictions/output_bias"
  ),
  "next_sentence": _Head(
    "tell whether a text follows",
    "run_pretraining.py",
    "cls/seq_relationship/output_weights",
  ),
}


def require(head: str, settings: run_settings.Settings) -> None:
  """Raises InputError if the weights lack the head, or cannot be read.

  The head "embedding" has no weights. Weights in --output_dir are not checked,
  because the same script wrote them.

  Args:
    head: one of flag_values.SERVING_HEADS.
    settings: must have `bert_config_file`, `init_checkpoint` and, in a script
      that trains, `output_dir`.
  """
  if head == "embedding" or _has_checkpoint(settings.get("output_dir")):
    return
  if not settings.init_checkpoint:
    return
  values = json_files.read(settings.bert_config_file)
  present = _present(values, settings.init_checkpoint)
  head = "masked_lm" if head == "sparse" else head
  if head in present:
    return
  name = settings.get("model_dir") or settings.init_checkpoint
  use, script, _ = _HEADS[head]
  if not present:
    raise errors.InputError(
      f"{name} has no head to {use}: it is only an encoder; train the head "
      f"first ({script}), or pass a model with this head"
    )
  done = " and ".join(_HEADS[each].use for each in present)
  labels = ", ".join((values.get("id2label") or {}).values())
  raise errors.InputError(
    f"{name} was trained to {done}{f' ({labels:.200})' if labels else ''}, not "
    f"to {use}; pass a model for this task, or train this model for it "
    f"({script} --do_train)"
  )


def of(settings: run_settings.Settings) -> str:
  """Returns the name of the head in the weights, or "embedding" without a head.

  The name is "sparse" if the folder's modules.json lists SpladePooling. For
  `settings` see `require`. Raises InputError: a file cannot be read.
  """
  folder = os.path.dirname(settings.bert_config_file)
  names, *_ = sentence_folder.read_modules(folder)
  if names[1:] == [sentence_folder.SPARSE]:
    return "sparse"
  values = json_files.read(settings.bert_config_file)
  return next(iter(_present(values, settings.init_checkpoint)), "embedding")


def _present(values, checkpoint):
  names = weight_files.open_reader(checkpoint).shapes
  present = [name for name, each in _HEADS.items() if each.variable in names]
  # Classification and tagging share a variable, so the configuration decides.
  if "tagging" in present and (known := configuration.head_of(values)):
    present = [known, *present[2:]]
  return present


def _has_checkpoint(folder):
  """Returns whether a folder has checkpoints of a run."""
  return bool(folder) and any(
    re.match(r"model\.ckpt-\d+\.index$", name)
    for name in file_io.names_in(folder)
  )
