"""Labelled sentences -> TFRecords of windows, for training and prediction."""

import os
from typing import NamedTuple

import tensorflow as tf
from absl import logging

import modeling
from checkpoints import model_folder
from common import errors, file_io, tfrecord, unknown_tokens
from tagging import dataset, json_sentences
from training import input_sequences, setup

# How the input of a model was made: kept with its weights, see model_folder.
INPUT_FLAGS = ("max_seq_length", "document_context", "scheme", "do_lower_case")
# What its head is, where it reads the features of a frozen encoder.
HEAD_FLAGS = ("feature_layers", "bilstm_size")
_WINDOWS_SHOWN = 5


class TaggingData(NamedTuple):
  """A file of sentences, ready for the model.

  Attributes:
    path: the file.
    sentences, windows: lists of dataset.Sentence and dataset.Window.
    records: the TFRecord file of the windows.
    features: dict from name to a feature of tf.io, of a record.
    is_labelled: whether the sentences have labels.
    file_format: one of choices.TAGGING_FORMATS.
  """

  path: str
  sentences: list
  windows: list
  records: str
  features: dict
  is_labelled: bool
  file_format: str


def format_of(path: str, file_format: str | None = None) -> str:
  """Returns the format of a file: what --file_format says, else by its name."""
  is_json = path.endswith((".jsonl", ".json"))
  return file_format or ("jsonl" if is_json else "conll")


def read(path, *, labelled, file_format=None, word_column=0, label_column=-1,
         scheme="iob2"):
  """Reads the sentences of a file.

  Args:
    path: the file.
    labelled: whether it must have labels; None: they are read if it has any.
    file_format: one of choices.TAGGING_FORMATS, or None to go by the name.
    word_column, label_column: of "conll", see dataset.parse_sentences.
    scheme: one of dataset.SCHEMES.

  Returns:
    List of dataset.Sentence.

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


def answers_stream(settings):
  """Whether words come from the standard input."""
  return settings.do_predict and settings.predict_file == "-"


def files_to_read(settings):
  """Returns dict from train, eval, predict to the path, where asked for.

  Raises:
    InputError: a path or --output_dir is missing, or nothing is asked for.
  """
  setup.require_one_of(settings, "do_train", "do_eval", "do_predict")
  asked = {
    "train": settings.do_train,
    "eval": settings.do_eval or (settings.do_train and settings.eval_steps),
    "predict": settings.do_predict,
  }
  paths = {
    name: settings.get(f"{name}_file") for name in asked if asked[name]
  }
  columns = settings.given & {"word_column", "label_column"}
  if columns and all(
    format_of(path or "", settings.file_format) == "jsonl"
    for path in paths.values()
  ):
    raise errors.InputError(
      f"--{min(columns)} is for files of columns, and only JSON lines are "
      "read; leave it out"
    )
  for name, path in paths.items():
    if not path:
      flag = "eval_steps" if name == "eval" and not settings.do_eval else None
      raise errors.InputError(
        f"--{flag or f'do_{name}'} needs --{name}_file"
      )
  # Lines are answered as they come; there is no file to read.
  if answers_stream(settings):
    del paths["predict"]
  # Lines of the standard input write no file.
  if paths and not settings.output_dir:
    raise errors.InputError(
      "pass --output_dir, a folder for the results; only "
      "--predict_file=- does without"
    )
  return paths


def read_all(settings, paths):
  """Returns dict from the names of `paths` to lists of dataset.Sentence."""
  # None: read where there are any, to score the predictions.
  any_labels = None if settings.predict_labels else False
  return {
    name: read(
      path,
      labelled=any_labels if name == "predict" else True,
      file_format=settings.file_format,
      word_column=settings.word_column,
      label_column=settings.label_column,
      scheme=settings.scheme,
    )
    for name, path in paths.items()
  }


def model_labels(train_sentences, labels_file, config):
  """Returns the labels of the model, from the first place that has them.

  1. The training data.
  2. The file that the training has written.
  3. id2label in --bert_config_file, as in output_dir/final_model.

  Args:
    train_sentences: list of dataset.Sentence, or None.
    labels_file: path, or None.
    config: modeling.BertConfig.

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


def trained_config(config, labels):
  """Returns the modeling.BertConfig of a model of these labels.

  The labels are a part of the model: the folder of a run with others is
  refused. How its input was made is not.
  """
  # Those of the start weights, which may be another task's.
  values = model_folder.without_input_settings(config).to_dict()
  id2label = {str(number): label for number, label in enumerate(labels)}
  return modeling.BertConfig.from_dict({**values, "id2label": id2label})


def input_settings(settings, features=None):
  """Returns how a model's input is made, for model_folder.

  Args:
    settings: run_settings.Settings with INPUT_FLAGS and HEAD_FLAGS.
    features: one of bilstm.FEATURES, or None.
  """
  values = {name: settings.get(name) for name in INPUT_FLAGS}
  if features:
    values.update(feature_layers=features, bilstm_size=settings.bilstm_size)
  return values


