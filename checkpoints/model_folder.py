"""A trained model as a folder that the next task can start from.

  bert_model.ckpt.index, .data-00000-of-00001   weights, in TF1 layout
  bert_config.json                              the model's shape
  vocab.txt                                     its vocabulary, if known
  tokenizer_config.json                         the case of its text, if known

The layout is that of the released models, so the original reads it too; the
last file is Hugging Face's.
"""

import os

import tensorflow as tf
from absl import logging

from checkpoints import huggingface, weight_files
from common import errors, file_io

_CONFIG_FILES = ("bert_config.json", "config.json")
_VOCABULARY = "vocab.txt"


def write(folder, variables, config, vocab_file=None, do_lower_case=None):
  """Writes a model folder; each file whole or not at all.

  Args:
    folder: made where it does not exist; files of the same name are replaced.
    variables: tf.Variables, written under their names.
    config: modeling.BertConfig.
    vocab_file: copied if given.
    do_lower_case: how text becomes words of the vocabulary; None: not known.
  """
  tf.io.gfile.makedirs(folder)
  weight_files.write_tf1(
    os.path.join(folder, "bert_model.ckpt"),
    {variable.name.split(":")[0]: variable for variable in variables},
  )
  file_io.write_text(
    os.path.join(folder, _CONFIG_FILES[0]), config.to_json_string()
  )
  if vocab_file:
    with tf.io.gfile.GFile(vocab_file, "r") as stream:
      file_io.write_text(os.path.join(folder, _VOCABULARY), stream.read())
  if do_lower_case is not None:
    huggingface.write_tokenizer_config(
      folder, do_lower_case, config.max_position_embeddings
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
  if _VOCABULARY in names:
    found["vocab_file"] = os.path.join(folder, _VOCABULARY)
  return found
