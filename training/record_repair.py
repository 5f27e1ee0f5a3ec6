"""Copies of TFRecord files without their damaged records."""

import collections
import hashlib
import os
import shutil
import tempfile

import tensorflow as tf
from absl import logging

from common import errors, file_io, tfrecord

# Around the data of a record: its length, a checksum of that, and one of them.
_FRAME_BYTES = 8 + 4 + 4


def without_damage(files, folder):
  """Replaces each damaged file by a copy of its good records.

  Reads every file once, even one that is named twice.

  Args:
    files: TFRecord files; all that a run reads, since each of them gets a copy
      of its own only within one call.
    folder: the copies are made in its subfolder `repaired`.

  Returns:
    `files`, with the paths of the copies in place of the damaged ones. How
    many records each lost is logged as a warning.

  Raises:
    InputError: nothing of a file can be read.
  """
  copies = _names_of_copies(files)
  paths = {
    path: path
    if _is_whole(path)
    else _repaired(path, os.path.join(folder, "repaired", name))
    for path, name in copies.items()
  }
  return [paths[path] for path in files]


def _names_of_copies(files):
  """Returns dict from each file to a name; no two names are equal.

  That is the file's own name, or its name and a checksum of its path where
  files of several folders have one name. The order of training goes by the
  names, so they are a function of the paths alone, damaged or not.
  """
  # Each file once, in the order given.
  paths = list(dict.fromkeys(files))
  counts = collections.Counter(map(os.path.basename, paths))
  names = {}
  for path in paths:
    name = os.path.basename(path)
    if counts[name] > 1:
      digest = hashlib.sha256(path.encode("utf-8")).hexdigest()[:16]
      name = f"{digest}-{name}"
    names[path] = name
  return names


def _is_whole(path):
  try:
    for _ in tfrecord.read_serialized(path):
      pass
  except errors.InputError as error:
    logging.warning("%s", error)
    return False
  return True


def _repaired(path, copy):
  """Writes the good records of `path` to `copy`; returns that."""
  tf.io.gfile.makedirs(os.path.dirname(copy))
  kept = lost = 0
  with tfrecord.RecordWriter(copy) as writer:
    for record in _records_or_none(path):
      if record is None:
        lost += 1
      else:
        writer.write(record)
        kept += 1
    if not kept:
      raise errors.InputError(
        f"{path}: no record can be read; write the file again"
      )
  logging.warning(
    "%s: %d damaged records or parts of records skipped, %d kept; reading "
    "%s instead", path, lost, kept, copy,
  )
  return copy


def _records_or_none(path):
  """Yields the bytes of each record, None for what is damaged.

  In a compressed file nothing after the first damage can be found.
  """
  offset, size = 0, tf.io.gfile.stat(path).length
  with tempfile.TemporaryDirectory() as folder:
    rest, is_plain = path, not tfrecord.is_gzip(path)
    while offset < size:
      try:
        for record in tfrecord.read_serialized(rest):
          # Where the next one begins, if this was the last good one.
          offset += len(record) + _FRAME_BYTES
          yield record
        return
      except errors.InputError:
        yield None
      # A compressed stream cannot be entered in its middle.
      if not is_plain:
        return
      offset = _next_record(path, offset)
      rest = os.path.join(folder, str(offset))
      _copy_from(path, offset, rest)


def _next_record(path, offset):
  """Where the record after the one at `offset` starts, by its length."""
  with file_io.open_for_reading(path) as stream:
    stream.seek(offset)
    header = stream.read(8)
  # A damaged length leads past the end, or to bytes whose own checksum is
  # wrong: they count as damaged again.
  return offset + int.from_bytes(header, "little") + _FRAME_BYTES


def _copy_from(path, offset, target):
  with file_io.open_for_reading(path) as stream, open(target, "wb") as copy:
    stream.seek(offset)
    shutil.copyfileobj(stream, copy)
