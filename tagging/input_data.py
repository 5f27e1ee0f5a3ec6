"""Labelled sentences -> TFRecords of windows, for training and prediction."""

import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

import modeling
from checkpoints import model_folder
from common import errors, file_io, unknown_tokens
from records import tfrecord
from tagging import dataset, json_sentences
from text import input_sequences
from training import components

# How the input of a model was made: kept with its weights, see model_folder.
INPUT_FLAGS = ("max_seq_length", "document_context", "scheme", "do_lower_case")
# What its head is, where it reads the features of a frozen encoder.
HEAD_FLAGS = ("feature_layers", "bilstm_size")
_WINDOWS_SHOWN = 5


class TaggingData(NamedTuple):
  """A file of sentences, ready for the model.

  Attributes:
    records: the TFRecord file of the windows.
    features: of a record, for tf.io.
    is_labelled: whether the sentences have labels.
    file_format: one of choices.TAGGING_FORMATS.
  """

  path: str
  sentences: list[dataset.Sentence]
  windows: list[dataset.Window]
  records: str
  features: dict
  is_labelled: bool
  file_format: str


def format_of(path: str, file_format: str | None = None) -> str:
  """Returns the format of a file: what --file_format says, else by its name."""
  is_json = path.endswith((".jsonl", ".json"))
  return file_format or ("jsonl" if is_json else "conll")


def read(
  path: str, *, labelled: bool | None, file_format: str | None = None,
  word_column: int = 0, label_column: int = -1, scheme: str = "iob2"
) -> list[dataset.Sentence]:
  """Reads the sentences of a file.

  Args:
    path: the file.
    labelled: whether it must have labels; None: they are read if it has any.
    file_format: one of choices.TAGGING_FORMATS, or None to go by the name.
    word_column, label_column, scheme: see dataset.parse_sentences.

  Raises:
    InputError: the file cannot be used; file and line are named.
  """
  file_format = format_of(path, file_format)
  if file_format == "text":
    return dataset.parse_sentences(
      dataset.text_lines(path), path, labelled=False
    )
  if file_format == "jsonl":
    if labelled is None:
      labelled = json_sentences.has_labels(path)
    return json_sentences.read_sentences(path, scheme=scheme, labelled=labelled)
  if labelled is None:
    # A single column has words alone.
    labelled = dataset.count_columns(path) > 1
  return dataset.read_sentences(
    path, word_column=word_column, label_column=label_column, scheme=scheme,
    labelled=labelled,
  )


def files_to_read(settings) -> dict[str, str]:
  """Returns the paths of "train", "eval" and "predict", where asked for.

  Raises:
    InputError: nothing is asked for, or columns are of JSON lines.
  """
  components.require_one_of(settings, "do_train", "do_eval", "do_predict")
  paths = components.files_to_read(settings)
  columns = settings.given & {"word_column", "label_column"}
  if columns and all(
    format_of(path, settings.file_format) == "jsonl" for path in paths.values()
  ):
    raise errors.InputError(
      f"--{min(columns)} is for files of columns, and only JSON lines are "
      "read; leave it out"
    )
  return paths


def read_all(settings, paths: dict) -> dict[str, list[dataset.Sentence]]:
  """Returns the sentences of each of `paths`."""
  # None: read where there are any, to score the predictions.
  any_labels = None if settings.predict_labels else False
  return {
    name: read(
      path,
      labelled=any_labels if name == "predict" else True,
      **settings.pick("file_format word_column label_column scheme"),
    )
    for name, path in paths.items()
  }


def model_labels(
  train_sentences: list[dataset.Sentence] | None, labels_file: str | None,
  config: modeling.BertConfig
) -> list[str]:
  """Returns the labels of the model, from the first place that has them.

  1. The training data.
  2. The file that the training has written.
  3. id2label in --bert_config_file, as in output_dir/final_model.

  Raises:
    InputError: no place has any.
  """
  if train_sentences:
    return dataset.label_list(train_sentences)
  if labels_file and tf.io.gfile.exists(labels_file):
    return [line for _, line in file_io.read_lines(labels_file)]
  if labels := config.label_names():
    return labels
  looked = f"there is no {labels_file}, and " if labels_file else ""
  raise errors.InputError(
    f"no labels known: {looked}--bert_config_file has no id2label; pass "
    "--model_dir with the final_model of a training, or --do_train"
  )


