"""Finds the files of a model folder, from which the next task can start.

  bert_model.ckpt.index, .data-00000-of-00001   weights, in TF1 layout
  bert_config.json                              the model configuration
  vocab.txt or tokenizer.json                   the vocabulary, if known
  tokenizer_config.json                         the tokenizer's settings

The released models have the same layout, so the original can read the folder.
tokenizer_config.json has Hugging Face's format.
"""

import os
import re

import configuration
from common import errors, file_io, json_files, program
from variants import vocabulary_files

CHECKPOINT = "bert_model.ckpt"
CONFIG_FILES = ("bert_config.json", "config.json")
# Hugging Face's weights, in order of precedence.
_WEIGHTS = (
  "model.safetensors",
  "model.safetensors.index.json",
  "pytorch_model.bin",
  "pytorch_model.bin.index.json",
)
# Keys of the input settings in bert_config.json: the current and the old one.
INPUT_KEYS = ("input_settings", "classifier_input")


def find(folder: str) -> dict[str, str]:
  """Returns {name of a flag: path} for the files of a model.

  The flags are bert_config_file, init_checkpoint and, if found, vocab_file.
  Raises InputError: no folder, no configuration, or a damaged file.
  """
  if not file_io.is_folder(folder):
    raise errors.InputError(
      f"--model_dir={folder}: no such folder, and models are not downloaded by "
      "name; download one first: python download.py --list"
    )
  names = set(file_io.names_in(folder))
  configs = [name for name in CONFIG_FILES if name in names]
  if not configs:
    advice = (
      "the folder of a model, or --bert_config_file and --init_checkpoint"
    )
    if "adapter_config.json" in names:
      advice = (
        "the base model of this PEFT adapter, merged with the adapter "
        "(merge_and_unload) and saved"
      )
    for name in sorted(_models_below(folder), reverse="modules.json" in names):
      advice = f"--model_dir={name}"
    raise errors.InputError(
      f"--model_dir={folder} has no {' or '.join(CONFIG_FILES)}; pass {advice}"
    )
  path = os.path.join(folder, configs[0])
  values = configuration.read(path)
  # Hugging Face's weights come first, and config.json belongs to them.
  if configs[1:] and not names.isdisjoint(_WEIGHTS):
    other = configuration.read(os.path.join(folder, configs[1]))
    both = values.keys() & other.keys()
    if differing := sorted(key for key in both if values[key] != other[key]):
      errors.warn_once(
        f"{path} is ignored, because its {', '.join(differing)} differs from "
        f"{configs[1]}, which belongs to the folder's weights"
      )
      path, values = os.path.join(folder, configs[1]), other
  paths = {"bert_config_file": path, "init_checkpoint": folder}
  variant = values.get("variant", "bert")
  if vocabulary := vocabulary_files.of_folder(folder, variant):
    paths["vocab_file"] = vocabulary.path
  return paths


def weights_file(path: str) -> str | None:
  """Returns the path of Hugging Face's weights or of their index, or None.

  Raises InputError: the weights need PyTorch, which is missing or too old.

  Args:
    path: a .safetensors or .bin file, an index, or a folder with such a file.
  """
  paths = [path]
  if file_io.is_folder(path):
    # Old versions of sentence-transformers write weights to the second folder.
    folders = path, os.path.join(path, "0_Transformer")
    paths = [os.path.join(folder, n) for folder in folders for n in _WEIGHTS]
    paths = [name for name in paths if file_io.exists(name)]
  for file in paths:
    ending = re.search(r"\.(bin|safetensors)(\.index\.json)?$", file)
    # A .bin path without a file may be the prefix of a TensorFlow checkpoint.
    if ending and (ending[0] != ".bin" or file_io.exists(file)):
      if ending[1] == "bin":
        _require_torch(file)
      return file
  return None


def _require_torch(path):
  """Raises InputError if PyTorch is missing or too old.

  Before version 2.6, a file could run code in spite of `weights_only`.
  """
  version = program.installed_version("torch")
  if [int(part) for part in re.findall(r"\d+", version)[:2]] < [2, 6]:
    raise errors.InputError(
      f"{path} needs torch 2.6 or later (installed: "
      f'{version or "none"}): run pip install "bert-tf2[torch]"; or put the '
      "model's model.safetensors, which most models on the Hub have, next to "
      "it; or pass the path of other weights as --init_checkpoint"
    )


def _models_below(folder):
  """Yields the model folders at most two levels below a folder."""
  paths = [folder]
  for _ in range(2):
    paths = [
      os.path.join(path, name)
      for path in paths
      for name in file_io.names_in(path)
    ]
    for path in paths:
      if not {*CONFIG_FILES}.isdisjoint(file_io.names_in(path)):
        yield path


def without_input_settings(
  config: configuration.BertConfig,
) -> configuration.BertConfig:
  """Returns a copy of a configuration without the input settings."""
  values = config.to_dict().items()
  return configuration.BertConfig.from_dict(
    {name: value for name, value in values if name not in INPUT_KEYS}
  )


def with_input_settings(
  config: configuration.BertConfig, values: dict
) -> configuration.BertConfig:
  """Returns a copy of a configuration with these input settings.

  `values` is {name of a flag, such as max_seq_length: value}.
  """
  others = without_input_settings(config).to_dict()
  return configuration.BertConfig.from_dict({**others, INPUT_KEYS[0]: values})


def input_settings(values: dict) -> dict:
  """Returns {name of a flag: value} for the input of a trained model.

  `values` are from the model's bert_config.json. Raises InputError: the file's
  entry is not a dict, or has a removed setting.
  """
  for key in INPUT_KEYS:
    if key in values:
      source = "the model configuration"
      # Copy the dict, because the caller may remove entries.
      settings = dict(json_files.field(values, key, dict, source))
      if settings.pop("window_pooling", "mean") != "mean":
        raise errors.InputError(
          "the model was trained with --window_pooling=max, which only version "
          "0.1 has; use that version, or train with the mean of the windows"
        )
      return settings
  return {}
