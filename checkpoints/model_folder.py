"""A trained model as a folder that the next task can start from.

  bert_model.ckpt.index, .data-00000-of-00001   weights, in TF1 layout
  bert_config.json                              the model's shape
  vocab.txt, spiece.model or tokenizer.json     its vocabulary, if known
  tokenizer_config.json                         the case of its text, if known

The layout is that of the released models, so the original reads it too; the
last file is Hugging Face's.
"""

import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

import configuration
import modeling
from checkpoints import tokenizer_files, weight_files
from common import errors, file_io, json_files

CHECKPOINT = "bert_model.ckpt"
_CONFIG_FILES = ("bert_config.json", "config.json")
# In bert_config.json; folders of before this name said classifier_input.
INPUT_KEYS = ("input_settings", "classifier_input")


def write(
  folder: str, variables: Iterable[tf.Variable] | Mapping[str, tf.Variable],
  config: modeling.BertConfig,
  vocab_file: str | None = None, do_lower_case: bool | None = None, *,
  never_split: Sequence[str] | None = None, step: int | None = None,
) -> None:
  """Writes a model folder; each file whole or not at all.

  Args:
    folder: made where it does not exist; files of the same name are replaced.
    variables: by name where a file is to have other names than they have.
    vocab_file: copied if given.
    do_lower_case: how text becomes words of the vocabulary; None: not known.
    never_split: as of tokenizer_files.write.
    step: how many steps the weights were trained for, if known: it is stored
      as `global_step`, which the original's checkpoints have too.
  """
  tf.io.gfile.makedirs(folder)
  # The weights first: the configuration makes the folder one of a model.
  values = weight_files.by_name(variables)
  if step is not None:
    values["global_step"] = np.int64(step)
  weight_files.write_tf1(os.path.join(folder, CHECKPOINT), values)
  write_config(folder, config, vocab_file, do_lower_case, never_split)
  logging.info("the model is in %s", folder)


def write_config(
  folder: str, config: modeling.BertConfig, vocab_file: str | None,
  do_lower_case: bool | None, never_split: Sequence[str] | None = None,
) -> None:
  """Writes all of a model folder but the weights."""
  path = os.path.join(folder, _CONFIG_FILES[0])
  file_io.write_text(path, config.to_json_string())
  tokenizer_files.write(
    folder, vocab_file, do_lower_case, config.max_position_embeddings,
    never_split=never_split,
  )


def find(folder: str) -> dict[str, str]:
  """Returns the paths of a model's files, under the names of their flags.

  These are bert_config_file, init_checkpoint and, where there is one,
  vocab_file. Raises InputError: it has no configuration.
  """
  names = tf.io.gfile.listdir(folder) if tf.io.gfile.isdir(folder) else None
  if names is None:
    raise errors.InputError(
      f"--model_dir={folder}: no such folder, and no model is downloaded by "
      "its name; download one first: python download.py --list"
    )
  # gs:// lists folders with a slash at the end.
  names = {name.rstrip("/") for name in names}
  configs = [name for name in _CONFIG_FILES if name in names]
  if not configs:
    advice = "the folder of a model, or --bert_config_file and the others"
    for name in sorted(_models_below(folder)):
      advice = f"--model_dir={name}"
    raise errors.InputError(
      f"--model_dir={folder} has no {' or '.join(_CONFIG_FILES)}; pass {advice}"
    )
  found = {
    "bert_config_file": os.path.join(folder, configs[0]),
    "init_checkpoint": folder,
  }
  variant = configuration.read(found["bert_config_file"]).get("variant")
  if vocabulary := tokenizer_files.vocabulary_of(folder, names, variant):
    found["vocab_file"] = vocabulary
  return found


def _models_below(folder):
  """Yields the folders with a model at most two levels below a folder."""
  depth = folder.rstrip(os.sep).count(os.sep)
  for path, inside, files in tf.io.gfile.walk(folder):
    path = path.rstrip(os.sep)
    if path.count(os.sep) - depth >= 2:
      inside.clear()
    if not {*_CONFIG_FILES}.isdisjoint(files):
      yield path


def without_input_settings(config: modeling.BertConfig) -> modeling.BertConfig:
  """Returns a configuration that does not say how its input was made."""
  values = config.to_dict().items()
  return modeling.BertConfig.from_dict(
    {name: value for name, value in values if name not in INPUT_KEYS}
  )


def with_input_settings(
  config: modeling.BertConfig, values: dict
) -> modeling.BertConfig:
  """Returns a configuration that says how the model's input was made.

  `values` are by names of flags, such as max_seq_length.
  """
  others = without_input_settings(config).to_dict()
  return modeling.BertConfig.from_dict({**others, INPUT_KEYS[0]: values})


def input_settings(values: dict) -> dict:
  """Returns how the input of a trained model was made, by names of flags.

  `values` are those of its bert_config.json. Raises InputError: the file's
  entry is no dict, or is of a removed setting.
  """
  for key in INPUT_KEYS:
    if key in values:
      source = "the model configuration"
      # A copy: the caller may take entries out.
      found = dict(json_files.field(values, key, dict, source))
      if found.pop("window_pooling", "mean") != "mean":
        raise errors.InputError(
          "the model was trained with --window_pooling=max, which only version "
          "0.1 has; use that version, or train with the mean of the windows"
        )
      return found
  return {}
