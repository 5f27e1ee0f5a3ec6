"""A trained model as a folder that the next task can start from.

  bert_model.ckpt.index, .data-00000-of-00001   weights, in TF1 layout
  bert_config.json                              the model's shape
  vocab.txt or spiece.model                     its vocabulary, if known
  tokenizer_config.json                         the case of its text, if known

The layout is that of the released models, so the original reads it too; the
last file is Hugging Face's.
"""

import os

import numpy as np
import tensorflow as tf
from absl import logging

import layers
import modeling
from checkpoints import tokenizer_files, weight_files
from common import errors, file_io, json_files
from variants import vocabularies

_CONFIG_FILES = ("bert_config.json", "config.json")
# In bert_config.json; folders of before this name said classifier_input.
INPUT_KEYS = ("input_settings", "classifier_input")


def write(
  folder, variables, config, vocab_file=None, do_lower_case=None, *, step=None
):
  """Writes a model folder; each file whole or not at all.

  Args:
    folder: made where it does not exist; files of the same name are replaced.
    variables: tf.Variables, written under their names.
    config: modeling.BertConfig.
    vocab_file: copied if given.
    do_lower_case: how text becomes words of the vocabulary; None: not known.
    step: how many steps the weights were trained for, if known: it is stored
      as `global_step`, which the original's checkpoints have too.
  """
  tf.io.gfile.makedirs(folder)
  # The weights first: the configuration makes the folder one of a model.
  values = {layers.variable_name(v): v for v in variables}
  if step is not None:
    values["global_step"] = np.int64(step)
  weight_files.write_tf1(os.path.join(folder, "bert_model.ckpt"), values)
  file_io.write_text(
    os.path.join(folder, _CONFIG_FILES[0]), config.to_json_string()
  )
  if vocab_file:
    name = vocabularies.file_name(vocab_file)
    with tf.io.gfile.GFile(vocab_file, "rb") as stream:
      file_io.write_bytes(os.path.join(folder, name), stream.read())
  if do_lower_case is not None:
    tokenizer_files.write(
      folder, do_lower_case, config.max_position_embeddings,
      tokenizer_class=vocabularies.tokenizer_class(vocab_file),
    )
  logging.info("the model is in %s", folder)


def find(folder):
  """Finds a model's files in its folder.

  Args:
    folder: as `write` leaves it, or Hugging Face's, or a released model's.

  Returns:
    dict from "bert_config_file", "vocab_file" and "init_checkpoint" to paths;
    vocab_file is absent where there is none.

  Raises:
    InputError: it has no configuration.
  """
  names = tf.io.gfile.listdir(folder) if tf.io.gfile.isdir(folder) else None
  if names is None:
    raise errors.InputError(f"--model_dir={folder}: no such folder")
  # gs:// lists folders with a slash at the end.
  names = {name.rstrip("/") for name in names}
  configs = [name for name in _CONFIG_FILES if name in names]
  if not configs:
    inside = [name for name in ("final_model", "best_model") if name in names]
    hint = "; pass the folder of a model, or --bert_config_file and the others"
    if inside:
      hint = f"; pass --model_dir={os.path.join(folder, inside[0])}"
    raise errors.InputError(
      f"--model_dir={folder} has no {' or '.join(_CONFIG_FILES)}{hint}"
    )
  found = {
    "bert_config_file": os.path.join(folder, configs[0]),
    "init_checkpoint": folder,
  }
  for name in (vocabularies.LIST, vocabularies.SENTENCEPIECE):
    if name in names:
      found["vocab_file"] = os.path.join(folder, name)
      break
  return found


def without_input_settings(config):
  """Returns a modeling.BertConfig that does not say how its input was made."""
  return modeling.BertConfig.from_dict({
    name: value
    for name, value in config.to_dict().items()
    if name not in INPUT_KEYS
  })


def with_input_settings(config, values):
  """Returns a modeling.BertConfig that says how the model's input was made.

  Args:
    config: modeling.BertConfig.
    values: dict from names of flags, such as max_seq_length, to values that
      JSON can hold.
  """
  others = without_input_settings(config).to_dict()
  return modeling.BertConfig.from_dict({**others, INPUT_KEYS[0]: values})


def input_settings(values):
  """Returns how the input of a trained model was made.

  Args:
    values: dict of its bert_config.json.

  Returns:
    dict from names of flags to values; {} if the file does not say.

  Raises:
    InputError: the file's entry is no dict.
  """
  for key in INPUT_KEYS:
    if key in values:
      # A copy: the caller may take entries out.
      return dict(
        json_files.field(values, key, dict, "the model configuration")
      )
  return {}
