"""Reads and writes the files of sentence-transformers in a model folder.

config.json, model.safetensors,          the encoder, in Hugging Face's format
vocab.txt, tokenizer.json, ...
modules.json, sentence_bert_config.json  the modules after the encoder,
1_Pooling/config.json, 2_Normalize/      and the maximum input length
"""

import math
import os
from collections.abc import Collection
from typing import Any

import configuration
from checkpoints import sentence_prompts
from common import errors, file_io, flag_values, json_files
from variants import vocabulary_files

_MODULES = "modules.json"
_POOLING = os.path.join("1_Pooling", "config.json")
# The maximum length; in old versions, the name depends on the encoder.
_LENGTHS = [
  f"sentence_{name}_config.json"
  for name in "bert roberta distilbert camembert albert xlm-roberta".split()
]
# The modules that are an encoder with its tokenizer.
_ENCODERS = ("Transformer", "MLMTransformer")
# The module that computes sparse vectors: a weight per vocabulary token.
SPARSE = "SpladePooling"
# {name of a pooling in this project: its name in sentence-transformers}
KINDS = {"cls": "cls_token", "max": "max_tokens", "mean": "mean_tokens"}


def write_modules(
  folder: str, width: int, max_length: int, pooling: tuple
) -> None:
  """Writes the modules that pool the encoder's last hidden states [B, T, H].

  Args:
    folder: an existing folder.
    width: H.
    pooling: a sentence_pooling.Pooling that sentence-transformers supports.
  """
  mode, _, normalize = pooling
  names = ["Transformer", "Pooling"] + ["Normalize"] * normalize
  _write_modules(folder, names, max_length)
  values = {
    "word_embedding_dimension": width,
    **{
      f"pooling_mode_{external_name}": name == mode
      for name, external_name in KINDS.items()
    },
  }
  json_files.write(os.path.join(folder, _POOLING), values)


def write_sparse_modules(
  folder: str, max_length: int, rules: tuple[str, str]
) -> None:
  """Writes the modules that weigh the vocabulary's tokens (SPLADE).

  Args:
    folder: an existing folder, with the files of a masked language model.
    rules: one of each of flag_values.SPARSE_RULES.
  """
  _write_modules(folder, ["MLMTransformer", SPARSE], max_length)
  keys = "pooling_strategy", "activation_function"
  values = {**dict(zip(keys, rules)), "word_embedding_dimension": None}
  json_files.write(os.path.join(folder, f"1_{SPARSE}/config.json"), values)
  # Without it, sentence-transformers would take the folder for dense vectors.
  path = os.path.join(folder, sentence_prompts.FILE)
  json_files.write(path, {"model_type": "SparseEncoder", "prompts": {}})


def _write_modules(folder: str, names: list[str], max_length: int) -> None:
  """Writes the list of modules, their folders and the maximum length."""
  paths = [""] + [f"{n}_{name}" for n, name in enumerate(names)][1:]
  for path in paths[1:]:
    file_io.make_folder(os.path.join(folder, path))
  places = "sentence_transformers.models"
  if SPARSE in names:
    places = "sentence_transformers.sparse_encoder.models"
  modules = [
    {"idx": n, "name": str(n), "path": path, "type": f"{places}.{name}"}
    for n, (name, path) in enumerate(zip(names, paths))
  ]
  json_files.write(os.path.join(folder, _MODULES), modules)
  lengths = {
    "max_seq_length": max_length,
    # The tokenizer's own setting decides whether text is lower-cased.
    "do_lower_case": False,
  }
  json_files.write(os.path.join(folder, _LENGTHS[0]), lengths)


def copy(
  folder: json_files.Folder | str, target: str, vocab_size: int
) -> list[str]:
  """Copies what a folder says about sentences, besides the encoder's weights.

  These are modules.json and the folders of all modules after the encoder (with
  their weights, if any), the maximum length and the prompts. The encoder's
  folder becomes `target` itself.

  Args:
    folder: the folder of the encoder.
    target: an existing folder.
    vocab_size: the number of tokens, which may have changed.

  Returns:
    The names of the copied modules.

  Raises:
    InputError: a file is damaged or missing, or the first module is not an
      encoder.
  """
  folder = json_files.Folder.at(folder)
  files, root = _root(folder), _root(folder).path
  for source, name in [
    (files, sentence_prompts.FILE),
    *((folder, n) for n in _LENGTHS),
  ]:
    if name in source.names:
      _copy_file(source.path_of(name), os.path.join(target, name))
  path = files.path_of(_MODULES)
  if _MODULES not in files.names:
    return []
  names, _, _ = read_modules(folder)
  modules = [*files.read(_MODULES, list)]
  if not names or names[0] not in _ENCODERS:
    raise errors.InputError(
      f"{path}: the first module is {''.join(names[:1]) or 'missing'}; only "
      f"{' or '.join(_ENCODERS)} can be converted, followed by any modules"
    )
  for name, module in zip(names[1:], modules[1:]):
    folder_name = str(module.get("path") or "")
    # Git stores no empty folder, which leaves copies without this one.
    if name == "Normalize" and not _is_below(root, folder_name):
      continue
    _copy_module(root, folder_name, target)
    if name == SPARSE:
      _widen(os.path.join(target, str(module["path"])), vocab_size)
  # Old versions have the encoder in a subfolder.
  modules[0] = {**modules[0], "path": ""}
  json_files.write(os.path.join(target, _MODULES), modules)
  return names[1:]