def trained_config(
  config: modeling.BertConfig, labels: list[str]
) -> modeling.BertConfig:
  """Returns the configuration of a model of these labels.

  The labels are a part of the model: the folder of a run with others is
  refused. How its input was made is not.
  """
  # Those of the start weights, which may be another task's.
  values = model_folder.without_input_settings(config).to_dict()
  id2label = {str(number): label for number, label in enumerate(labels)}
  return modeling.BertConfig.from_dict({**values, "id2label": id2label})


def input_settings(settings, features: str | None = None) -> dict:
  """Returns how a model's input is made, for model_folder."""
  values = {name: settings.get(name) for name in INPUT_FLAGS}
  if features:
    values.update(feature_layers=features, bilstm_size=settings.bilstm_size)
  return values


def write_model(
  folder: str, model, settings, features: str | None = None, *,
  step: int | None = None
):
  """Writes the folder of a taggers.TaggingModel of a step."""
  values = input_settings(settings, features)
  config = model_folder.with_input_settings(model.config, values)
  model_folder.write(
    folder, model.variables, config, settings.vocab_file,
    settings.do_lower_case, step=step,
  )


def record_features(max_seq_length: int) -> dict:
  """Returns the features of a record of `prepare`, for tf.io."""
  integers = tf.io.FixedLenFeature([max_seq_length], tf.int64)
  names = ("input_ids", "input_mask", "segment_ids", "label_ids")
  return {name: integers for name in names}


def prepare(
  path: str, sentences: list[dataset.Sentence], windows: list[dataset.Window],
  *, labels: list[str], records: str, max_seq_length: int,
  file_format: str = "conll"
) -> TaggingData:
  """Writes the records of a file's windows; `labels` are the model's."""
  # All sentences of a file have labels or none has.
  is_labelled = sentences[0].labels is not None
  logging.info(
    "%s: %d sentences, %d words, %d windows", path, len(sentences),
    sum(len(sentence.words) for sentence in sentences), len(windows),
  )
  # A sentence and the words around it are one text: segment 0.
  batch = input_sequences.pad_batch(
    [window.input_ids for window in windows], length=max_seq_length
  )
  # 0 is a label, so padding needs a number of its own.
  label_ids = np.full_like(batch["input_ids"], dataset.NO_LABEL)
  if is_labelled:
    ids = dataset.label_ids(sentences, labels, path)
    for row, window in zip(label_ids, windows):
      first = window.first_word
      of_words = ids[window.sentence][first : first + len(window.positions)]
      row[window.positions] = of_words
  with tfrecord.RecordWriter(records) as writer:
    writer.write_all(
      tfrecord.serialize_examples({**batch, "label_ids": label_ids})
    )
  return TaggingData(
    path, sentences, windows, records, record_features(max_seq_length),
    is_labelled, file_format,
  )


def log_windows(path: str, windows: list[dataset.Window], tokenizer):
  """Logs the tokens of a file's first windows and the share of [UNK]."""
  logging.debug("%s: the first examples", path)
  for window in windows[:_WINDOWS_SHOWN]:
    tokens = tokenizer.convert_ids_to_tokens(window.input_ids)
    logging.debug("  %s", " ".join(tokens))
  # Without [CLS] and [SEP].
  ids = [i for window in windows for i in window.input_ids[1:-1]]
  unknown = ids.count(tokenizer.vocab.get(tokenizer.unk_token))
  unknown_tokens.log_share(path, unknown, len(ids))


def prepare_all(
  settings, paths: dict[str, str], sentences: dict[str, list[dataset.Sentence]],
  *, tokenizer, labels: list[str]
) -> dict[str, TaggingData]:
  """Writes the records of all files of a command into --output_dir.

  The keys of all dicts are some of "train", "eval", "predict".
  """
  data = {}
  for name, path in paths.items():
    if settings.document_context:
      dataset.warn_of_one_document(sentences[name], path)
    windows = dataset.make_windows(
      sentences[name], tokenizer, settings.max_seq_length,
      document_context=settings.document_context, path=path
    )
    log_windows(path, windows, tokenizer)
    data[name] = prepare(
      path, sentences[name], windows, labels=labels,
      records=os.path.join(settings.output_dir, f"{name}.tf_record"),
      max_seq_length=settings.max_seq_length,
      file_format=format_of(path, settings.file_format)
    )
  return data


def with_predictions(
  data: TaggingData, predicted: list[list[str]]
) -> Iterator[str]:
  """Yields the lines of a file with the labels of its sentences."""
  if data.file_format == "jsonl":
    return json_sentences.with_predictions(data.path, predicted)
  is_text = data.file_format == "text"
  read = dataset.text_lines if is_text else file_io.read_lines
  return dataset.with_column((row for _, row in read(data.path)), predicted)
