"""Reads SavedModel folders of Model Garden's exporter, from TF Hub and Kaggle.

  saved_model.pb                             the graph
  variables/variables.index, .data-...       the weights, see model_garden
  assets/vocab.txt                           the vocabulary

Such a folder has no configuration. The shapes of the weights give the sizes,
the operations of the graph give the activation, and a variable says whether
text is lower-cased. `describe` writes this to a temporary model folder. Other
folders need no TensorFlow here.
"""

import atexit
import functools
import os
import re
import shutil
import tempfile
from typing import TYPE_CHECKING

import numpy as np

from common import errors, file_io, json_files

if TYPE_CHECKING:
  from checkpoints import weight_names

_GRAPH, _ASSETS = "saved_model.pb", "assets"
# Prefix of the weights below the folder.
_WEIGHTS = os.path.join("variables", "variables")
# A file in modules of TensorFlow 1, which have another layout.
_TF1_MODULE = "tfhub_module.pb"
# A file in this project's own SavedModels.
_OWN_EXPORT = os.path.join("assets.extra", "answers.json")
_VOCABULARIES = ("vocab.txt", "spiece.model")
_CASE = "do_lower_case/.ATTRIBUTES/VARIABLE_VALUE"
# {operation that only this activation has: activation}. All graphs have Tanh.
_ACTIVATIONS = {
  "Erf": "gelu_erf",
  "Erfc": "gelu_erf",
  "Pow": "gelu",
  "Relu": "relu",
  "Sigmoid": "silu",
}
# Settings of the layers in Keras's metadata: {name: the value of BERT}.
_BERTS = {"norm_first": "false", "norm_epsilon": "1e-12"}


def is_one(path: str) -> bool:
  """Returns whether a path is the folder of such a SavedModel.

  Raises InputError: it is a module of TensorFlow 1.
  """
  if not file_io.is_folder(path):
    return False
  names = file_io.names_in(path)
  if _TF1_MODULE in names:
    raise errors.InputError(
      f"{path} is a hub module of TensorFlow 1 ({_TF1_MODULE}), which is not "
      "supported: pass the TensorFlow 2 SavedModel of the same model (a later "
      "version on TF Hub or Kaggle), or its checkpoint bert_model.ckpt"
    )
  return (
    _GRAPH in names
    and file_io.exists(os.path.join(path, f"{_WEIGHTS}.index"))
    and not file_io.exists(os.path.join(path, _OWN_EXPORT))
  )


def weights_prefix(folder: str) -> str:
  """Returns the prefix of the folder's weights."""
  return os.path.join(folder, _WEIGHTS)


def describe(
  folder: str, reader: "weight_names.Reader"
) -> "weight_names.Reader":
  """Adds the configuration, and a folder with it, to a reader.

  The temporary folder has bert_config.json, the vocabulary and
  tokenizer_config.json, and exists until the process ends.
  `reader` reads the folder's weights. Raises InputError: the model is not a
  BERT encoder.
  """
  if not reader.num_heads:
    raise errors.InputError(
      f"{folder} is a SavedModel of TensorFlow 1, which is not supported: pass "
      "the checkpoint from which it was exported"
    )
  unknown = [name for name in reader.shapes if ".ATTRIBUTES" in name]
  if unknown:
    raise errors.InputError(
      f"{folder} has weights that BERT lacks: {file_io.listed(unknown)}; only "
      "BERT's encoders of Model Garden are supported"
    )
  _check_layers(folder)
  reader.file_format, reader.path = "SavedModel of Model Garden", folder
  reader.config = {
    **_sizes(reader.shapes),
    "num_attention_heads": int(reader.num_heads),
    "hidden_act": _activation(folder),
  }
  reader.folder = _unpack(folder, json_files.line(reader.config))
  return reader


def _sizes(shapes: dict[str, tuple[int, ...]]) -> dict[str, int]:
  """Returns the sizes of a configuration from the shapes of the weights."""
  tables = {
    size: shapes[f"bert/embeddings/{name}_embeddings"]
    for size, name in {
      "vocab_size": "word",
      "max_position_embeddings": "position",
      "type_vocab_size": "token_type",
    }.items()
  }
  layers = {m[0] for m in map(re.compile(r"layer_\d+").search, shapes) if m}
  _, inner_width = shapes["bert/encoder/layer_0/intermediate/dense/kernel"]
  return {
    **{size: int(rows) for size, (rows, _) in tables.items()},
    "hidden_size": int(tables["vocab_size"][1]),
    "intermediate_size": int(inner_width),
    "num_hidden_layers": len(layers),
  }


def _activation(folder: str) -> str:
  """Returns hidden_act; raises InputError if no operation shows it."""
  # TensorFlow takes seconds to import.
  from google.protobuf import message
  from tensorflow.core.protobuf import saved_model_pb2

  path = os.path.join(folder, _GRAPH)
  model = saved_model_pb2.SavedModel()
  try:
    with file_io.open_for_reading(path) as stream:
      model.ParseFromString(stream.read())
  except message.DecodeError as error:
    raise errors.InputError(
      f"{path} is damaged ({error}); copy it again"
    ) from error
  operations = {
    node.op
    for graph in model.meta_graphs
    for function in graph.graph_def.library.function
    for node in function.node_def
  }
  for operation, activation in _ACTIVATIONS.items():
    if operation in operations:
      return activation
  raise errors.InputError(
    f"{path} has none of the operations {', '.join(_ACTIVATIONS)}, which show "
    "the activation: pass the model's checkpoint and --bert_config_file"
  )


def _check_layers(folder: str) -> None:
  """Raises InputError if Keras's metadata describe other layers than BERT's."""
  path = os.path.join(folder, "keras_metadata.pb")
  if not file_io.exists(path):
    return
  with file_io.open_for_reading(path) as stream:
    text = stream.read().decode("utf-8", "replace")
  for name, known in _BERTS.items():
    values = {*re.findall(rf'"{name}": ([^,}}\s]+)', text)}
    if differing := sorted(values - {known}):
      raise errors.InputError(
        f"{path}: {name} is {differing[0]}, which is not supported; expected "
        f"{known}"
      )


@functools.cache
def _unpack(folder: str, config: str) -> str:
  """Writes the temporary folder; `config` is the configuration's text."""
  import tensorflow as tf

  target = tempfile.mkdtemp(prefix=os.path.basename(os.path.abspath(folder)))
  atexit.register(shutil.rmtree, target, ignore_errors=True)
  file_io.write_text(os.path.join(target, "bert_config.json"), config)
  for name in _VOCABULARIES:
    source = os.path.join(folder, _ASSETS, name)
    if file_io.exists(source):
      with file_io.open_for_reading(source) as stream:
        file_io.write_bytes(os.path.join(target, name), stream.read())
  weights = tf.train.load_checkpoint(weights_prefix(folder))
  if _CASE in weights.get_variable_to_shape_map():
    json_files.write(
      os.path.join(target, "tokenizer_config.json"),
      {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": bool(np.asarray(weights.get_tensor(_CASE))),
      },
    )
  return target