def write_model(folder, model, settings, features=None, *, step=None):
  """Writes a model's folder, which says how its input is made.

  Args:
    folder: the folder.
    model: taggers.TaggingModel.
    settings: run_settings.Settings of run_ner.py.
    features: one of bilstm.FEATURES, or None.
    step: of the weights, see model_folder.write.
  """
  values = input_settings(settings, features)
  config = model_folder.with_input_settings(model.config, values)
  model_folder.write(
    folder, model.variables, config, settings.vocab_file,
    settings.do_lower_case, step=step,
  )


def record_features(max_seq_length):
  """Returns the features of a record of `write_records`."""
  integers = tf.io.FixedLenFeature([max_seq_length], tf.int64)
  names = ("input_ids", "input_mask", "segment_ids", "label_ids")
  return {name: integers for name in names}


def write_records(path, windows, ids, max_seq_length):
  """Writes windows with the labels `ids` (None: without) as TFRecords."""
  with tfrecord.RecordWriter(path) as writer:
    for window in windows:
      size = len(window.input_ids)
      labels = [dataset.NO_LABEL] * size
      if ids is not None:
        labels = dataset.window_label_ids(window, ids)
      rows = {
        "input_ids": (window.input_ids, 0),
        "input_mask": ([1] * size, 0),
        # A sentence and the words around it are one text.
        "segment_ids": ([0] * size, 0),
        # 0 is a label, so padding needs a number of its own.
        "label_ids": (labels, dataset.NO_LABEL),
      }
      features = {
        name: input_sequences.pad(values, max_seq_length, padding)
        for name, (values, padding) in rows.items()
      }
      writer.write(tfrecord.serialize_example(features))


def prepare(
  path, sentences, windows, *, labels, records, max_seq_length,
  file_format="conll",
):
  """Writes the records of a file's windows.

  Args:
    path: the file.
    sentences, windows: lists of dataset.Sentence and dataset.Window.
    labels: list of str, those of the model.
    records: the TFRecord file to write.
    max_seq_length: T.
    file_format: one of choices.TAGGING_FORMATS.

  Returns:
    TaggingData.
  """
  # All sentences of a file have labels or none has.
  is_labelled = sentences[0].labels is not None
  ids = None
  if is_labelled:
    ids = dataset.label_ids(sentences, labels, path)
  logging.info(
    "%s: %d sentences, %d words, %d windows", path, len(sentences),
    sum(len(sentence.words) for sentence in sentences), len(windows),
  )
  write_records(records, windows, ids, max_seq_length)
  return TaggingData(
    path, sentences, windows, records, record_features(max_seq_length),
    is_labelled, file_format,
  )


def log_windows(path, windows, tokenizer):
  """Logs the tokens of a file's first windows and the share of [UNK].

  Args:
    path: the file.
    windows: list of dataset.Window.
    tokenizer: tokenization.FullTokenizer.
  """
  logging.info("%s: the first examples", path)
  for window in windows[:_WINDOWS_SHOWN]:
    tokens = tokenizer.convert_ids_to_tokens(window.input_ids)
    logging.info("  %s", " ".join(tokens))
  # Without [CLS] and [SEP].
  ids = [i for window in windows for i in window.input_ids[1:-1]]
  unknown = ids.count(tokenizer.vocab.get(tokenizer.unk_token))
  unknown_tokens.log_share(path, unknown, len(ids))


def prepare_all(settings, paths, sentences, *, tokenizer, labels):
  """Writes the records of all files of a command into --output_dir.

  Args:
    settings: run_settings.Settings.
    paths: dict from "train", "eval", "predict" to files.
    sentences: dict from the same names to lists of dataset.Sentence.
    tokenizer: tokenization.FullTokenizer.
    labels: list of str, those of the model.

  Returns:
    dict from the same names to TaggingData.
  """
  data = {}
  for name, path in paths.items():
    if settings.document_context:
      dataset.warn_of_one_document(sentences[name], path)
    windows = dataset.make_windows(
      sentences[name],
      tokenizer,
      settings.max_seq_length,
      document_context=settings.document_context,
      path=path,
    )
    log_windows(path, windows, tokenizer)
    data[name] = prepare(
      path,
      sentences[name],
      windows,
      labels=labels,
      records=os.path.join(settings.output_dir, f"{name}.tf_record"),
      max_seq_length=settings.max_seq_length,
      file_format=format_of(path, settings.file_format),
    )
  return data


def with_predictions(data, predicted):
  """Yields the lines of a file with its predicted labels, in its format.

  Args:
    data: TaggingData.
    predicted: list of lists of str, the labels of each sentence.
  """
  if data.file_format == "jsonl":
    return json_sentences.with_predictions(data.path, predicted)
  is_text = data.file_format == "text"
  read = dataset.text_lines if is_text else file_io.read_lines
  return dataset.with_column((row for _, row in read(data.path)), predicted)
