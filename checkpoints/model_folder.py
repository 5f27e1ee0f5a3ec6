"""Names of a model folder's files, and the input settings in its configuration.

For the files see model_files. The released models have the same layout, so the
original can read a folder of this project. tokenizer_config.json has Hugging
Face's format. No TensorFlow.
"""

import os
import re
from collections.abc import Collection, Iterator
from typing import NoReturn

import configuration
from common import errors, file_io, json_files, program

CHECKPOINT = "bert_model.ckpt"
CONFIG_FILES = ("bert_config.json", "config.json")
# Hugging Face's weights, in order of precedence.
WEIGHTS = (
  "model.safetensors",
  "model.safetensors.index.json",
  "pytorch_model.bin",
  "pytorch_model.bin.index.json",
)
# Keys of the input settings in bert_config.json: the current and the old one.
INPUT_KEYS = ("input_settings", "classifier_input")


def refuse_missing_config(folder: str, names: Collection[str]) -> NoReturn:
  """Raises InputError: a folder with these names has no configuration."""
  advice = "the folder of a model, or name its files with other flags"
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
    paths = [os.path.join(folder, n) for folder in folders for n in WEIGHTS]
    paths = [name for name in paths if file_io.exists(name)]
  for file in paths:
    ending = re.search(r"\.(bin|safetensors)(\.index\.json)?$", file)
    # A .bin path without a file may be the prefix of a TensorFlow checkpoint.
    if ending and (ending[0] != ".bin" or file_io.exists(file)):
      if ending[1] == "bin":
        _require_torch(file)
      return file
  return None


def _require_torch(path: str) -> None:
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


def _models_below(folder: str) -> Iterator[str]:
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