def _copy_module(root: str, name: str, target: str) -> None:
  """Copies the folder of a module with all of its files."""
  source = os.path.join(root, name)
  if not _is_below(root, name):
    raise errors.InputError(
      f"{os.path.join(root, _MODULES)}: there is no folder {name!r} next to "
      "it, which has the settings of a module: copy all files of the model"
    )
  file_io.make_folder(os.path.join(target, name))
  for entry in file_io.names_in(source):
    if file_io.is_folder(os.path.join(source, entry)):
      _copy_module(source, entry, os.path.join(target, name))
    else:
      _copy_file(os.path.join(source, entry), os.path.join(target, name, entry))


def _is_below(root: str, name: str) -> bool:
  """Returns whether a folder `root` has a folder of this name."""
  is_name = bool(name) and os.path.basename(name) == name
  return is_name and file_io.is_folder(os.path.join(root, name))


def _copy_file(source: str, target: str) -> None:
  with file_io.open_for_reading(source) as stream:
    file_io.write_bytes(target, stream.read())


def _widen(folder: str, vocab_size: int) -> None:
  """Gives a SpladePooling the number of tokens, if it has a number."""
  path = os.path.join(folder, "config.json")
  values = json_files.read_settings(path)
  # The two names in versions 5 and 6.
  for key in ("word_embedding_dimension", "embedding_dimension"):
    if values.get(key) is not None:
      json_files.write(path, {**values, key: vocab_size})


def read(
  folder: json_files.Folder | str, chosen: Collection[str] = ()
) -> dict[str, Any]:
  """Returns the settings for sentence vectors that a folder stores.

  These are `pooling`, `normalize` and `max_seq_length`. Settings that the
  folder lacks are omitted. Without modules.json, the result is {}.

  Args:
    folder: the folder of the encoder's configuration.
    chosen: names of settings that the user passed. With "pooling", unsupported
      modules or settings cause a warning, and only max_seq_length is returned.

  Raises:
    InputError: a file is damaged, or a module or setting is not supported.
  """
  folder = json_files.Folder.at(folder)
  names, poolings, path = read_modules(folder)
  if not path:
    return {}
  problem = _width_problem(folder) or _case_problem(folder)
  known = ["Transformer", "Pooling", "Normalize"]
  if names not in (known, known[:2]):
    path = _root(folder).path_of(_MODULES)
    problem = f"{path}: the modules are {', '.join(names) or 'none'}"
  elif len(poolings) != 1 or poolings[0] not in KINDS:
    problem = f"{path}: the pooling is {', '.join(poolings) or 'none'}"
  length = _max_length(folder)
  if not problem:
    return {"pooling": poolings[0], "normalize": len(names) == 3, **length}
  sentence = (
    f"{problem}; only Transformer, Pooling ({', '.join(KINDS)}) and Normalize "
    "are supported, without truncation or do_lower_case"
  )
  if "pooling" not in chosen:
    instead = "use sentence-transformers"
    if SPARSE in names:
      instead = (
        "use its sparse vectors: extract_features.py --sparse, or "
        "run_classifier.py with the --losses that trained it"
      )
    raise errors.InputError(
      f"{sentence}: pass --pooling to compute different vectors with this "
      f"encoder, or {instead}"
    )
  errors.warn_once(f"{sentence}: --pooling computes different vectors")
  return length


def read_sparse(folder: json_files.Folder | str) -> dict[str, Any]:
  """Returns the settings for sparse vectors that a folder stores.

  These are `sparse_pooling`, `sparse_activation` and `max_seq_length`, for the
  head "sparse". Without modules.json, the result is {}. Raises InputError: a
  file is damaged, or a module or setting is not supported.
  """
  folder = json_files.Folder.at(folder)
  names, rules, path = read_modules(folder)
  if not path:
    return {}
  problem = _width_problem(folder) or _case_problem(folder)
  if names not in (["Transformer", SPARSE], ["MLMTransformer", SPARSE]):
    path = _root(folder).path_of(_MODULES)
    problem = f"{path}: the modules are {', '.join(names) or 'none'}"
  for rule, known in zip(rules, flag_values.SPARSE_RULES):
    if not problem and rule not in known:
      problem = f"{path}: {rule!r} is not one of {', '.join(known)}"
  if problem:
    raise errors.InputError(
      f"{problem}; this project computes sparse vectors only with Transformer "
      f"or MLMTransformer and then {SPARSE}, without truncation or "
      "do_lower_case: use sentence-transformers for this model"
    )
  keys = "sparse_pooling", "sparse_activation"
  return {**dict(zip(keys, rules)), **_max_length(folder)}


