"""Converts a checkpoint of any format to a folder of any format.

  tf1, tf2      bert_config.json, bert_model.ckpt.*, vocab.txt: the layout of
                the released models and of this project (see model_folder)
  huggingface   config.json, model.safetensors, vocab.txt, tokenizer.json,
                tokenizer_config.json, special_tokens_map.json
  model_garden  like tf1, but bert_model.ckpt is object-based

The files are first written to a temporary folder (see file_io.new_folder).
"""

import os
from typing import NamedTuple

import numpy as np

import configuration
from checkpoints import (
  huggingface,
  model_folder,
  model_garden,
  model_writer,
  sentence_folder,
  weight_files,
  weight_names,
)
from common import errors, file_io, json_files
from variants import registry, vocabularies, vocabulary_files


class Source(NamedTuple):
  """A model to convert.

  Attributes:
    reader: reads the weights by their TF1 names.
    config: the configuration.
    vocab_file: the vocabulary, if known.
    max_length: the tokenizer's maximum number of tokens per text.
  """

  reader: weight_files.Reader
  config: configuration.BertConfig
  vocab_file: str | None
  max_length: int


class Conversion(NamedTuple):
  """The result of a conversion.

  Attributes:
    names: {TF1 name: name in the new format}.
    left_out: {name in the reader's shapes: reason for not converting it}.
    notes: remarks for the user about the model.
  """

  names: dict[str, str]
  left_out: dict[str, str]
  notes: list[str]


def open_source(
  path: str,
  *,
  bert_config_file: str | None = None,
  vocab_file: str | None = None,
) -> Source:
  """Opens a checkpoint with its configuration and vocabulary.

  Args:
    path: see `weight_files.open_reader`.
    bert_config_file: by default the configuration in the checkpoint's folder.
    vocab_file: by default the folder's, see vocabulary_files.of_folder.

  Raises:
    InputError: a file is missing, damaged or not supported, the files do not
      match, or the model does not fit in memory.
  """
  reader = weight_files.open_reader(path)
  values = _config_values(reader, bert_config_file)
  config = configuration.BertConfig.from_dict(values)
  # Check that the model fits in memory before reading the first tensor.
  config.check_memory(registry.shapes)
  _check_shapes(reader, config)
  if not vocab_file:
    files = vocabulary_files.of_folder(reader.folder, registry.name_of(config))
    vocab_file = files.path if files else None
  max_length = config.max_position_embeddings
  if vocab_file:
    stored = vocabulary_files.VocabularyFiles(vocab_file).max_length
    max_length = min(max_length, stored or max_length)
    # Use the highest id, because the vocabulary may list a token twice.
    last = max(vocabularies.load_vocab(vocab_file).values())
    config.check_vocabulary(last + 1, vocab_file)
  return Source(reader, config, vocab_file, max_length)


def _config_values(
  reader: weight_files.Reader, bert_config_file: str | None
) -> dict:
  if reader.config and not bert_config_file:
    return reader.config
  path = bert_config_file or os.path.join(reader.folder, "bert_config.json")
  if bert_config_file or file_io.exists(path):
    return configuration.read(path)
  # A training run stores the model configuration in this file.
  path, values = json_files.read_optional(reader.folder, "run_fingerprint.json")
  config = json_files.field(values, "bert_config", dict, path, None)
  if not config:
    raise errors.InputError(
      f"{reader.path} ({reader.file_format}) has no configuration in its "
      "folder; pass --bert_config_file"
    )
  return config


def _check_shapes(
  reader: weight_files.Reader, config: configuration.BertConfig
) -> None:
  """Raises InputError if the encoder does not fit the configuration."""
  count = reader.num_heads or config.num_attention_heads
  if count != config.num_attention_heads:
    raise errors.InputError(
      f"{reader.path} has {count} attention heads, but the configuration says "
      f"{config.num_attention_heads}; pass the checkpoint's configuration"
    )
  # Several Hugging Face classes lack the pooler.
  weight_files.check_shapes(
    registry.shapes(config), reader, allowed_missing=registry.OPTIONAL
  )


