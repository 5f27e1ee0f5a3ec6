"""Labelled sentences -> TFRecords of windows, for training and prediction."""

from typing import NamedTuple

import tensorflow as tf
from absl import logging

from common import tfrecord
from tagging import dataset
from training import input_sequences


class TaggingData(NamedTuple):
  """A file of columns, ready for the model.

  Attributes:
    path: the file.
    sentences, windows: lists of dataset.Sentence and dataset.Window.
    records: the TFRecord file of the windows.
    is_labelled: whether the sentences have labels.
  """

  path: str
  sentences: list
  windows: list
  records: str
  is_labelled: bool


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
        "segment_ids": ([0] * size, 0),
        "label_ids": (labels, dataset.NO_LABEL),
      }
      features = {
        name: input_sequences.pad(values, max_seq_length, padding)
        for name, (values, padding) in rows.items()
      }
      writer.write(tfrecord.serialize_example(features))


def prepare(path, sentences, windows, *, labels, records, max_seq_length):
  """Writes the records of a file's windows.

  Args:
    path: the file.
    sentences, windows: lists of dataset.Sentence and dataset.Window.
    labels: list of str, those of the model.
    records: the TFRecord file to write.
    max_seq_length: T.

  Returns:
    TaggingData.
  """
  is_labelled = sentences[0].labels is not None
  ids = None
  if is_labelled:
    ids = dataset.label_ids(sentences, labels, path)
  logging.info(
    "%s: %d sentences, %d words, %d windows", path, len(sentences),
    sum(len(sentence.words) for sentence in sentences), len(windows),
  )
  write_records(records, windows, ids, max_seq_length)
  return TaggingData(path, sentences, windows, records, is_labelled)
