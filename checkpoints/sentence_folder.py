"""A model of sentence vectors as a folder that sentence-transformers reads.

  config.json, model.safetensors,          the encoder, as Hugging Face has it
  vocab.txt, tokenizer.json, ...
  modules.json, sentence_bert_config.json  what follows the encoder, and the
  1_Pooling/config.json, 2_Normalize/      length of its input
"""

import os
from collections.abc import Iterable, Sequence

import tensorflow as tf
from absl import logging

import configuration
import heads
import layers
import modeling
from checkpoints import huggingface
from common import file_io, json_files

_MODULES = "modules.json"
_POOLING = os.path.join("1_Pooling", "config.json")
# Kinds of heads.Pooling that sentence-transformers has, and its names.
KINDS = {"cls": "cls_token", "max": "max_tokens", "mean": "mean_tokens"}


def is_for(config: modeling.BertConfig, pooling: heads.Pooling) -> bool:
  """Whether sentence-transformers can make the vectors of a model."""
  last = config.num_hidden_layers - 1
  return (
    not configuration.only_here(config) and pooling.kind in KINDS
    and pooling.layers in (((-1,),), ((last,),))
  )


def write(
  folder: str, variables: Iterable[tf.Variable], config: modeling.BertConfig,
  vocab_file: str | None, do_lower_case: bool | None, *,
  pooling: heads.Pooling, max_length: int, never_split: Sequence[str] = (),
) -> None:
  """Writes an encoder, each file whole or not at all.

  bert_config.json is there too, with how the model's input was made. Arguments
  as of model_folder.write, the model one that `is_for` approves of;
  `max_length` is the most tokens of a text.
  """
  tf.io.gfile.makedirs(folder)
  huggingface.write(
    folder, {layers.variable_name(v): v.numpy() for v in variables},
    config.to_dict(), do_lower_case=do_lower_case, vocab_file=vocab_file,
    never_split=never_split,
  )
  write_modules(folder, config.hidden_size, max_length, pooling)
  # Last: it makes the folder one of a model.
  path = os.path.join(folder, "bert_config.json")
  file_io.write_text(path, config.to_json_string())
  logging.info("the model is in %s", folder)


def write_modules(
  folder: str, width: int, max_length: int, pooling: tuple
) -> None:
  """Writes what sentence-transformers does with the last states [B, T, H].

  Args:
    folder: an existing folder.
    width: H.
    pooling: as heads.Pooling, of a kind that sentence-transformers has.
  """
  kind, _, normalize = pooling
  names = ["Transformer", "Pooling"] + ["Normalize"] * normalize
  paths = [""] + [f"{n}_{name}" for n, name in enumerate(names)][1:]
  for path in paths[1:]:
    tf.io.gfile.makedirs(os.path.join(folder, path))
  files = {
    _MODULES: [
      {"idx": n, "name": str(n), "path": path,
       "type": f"sentence_transformers.models.{name}"}
      for n, (name, path) in enumerate(zip(names, paths))
    ],
    "sentence_bert_config.json": {
      # The tokenizer has the case.
      "max_seq_length": max_length, "do_lower_case": False,
    },
    _POOLING: {
      "word_embedding_dimension": width,
      **{f"pooling_mode_{theirs}": ours == kind
         for ours, theirs in KINDS.items()},
    },
  }
  for name, values in files.items():
    json_files.write(os.path.join(folder, name), values)


def read(folder: str) -> dict:
  """Returns `pooling` and `normalize` of a folder, {} where it says none.

  Modules that are no part of heads.Pooling say none. Raises InputError: a file
  is damaged.
  """
  path, pooling_path = (os.path.join(folder, n) for n in (_MODULES, _POOLING))
  if not (file_io.exists(path) and file_io.exists(pooling_path)):
    return {}
  modules = json_files.field(
    {_MODULES: json_files.read(path, list)}, _MODULES, list[dict], path
  )
  names = [str(module.get("type")).split(".")[-1] for module in modules]
  values = json_files.read(pooling_path)
  # Newer versions write one name, older ones a truth for each.
  kinds = [
    ours for ours, theirs in KINDS.items()
    if values.get("pooling_mode") == ours
    or values.get(f"pooling_mode_{theirs}") is True
  ]
  known = names[:2] == ["Transformer", "Pooling"]
  if not known or len(kinds) != 1 or names[2:] not in ([], ["Normalize"]):
    return {}
  return {"pooling": kinds[0], "normalize": names[2:] == ["Normalize"]}
