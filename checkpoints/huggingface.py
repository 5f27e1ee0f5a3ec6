"""Hugging Face folders: read and written with safetensors, without PyTorch.

  config.json                          the model's shape
  model.safetensors                    the weights, or several of them with
  model.safetensors.index.json         a list of what is where
  vocab.txt, tokenizer_config.json     the vocabulary

Hugging Face's "gelu" is the exact one, made with erf; the original's "gelu" is
the one made with tanh, which Hugging Face calls "gelu_new". So the names of
the two change on the way, and the function stays.
"""

import os
import re

import ml_dtypes  # noqa: F401  (lets safetensors hand out bfloat16)
import numpy as np
import safetensors
import safetensors.numpy
import tensorflow as tf

from checkpoints import weight_names
from common import config_formats, errors, file_io, json_files

_WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_TOKENIZER = "tokenizer_config.json"

# Made from others when a model is loaded; older files carry copies.
_POSITIONS = "bert.embeddings.position_ids"
_TIED = {
  "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
  "cls.predictions.decoder.bias": "cls.predictions.bias",
}


def is_checkpoint(path):
  """Whether a path is a .safetensors file or a folder with one."""
  if path.endswith((".safetensors", ".safetensors.index.json")):
    return True
  return bool(_model_folder(path))


def _model_folder(path):
  """Folder with the weights, below `path` in old sentence-transformers."""
  for folder in (path, os.path.join(path, "0_Transformer")):
    for name in (_WEIGHTS, _INDEX):
      if tf.io.gfile.exists(os.path.join(folder, name)):
        return folder
  return None


class Reader:
  """A Hugging Face model under TF1 names, read when it is asked for.

  Attributes:
    path: the folder or file.
    shapes: dict from TF1 name to shape; names that no row of
      `weight_names.table` has are as in the file.
    config: dict for `BertConfig.from_dict`, or None if there is no config.json.
    notes: sentences about what the numbers alone do not tell.
  """

  kind = "Hugging Face"

  def __init__(self, path):
    """Opens a folder, a .safetensors file or the index of several.

    Raises:
      InputError: a file is missing, damaged, or of another kind of model.
    """
    self.path = path
    is_folder = tf.io.gfile.isdir(path)
    folder = _model_folder(path) if is_folder else os.path.dirname(path)
    self.config = None
    if tf.io.gfile.exists(os.path.join(folder, "config.json")):
      config_path = os.path.join(folder, "config.json")
      self.config = config_formats.from_huggingface(
        json_files.read(config_path), config_path
      )
    self._files = _open_files(path if not is_folder else _weights_of(folder))
    self._names = _tf1_names(self._files)
    self.shapes = {
      tf1: tuple(self._files[name].get_slice(name).get_shape())
      for tf1, (name, layout) in sorted(self._names.items())
    }
    for tf1, (_, layout) in self._names.items():
      if layout == "transposed":
        self.shapes[tf1] = self.shapes[tf1][::-1]
    self.notes = _notes(path, folder, self._files)
    self._check_tied()

  def read(self, name):
    """Returns the value of one TF1 name as a numpy array."""
    theirs, layout = self._names[name]
    value = self._files[theirs].get_tensor(theirs)
    if value.dtype.name in ("float16", "bfloat16"):
      value = value.astype(np.float32)
    return weight_names.to_tf1(value, layout)

  def _check_tied(self):
    """Raises InputError if a copy of a weight is not one.

    Its table and the head's then differ, which TF1 names cannot say.
    """
    for copy, original in _TIED.items():
      names = [_as_in_file(n, self._files) for n in (copy, original)]
      if all(names):
        values = [self._files[n].get_tensor(n) for n in names]
        if not np.array_equal(*values):
          raise errors.InputError(
            f"{self.path}: {names[0]} differs from {names[1]}; only models "
            "that share them can be read"
          )


def _as_in_file(name, files):
  """The name, with or without "bert.", that the file has; None if neither."""
  return next((n for n in (name, name[5:]) if n in files), None)


def _weights_of(folder):
  single = os.path.join(folder, _WEIGHTS)
  return single if tf.io.gfile.exists(single) else os.path.join(folder, _INDEX)


def _open_files(path):
  """Returns {tensor name: open file that has it}."""
  if not path.endswith(".json"):
    opened = _open(path)
    return {name: opened for name in opened.keys()}
  weight_map = json_files.read(path).get("weight_map", {})
  folder = os.path.dirname(path)
  opened = {
    name: _open(os.path.join(folder, name))
    for name in sorted(set(weight_map.values()))
  }
  for name, file in weight_map.items():
    if name not in opened[file].keys():
      raise errors.InputError(
        f"{os.path.join(folder, file)} has no {name}, which {path} says it "
        "has; copy all files again"
      )
  return {name: opened[file] for name, file in weight_map.items()}


def _open(path):
  if file_io.is_remote(path):
    raise errors.InputError(f"{path} is not on a local disk; copy it to one")
  if not os.path.exists(path):
    raise errors.InputError(f"no such file: {path}; copy all of the model")
  try:
    return safetensors.safe_open(path, framework="numpy")
  except (safetensors.SafetensorError, OSError) as error:
    raise errors.InputError(
      f"{path} is no readable safetensors file ({error}); it is damaged or cut "
      "off: copy it again"
    ) from error


