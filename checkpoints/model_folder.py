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
from common import file_io


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
    os.path.join(folder, "bert_config.json"), config.to_json_string()
  )
  if vocab_file:
    with tf.io.gfile.GFile(vocab_file, "r") as stream:
      file_io.write_text(os.path.join(folder, "vocab.txt"), stream.read())
  if do_lower_case is not None:
    huggingface.write_tokenizer_config(
      folder, do_lower_case, config.max_position_embeddings
    )
  logging.info("the model is in %s", folder)
