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

import checkpoints
import data_files
import json_files

_TOKENIZER_CONFIG = "tokenizer_config.json"


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
  checkpoints.write_tf1(
    os.path.join(folder, "bert_model.ckpt"),
    {variable.name.split(":")[0]: variable for variable in variables},
  )
  data_files.write_text(
    os.path.join(folder, "bert_config.json"), config.to_json_string()
  )
  if vocab_file:
    with tf.io.gfile.GFile(vocab_file, "r") as stream:
      data_files.write_text(os.path.join(folder, "vocab.txt"), stream.read())
  if do_lower_case is not None:
    json_files.write(
      os.path.join(folder, _TOKENIZER_CONFIG),
      {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": bool(do_lower_case),
        "model_max_length": config.max_position_embeddings,
      },
    )
  logging.info("the model is in %s", folder)


def tokenizer_config_beside(vocab_file):
  """Returns the path of the tokenizer_config.json of a vocabulary."""
  return os.path.join(os.path.dirname(vocab_file or ""), _TOKENIZER_CONFIG)


def read_do_lower_case(path):
  """Returns what a tokenizer_config.json says of the case, None for nothing.

  Raises:
    InputError: it is no JSON.
  """
  if not tf.io.gfile.exists(path):
    return None
  known = json_files.read(path).get("do_lower_case")
  return known if isinstance(known, bool) else None