def _tf1_names(names):
  """Returns {TF1 name: (name in the file, layout)}."""
  layers = (re.search(r"\bencoder\.layer\.(\d+)\.", name) for name in names)
  count = max((int(m.group(1)) + 1 for m in layers if m), default=0)
  table = weight_names.table(count)
  rows = {row.huggingface: row for row in table if row.huggingface}
  found = {}
  for name in names:
    full = _full_name(name)
    if full in rows:
      found[rows[full].tf1] = (name, rows[full].huggingface_layout)
    elif full != _POSITIONS and full not in _TIED:
      found[name] = (name, "same")
  return found


def _full_name(name):
  """The name as models with a head save it today."""
  name = re.sub(r"^(?=(embeddings|encoder|pooler)\.)", "bert.", name)
  # Files of before 2019 name the two as TensorFlow does.
  name = re.sub(r"(?<=LayerNorm\.)gamma$", "weight", name)
  return re.sub(r"(?<=LayerNorm\.)beta$", "bias", name)


def _notes(path, folder, files):
  """Sentences on pooling, label names, casing and number formats."""
  notes = []
  dtypes = {files[name].get_slice(name).get_dtype() for name in files}
  small = sorted(dtypes & {"F16", "BF16"})
  if small:
    notes.append(f"weights are stored as {', '.join(small)}, read as float32")
  made = [name for name in files if _full_name(name) in (_POSITIONS, *_TIED)]
  if made:
    notes.append(
      f"{', '.join(sorted(made))}: not read, since a model makes it of the rest"
    )
  modules = os.path.join(path, "modules.json")
  if tf.io.gfile.exists(modules):
    notes.append(_sentence_note(path, json_files.read(modules, list)))
  lower = read_do_lower_case(os.path.join(folder, "vocab.txt"))
  if lower is not None:
    notes.append(f"its tokenizer has do_lower_case={lower}")
  return notes


def _sentence_note(path, modules):
  """What sentence-transformers does after the encoder."""
  steps = []
  for module in modules[1:]:
    step = module["type"].split(".")[-1].lower()
    config = os.path.join(path, module["path"], "config.json")
    if step == "pooling" and tf.io.gfile.exists(config):
      modes = [
        key.removeprefix("pooling_mode_")
        for key, on in json_files.read(config).items()
        if key.startswith("pooling_mode_") and on
      ]
      step = f"pooling ({', '.join(modes)})"
    steps.append(step)
  return (
    "a sentence-transformers model: only its encoder is read; its sentence "
    f"vectors are made from the last layer by {', then '.join(steps)}"
  )


# Writing


# Class of transformers -> what its TF1 names start with, besides the encoder's.
# The first one that has all its names is taken, so a head of tokens has to be
# asked for: its names are those of a head of sentences.
ARCHITECTURES = {
  "BertForQuestionAnswering": ["cls/squad/"],
  "BertForSequenceClassification": ["output_"],
  "BertForTokenClassification": ["output_"],
  "BertForPreTraining": ["cls/seq_relationship/", "cls/predictions/"],
  "BertForMaskedLM": ["cls/predictions/"],
  "BertForNextSentencePrediction": ["cls/seq_relationship/"],
  "BertModel": [],
}


def architecture_of(names):
  """The class of transformers for a model with these TF1 names."""
  return next(
    architecture
    for architecture, prefixes in ARCHITECTURES.items()
    if all(any(n.startswith(prefix) for n in names) for prefix in prefixes)
  )


def write(folder, weights, config, *, architecture=None, do_lower_case=None):
  """Writes config.json, model.safetensors and tokenizer_config.json.

  Args:
    folder: an existing folder.
    weights: dict from TF1 name to numpy array.
    config: dict of a bert_config.json.
    architecture: a class of transformers; by default `architecture_of`.
    do_lower_case: bool for the tokenizer, or None to write nothing about it.

  Returns:
    dict from TF1 name to the name in the file; what has none there (optimizer
    state) is left out.
  """
  architecture = architecture or architecture_of(weights)
  rows = [
    row
    for row in weight_names.table(weight_names.count_layers(weights))
    if row.tf1 in weights and row.huggingface
  ]
  # A model without a head is saved without the name of its encoder.
  prefix = "bert." if architecture == "BertModel" else ""
  names = {row.tf1: row.huggingface.removeprefix(prefix) for row in rows}
  heads = config["num_attention_heads"]
  tensors = {
    names[row.tf1]: weight_names.from_tf1(
      np.asarray(weights[row.tf1]), row.huggingface_layout, heads
    )
    for row in rows
  }
  with file_io.atomic_write(os.path.join(folder, _WEIGHTS)) as temporary:
    # Not `save_file`: only the owner could read what that writes.
    with open(temporary, "wb") as stream:
      stream.write(safetensors.numpy.save(tensors, {"format": "pt"}))
  json_files.write(
    os.path.join(folder, "config.json"),
    config_formats.to_huggingface(config, architecture),
  )
  if do_lower_case is not None:
    write_tokenizer_config(
      folder, do_lower_case, config["max_position_embeddings"]
    )
  return names


def write_tokenizer_config(folder, do_lower_case, max_length):
  """Writes a tokenizer_config.json: its case, and the most tokens of a text."""
  json_files.write(
    os.path.join(folder, _TOKENIZER),
    {
      "tokenizer_class": "BertTokenizer",
      "do_lower_case": bool(do_lower_case),
      "model_max_length": max_length,
    },
  )


def read_do_lower_case(vocab_file):
  """Returns the case that a file next to a vocabulary gives, or None.

  Raises:
    InputError: the tokenizer_config.json there is no JSON object.
  """
  path = os.path.join(os.path.dirname(vocab_file), _TOKENIZER)
  if not tf.io.gfile.exists(path):
    return None
  known = json_files.read(path).get("do_lower_case")
  return known if isinstance(known, bool) else None
