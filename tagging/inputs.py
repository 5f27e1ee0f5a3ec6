"""Reads sentences and writes their windows as TFRecords.

Only a word's first word piece has the word's label, as in the paper (arXiv
1810.04805, section 5.3). Other pieces, [CLS], [SEP] and context have no label.
"""

import os
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

import configuration
import tokenization
from checkpoints import model_folder, model_writer
from common import errors, file_io, run_settings, unknown_tokens
from records import tfrecord
from tagging import data, windowing
from text import input_sequences
from training import run_setup

# The label id of positions without a label, which the loss ignores.
NO_LABEL = -1
# The flags about the model's input that a model folder stores.
INPUT_FLAGS = ("max_seq_length", "document_context", "scheme", "do_lower_case")
# The flags for a BiLSTM on features of a frozen encoder.
HEAD_FLAGS = ("feature_layers", "bilstm_size")
_WINDOWS_SHOWN = 5


class TaggingData(NamedTuple):
  """A file of sentences, with the model's input for these sentences."""

  path: str
  sentences: list[data.Sentence]
  windows: list[windowing.Window]
  records: str  # The TFRecord file of the windows.
  features: dict  # The features of a record, for tf.io.
  is_labelled: bool  # Whether the sentences have labels.
  file_format: str  # One of flag_values.TAGGING_FORMATS.


def files_to_read(settings: run_settings.Settings) -> dict[str, str]:
  """Returns {"train", "eval" or "predict": path} of the files that a run reads.

  Raises InputError: no step is requested, or a flag does not apply to any file.
  """
  run_setup.require_one_of(settings, "do_train", "do_eval", "do_predict")
  paths = run_setup.files_to_read(settings)
  formats = {
    data.format_of(path, settings.file_format) for path in paths.values()
  }
  columns = settings.given & {"word_column", "label_column"}
  if columns and formats <= {"jsonl"}:
    raise errors.InputError(
      f"--{min(columns)} has no effect: all files are JSON lines; leave it out"
    )
  if settings.label_names and "jsonl" not in formats:
    raise errors.InputError(
      "--label_names has no effect: it names numeric labels in files of JSON "
      "lines, and no such file is read; leave it out"
    )
  return paths


def read_all(
  settings: run_settings.Settings, paths: dict
) -> dict[str, list[data.Sentence]]:
  """Returns {name: sentences} for {name: path}."""
  # `labelled=None` reads the labels if the file has any, to score predictions.
  any_labels = None if settings.predict_labels else False
  options = settings.pick(
    "file_format word_column label_column scheme lenient outside_label "
    "label_names"
  )
  return {
    name: data.read(
      path, labelled=any_labels if name == "predict" else True, **options
    )
    for name, path in paths.items()
  }


def model_labels(
  train_sentences: list[data.Sentence] | None,
  labels_file: str,
  config: configuration.BertConfig,
) -> list[str]:
  """Returns the model's labels from the first source that has them.

  The sources are, in this order, the training data, `labels_file`, which
  training writes, and id2label in --bert_config_file. Raises InputError: no
  source has labels.
  """
  if train_sentences:
    return data.label_list(train_sentences)
  if file_io.exists(labels_file):
    return [line for _, line in file_io.read_lines(labels_file)]
  if labels := config.label_names():
    return labels
  raise errors.InputError(
    f"no labels known: there is no {labels_file}, and --bert_config_file has "
    "no id2label; pass --do_train, or --model_dir with the final_model of a "
    "training run"
  )


def trained_config(
  config: configuration.BertConfig, labels: list[str]
) -> configuration.BertConfig:
  """Returns the configuration of a model with these labels.

  A run stores it in its folder, and refuses a folder with different labels.
  """
  # The input settings of the initial weights may belong to another task.
  values = model_folder.without_input_settings(config).to_dict()
  id2label = {str(number): label for number, label in enumerate(labels)}
  return configuration.BertConfig.from_dict({**values, "id2label": id2label})


