"""Checks the TFRecord files that a user gives, and names a damaged one."""

import contextlib
from collections.abc import Iterator

import tensorflow as tf
from absl import logging

from common import errors, file_io
from records import pipeline, tfrecord


def without_empty(files: list[str]) -> list[str]:
  """Returns the files that hold records, and logs a warning about the others.

  Raises InputError: all files are empty.
  """
  filled = []
  for path in files:
    # A compressed file without records is not empty, so it must be read.
    if file_io.size(path) and not (
      tfrecord.is_gzip(path) and not any(tfrecord.read_serialized(path))
    ):
      filled.append(path)
    else:
      logging.warning("skipping %s: it holds no records", path)
  if not filled:
    raise errors.InputError(f"no records in {file_io.listed(files)}")
  return filled


def check_records(
  files: list[str], features: dict[str, tf.io.FixedLenFeature]
) -> int:
  """Checks the features of records, and returns the number of records.

  It parses only the first record of each file. The number of records is in the
  manifest of shards, or is counted by their lengths. Raises InputError: a file
  is missing, empty or damaged, or its first record lacks a feature or has a
  feature of a different length.
  """
  total = 0
  for path in files:
    record = pipeline.first_record(path)
    # Unlike TensorFlow, this also detects a file that ends within a header.
    total += tfrecord.num_records(path)
    # A record may have more features than the script reads.
    for name, feature in features.items():
      expected = feature.shape[0] if feature.shape else 1
      if name not in record:
        raise errors.InputError(
          f"{path}: its records have no feature {name!r}; they have "
          f"{', '.join(sorted(record))}"
        )
      if len(record[name]) != expected:
        raise errors.InputError(
          f"{path}: {name} has {len(record[name])} values per record, but the "
          f"flags require {expected}; pass the --max_seq_length and "
          "--max_predictions_per_seq that the file was written with"
        )
  return total


@contextlib.contextmanager
def damage_named(files: list[str]) -> Iterator[None]:
  """Makes TensorFlow's errors about damaged records name the file and record.

  TensorFlow's message, such as "corrupted record at 52", does not name the
  file. After such an error in the block, this context manager searches the
  files for the damaged record. Raises InputError: a record is damaged.
  """
  try:
    yield
  except tf.errors.DataLossError:
    for path in files:
      for _ in tfrecord.read_serialized(path):  # Raises the InputError.
        pass
    raise
