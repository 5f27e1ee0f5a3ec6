"""Writes a trained model to a folder from which another run can start.

See model_folder for the files of a folder, and sentence_folder for the files
that sentence-transformers reads.
"""

import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

import configuration
import named_weights
from checkpoints import (
  huggingface,
  model_folder,
  sentence_folder,
  sentence_pooling,
  tokenizer_files,
  weight_files,
)
from common import file_io


def write(
  folder: str,
  variables: Iterable[tf.Variable] | Mapping[str, tf.Variable],
  config: configuration.BertConfig,
  vocab_file: str | None = None,
  do_lower_case: bool | None = None,
  *,
  never_split: Sequence[str] | None = None,
  step: int | None = None,
) -> None:
  """Writes a model folder; each file is written atomically.

  Args:
    folder: created if missing; files with the same name are replaced.
    variables: the weights; a mapping can give them other names.
    vocab_file: copied if given.
    do_lower_case: whether text is lower-cased; None: unknown.
    never_split: see tokenizer_files.write.
    step: number of training steps of the weights, if known.
      As in the original: it is stored as `global_step`.
  """
  file_io.make_folder(folder)
  # Write the weights first: a folder with a configuration must have weights.
  values = weight_files.by_name(variables)
  if step is not None:
    values["global_step"] = np.int64(step)
  weight_files.write_tf1(os.path.join(folder, model_folder.CHECKPOINT), values)
  write_config(folder, config, vocab_file, do_lower_case, never_split)
  logging.info("the model is in %s", folder)


def write_config(
  folder: str,
  config: configuration.BertConfig,
  vocab_file: str | None,
  do_lower_case: bool | None,
  never_split: Sequence[str] | None = None,
  *,
  max_length: int | None = None,
) -> None:
  """Writes all files of a model folder except the weights."""
  path = os.path.join(folder, model_folder.CONFIG_FILES[0])
  file_io.write_text(path, config.to_json_string())
  tokenizer_files.write(
    folder,
    vocab_file,
    do_lower_case,
    max_length or config.max_position_embeddings,
    never_split=never_split,
  )


def is_for_sentences(
  config: configuration.BertConfig, pooling: sentence_pooling.Pooling
) -> bool:
  """Returns whether sentence-transformers can compute a model's vectors."""
  last = config.num_hidden_layers - 1
  return (
    not configuration.only_here(config)
    and pooling.mode in sentence_folder.KINDS
    and pooling.layers in (((-1,),), ((last,),))
  )


def write_sentence_model(
  folder: str,
  variables: Iterable[tf.Variable],
  config: configuration.BertConfig,
  vocab_file: str | None,
  do_lower_case: bool | None,
  *,
  pooling: sentence_pooling.Pooling | None = None,
  sparse: tuple[str, str] | None = None,
  max_length: int,
  never_split: Sequence[str] = (),
) -> None:
  """Writes an encoder for sentence-transformers, each file atomically.

  It also writes bert_config.json with the input settings. For arguments see
  `write`. `is_for_sentences` must hold for the model. `max_length` is the
  maximum number of tokens per text. Instead of `pooling`, `sparse` has the two
  rules (flag_values.SPARSE_RULES) of sparse vectors.
  """
  file_io.make_folder(folder)
  huggingface.write(
    folder,
    {named_weights.variable_name(v): v.numpy() for v in variables},
    config.to_dict(),
    do_lower_case=do_lower_case,
    vocab_file=vocab_file,
    never_split=never_split,
    keeps_rule=True,
  )
  if sparse:
    sentence_folder.write_sparse_modules(folder, max_length, sparse)
  else:
    assert pooling
    width = config.hidden_size
    sentence_folder.write_modules(folder, width, max_length, pooling)
  # Write the configuration last, because it marks a complete folder.
  path = os.path.join(folder, "bert_config.json")
  file_io.write_text(path, config.to_json_string())
  logging.info("the model is in %s", folder)