def write_model(
  folder: str, model: Any, settings: run_settings.Settings, step: int
) -> None:
  """Writes a TaggingModel, after `step` training steps, to a model folder."""
  values = settings.pick(INPUT_FLAGS)
  if settings.feature_layers:
    values |= settings.pick(HEAD_FLAGS)
  config = model_folder.with_input_settings(model.config, values)
  model_writer.write(
    folder,
    model.variables,
    config,
    settings.vocab_file,
    settings.do_lower_case,
    never_split=settings.never_split,
    step=step,
  )


def prepare(
  path: str,
  sentences: list[data.Sentence],
  windows: list[windowing.Window],
  *,
  labels: list[str],
  records: str,
  max_seq_length: int,
  file_format: str,
) -> TaggingData:
  """Writes the records of a file's windows; `labels` are the model's labels."""
  # If one sentence of a file has labels, all its sentences have labels.
  is_labelled = sentences[0].labels is not None
  logging.info(
    "%s: %d sentences, %d words, %d windows",
    path,
    len(sentences),
    sum(len(sentence.words) for sentence in sentences),
    len(windows),
  )
  # A sentence and its context form one text, so all segment ids are 0.
  batch = input_sequences.pad_batch(
    [window.input_ids for window in windows], length=max_seq_length
  )
  # Fill with NO_LABEL, because 0 is the id of a label.
  label_ids = np.full_like(batch["input_ids"], NO_LABEL)
  if is_labelled:
    ids = data.label_ids(sentences, labels, path)
    for row, window in zip(label_ids, windows):
      first = window.first_word
      word_labels = ids[window.sentence][first : first + len(window.positions)]
      row[window.positions] = word_labels
  with tfrecord.RecordWriter(records) as writer:
    writer.write_all(
      tfrecord.serialize_examples({**batch, "label_ids": label_ids})
    )
  integers = tf.io.FixedLenFeature([max_seq_length], tf.int64)
  features = dict.fromkeys((*input_sequences.NAMES, "label_ids"), integers)
  return TaggingData(
    path, sentences, windows, records, features, is_labelled, file_format
  )


def log_windows(
  path: str,
  windows: list[windowing.Window],
  tokenizer: tokenization.FullTokenizer,
) -> None:
  """Logs the tokens of a file's first windows, and the overall [UNK] share."""
  logging.debug("%s: the first examples", path)
  for window in windows[:_WINDOWS_SHOWN]:
    tokens = tokenizer.convert_ids_to_tokens(window.input_ids)
    logging.debug("  %s", " ".join(tokens))
  # Exclude [CLS] and [SEP].
  ids = [i for window in windows for i in window.input_ids[1:-1]]
  unknown = ids.count(tokenizer.vocab.get(tokenizer.unk_token, -1))
  unknown_tokens.log_share(path, unknown, len(ids))


def prepare_all(
  settings: run_settings.Settings,
  paths: dict[str, str],
  sentences: dict[str, list[data.Sentence]],
  *,
  tokenizer: tokenization.FullTokenizer,
  labels: list[str],
) -> dict[str, TaggingData]:
  """Writes the records of all files of a command to --output_dir.

  The keys of all dicts are among "train", "eval" and "predict".
  """
  prepared, with_context = {}, settings.document_context
  for name, path in paths.items():
    content, length = sentences[name], settings.max_seq_length
    if with_context and content[-1].document == content[0].document:
      logging.warning(
        "%s: the whole file counts as one document, because no -DOCSTART- line "
        "(in JSON lines, no key `document`) separates documents",
        path,
      )
    windows = windowing.make_windows(
      content, tokenizer, length, document_context=with_context, path=path
    )
    log_windows(path, windows, tokenizer)
    prepared[name] = prepare(
      path,
      content,
      windows,
      labels=labels,
      max_seq_length=length,
      records=os.path.join(settings.output_dir, f"{name}.tf_record"),
      file_format=data.format_of(path, settings.file_format),
    )
  return prepared