def convert(
  source: Source,
  output: str,
  to_format: str,
  *,
  architecture: str | None = None,
  do_lower_case: bool | None = None,
) -> Conversion:
  """Writes a model to a folder in the format `to_format`.

  Args:
    output: a folder that is missing or empty.
    to_format: one of flag_values.CHECKPOINT_KINDS.
    architecture, do_lower_case: for "huggingface", see `huggingface.write`. The
      default of do_lower_case is VocabularyFiles.likely_case.

  Raises:
    InputError: the folder is not empty, the format or `architecture` does not
      fit the model, or a file cannot be read or written.
  """
  _check_supported(to_format, source.config)
  left_out = _left_out(source, to_format)
  with file_io.new_folder(output) as temporary:
    values = {
      name: source.reader.read(name)
      for name in source.reader.shapes
      if name not in left_out
    }
    if to_format == "huggingface":
      if do_lower_case is None and source.vocab_file:
        files = vocabulary_files.VocabularyFiles(source.vocab_file)
        do_lower_case = files.likely_case
      names = huggingface.write(
        temporary,
        values,
        source.config.to_dict(),
        architecture=architecture,
        do_lower_case=do_lower_case,
        vocab_file=source.vocab_file,
        max_length=source.max_length,
      )
    else:
      names = _write_tensorflow(temporary, values, source, to_format)
    modules = sentence_folder.copy(
      source.reader.folder, temporary, source.config.vocab_size
    )
  for name in values.keys() - names.keys():
    left_out[name] = f"not part of the {to_format} output"
  notes = _notes(source, to_format)
  if modules:
    notes.append(
      "a sentence-transformers model: its other modules go along unchanged "
      f"({', '.join(modules)})"
    )
  return Conversion(names, left_out, notes)


def _check_supported(to_format: str, config: configuration.BertConfig) -> None:
  variant = configuration.only_here(config) or registry.name_of(config)
  if to_format == "model_garden" and variant != "bert":
    raise errors.InputError(
      f"--to=model_garden supports only BERT, and this model is {variant}"
    )
  if to_format == "huggingface":
    configuration.check_huggingface(config)


def _write_tensorflow(
  folder: str, values: dict[str, np.ndarray], source: Source, to_format: str
) -> dict[str, str]:
  """Writes a complete folder; returns {TF1 name: name in the format}."""
  case = None
  if source.vocab_file:
    files = vocabulary_files.VocabularyFiles(source.vocab_file)
    case = files.do_lower_case
  model_writer.write_config(
    folder, source.config, source.vocab_file, case, max_length=source.max_length
  )
  prefix = os.path.join(folder, model_folder.CHECKPOINT)
  if to_format == "model_garden":
    with weight_files.temporary_prefix(prefix) as temporary:
      return model_garden.write(
        temporary, values, source.config.num_attention_heads
      )
  # tf1 and tf2 share a layout, because TensorFlow 2 can also restore by name.
  weight_files.write_tf1(prefix, values)
  return {name: name for name in values}


def _left_out(source: Source, to_format: str) -> dict[str, str]:
  """Returns {name of a tensor that is not converted: reason}."""
  reader = source.reader
  rows = weight_names.rows(registry.name_of(source.config), reader.shapes)
  known = {row.tf1 for row in rows} | registry.shapes(source.config).keys()

  def reason(name: str) -> str | None:
    if weight_files.is_optimizer_state(name):
      if to_format in ("tf1", "tf2"):
        return None
      return f"optimizer state, which is not converted to {to_format}"
    # Keep all variables of a TF1 checkpoint, because it may be from any task.
    if name in known or reader.file_format == weight_files.TF1:
      return None
    return "not a weight of the encoder or of a known head"

  reasons = {name: reason(name) for name in reader.shapes}
  return {name: why for name, why in reasons.items() if why}


def _notes(source: Source, to_format: str) -> list[str]:
  """Returns remarks for the user about the model."""
  notes = [*source.reader.notes]
  if not source.vocab_file:
    notes.append(
      "no vocabulary is written, because the input's folder lacks "
      f"{' or '.join(vocabulary_files.NAMES)}: pass --vocab_file"
    )
  if source.config.hidden_act == "gelu_erf" and to_format != "huggingface":
    advice = "this project supports it, but google-research/bert does not"
    if to_format == "model_garden":
      advice = "build the Model Garden encoder with this activation"
    notes.append(f"hidden_act is gelu_erf, the exact GELU: {advice}")
  return notes