def read_modules(
  folder: json_files.Folder | str,
) -> tuple[list[str], list[str], str]:
  """Returns the names of a folder's modules, its pooling modes, and their file.

  Modes in KINDS get this project's names. SpladePooling has two modes: its
  strategy and its activation. Without modules.json, all three are empty.
  Raises InputError: a file is damaged.
  """
  root = _root(json_files.Folder.at(folder))
  path = root.path_of(_MODULES)
  if _MODULES not in root.names:
    return [], [], ""
  modules = json_files.field(
    {_MODULES: root.read(_MODULES, list)}, _MODULES, list[dict], path
  )
  names = [str(module.get("type")).split(".")[-1] for module in modules]
  if names[1:2] not in (["Pooling"], [SPARSE]):
    return names, [], path
  name = os.path.join(str(modules[1].get("path", "")), "config.json")
  path, values = root.path_of(name), root.read(name, required=True)
  if names[1] == SPARSE:
    defaults = {"pooling_strategy": "max", "activation_function": "relu"}
    rules = [str(values.get(key, default)) for key, default in defaults.items()]
    return names, rules, path
  # Newer versions write a name or a list, older versions a boolean per mode.
  modes = values.get("pooling_mode") or [
    key.removeprefix("pooling_mode_")
    for key, is_on in values.items()
    if key.startswith("pooling_mode_") and is_on is True
  ]
  short = {external_name: name for name, external_name in KINDS.items()}
  modes = [modes] if isinstance(modes, str) else modes
  return names, [short.get(str(mode), str(mode)) for mode in modes], path


def _root(folder: json_files.Folder) -> json_files.Folder:
  """Returns the folder of modules.json for the folder of an encoder."""
  path = folder.path
  path = path if file_io.is_remote(path) else os.path.abspath(path)
  # Old versions write the encoder to a subfolder.
  return folder.parent if os.path.basename(path) == "0_Transformer" else folder


def _width_problem(folder: json_files.Folder) -> str:
  """Returns a problem with the width, or ""; may log a warning."""
  root = _root(folder)
  path = root.path_of(sentence_prompts.FILE)
  values = root.read(sentence_prompts.FILE)
  if width := json_files.field(values, "truncate_dim", int, path, None):
    return f"{path}: vectors are truncated to {width} dimensions"
  function = json_files.field(
    values, "similarity_fn_name", str | None, path, None
  )
  if function not in (None, "cosine"):
    errors.warn_once(
      f"{path}: similarity_fn_name is {function!r}; this project compares "
      "vectors by their cosine"
    )
  return ""


def read_prompts(folder: json_files.Folder | str) -> sentence_prompts.Prompts:
  """Returns the prompts of a folder; raises InputError for a damaged file."""
  folder = json_files.Folder.at(folder)
  root = _root(folder)
  prompts = sentence_prompts.read(root)
  names, _, path = read_modules(folder)
  if names[1:2] != ["Pooling"]:
    return prompts
  # The file has been read, under its name below the root.
  pooling = root.read(path.removeprefix(os.path.join(root.path, "")))
  is_pooled = json_files.field(pooling, "include_prompt", bool, path, True)
  return prompts._replace(not_pooled="" if is_pooled else path)


def _case_problem(folder: json_files.Folder) -> str:
  """Returns a problem if a cased tokenizer gets lower-cased text, or ""."""
  path, values = _encoder_settings(folder)
  if not json_files.field(values, "do_lower_case", bool, path, False):
    return ""
  # Lower-casing twice changes nothing, but a cased tokenizer, or one that does
  # not say that it lower-cases, would get other text here.
  files = vocabulary_files.of_folder(folder)
  if files and files.lowers_text:
    return ""
  return f"{path}: do_lower_case lower-cases text for a cased tokenizer"


def _encoder_settings(folder: json_files.Folder) -> tuple[str, dict[str, Any]]:
  """Returns (path, entries) of the encoder's settings; may log a warning."""
  names = (name for name in _LENGTHS if name in folder.names)
  name = next(names, _LENGTHS[0])
  path, values = folder.path_of(name), folder.read(name)
  # Such as config_args; since version 6, config_kwargs.
  ignored = [key for key, value in values.items() if value and "args" in key]
  if ignored:
    errors.warn_once(
      f"{path}: vectors may differ: this project ignores {', '.join(ignored)}"
    )
  return path, values


def _max_length(folder: json_files.Folder) -> dict[str, int]:
  """Returns {"max_seq_length": number}, or {} without a limit."""
  path, values = _encoder_settings(folder)
  length = json_files.field(values, "max_seq_length", int, path, None)
  if length is None:
    # Newer versions write the length to tokenizer_config.json.
    path = folder.path_of(vocabulary_files.LIST)
    length = vocabulary_files.VocabularyFiles(path, folder).max_length
  positions = math.inf
  if "config.json" in folder.names:
    read = configuration.read(folder.path_of("config.json"), folder)
    positions = read.get("max_position_embeddings", 512)
  length = min(length or math.inf, positions)
  return {} if length == math.inf else {"max_seq_length": int(length)}
