"""Writes TFRecord files once and reuses them while their sources are unchanged.

The note `train.tf_record.json` next to `train.tf_record` holds the fingerprint
of all sources of the records, the size and the checksum of the file, and facts
that the writer returned. It is removed before the records are rewritten and
written after them, so it always describes the current records.
"""

import hashlib
import itertools
from collections.abc import Callable, Iterable

import numpy as np
import tensorflow as tf
from absl import logging

from common import errors, file_io, json_files, process_pool
from records import tfrecord


def ensure(path: str, fingerprint: dict, write: Callable) -> dict:
  """Writes a TFRecord file, unless one with this fingerprint exists.

  Returns the facts from this run or from the run that wrote the file. Raises
  InputError: as `write` does, or the file cannot be written.

  Args:
    path: the file.
    fingerprint: everything that determines the content, in JSON types:
      checksums of the data and the vocabulary, flags, the code's format.
    write: function of an opened tfrecord.RecordWriter; returns facts about
      the records, a dict of JSON types.
  """
  note = f"{path}.json"
  # Convert as JSON does: tuples become lists, keys strings.
  fingerprint = json_files.plain(fingerprint)
  known = _read_note(note)
  if known.get("fingerprint") == fingerprint:
    if file_io.exists(path) and (
      file_io.size_and_sha256(path) == (known["bytes"], known.get("sha256"))
    ):
      logging.info("%s is there already, from the same data and flags", path)
      return known["facts"]
    logging.warning("%s is damaged, and made again", path)
  elif known:
    logging.info("%s is made again: its data or flags have changed", path)
  file_io.remove(note)
  # The file is renamed when it is whole, and the note is written after that.
  with tfrecord.RecordWriter(path) as writer:
    facts = json_files.plain(write(writer))
  size, sha256 = file_io.size_and_sha256(path)
  json_files.write_sealed(
    note,
    {
      "fingerprint": fingerprint,
      "bytes": size,
      "sha256": sha256,
      "facts": facts,
    },
  )
  return facts


def write_blocks(
  writer: tfrecord.RecordWriter,
  items: Iterable,
  serialize: Callable,
  *,
  block: int = 512,
  processes: int = 1,
) -> list[dict]:
  """Serializes items in blocks, which is faster, and writes the records.

  Returns the facts of each block.

  Args:
    writer: an open RecordWriter.
    items: an iterable; only some blocks of it are in memory at a time.
    serialize: function of a list of items; returns records and their facts.
      With several processes it must pickle.
    block: the maximum length of such a list.
    processes: how many processes share the work.
  """
  rest = iter(items)
  blocks = iter(lambda: list(itertools.islice(rest, block)), [])
  facts_of_blocks = []
  for records, facts in process_pool.in_order(
    serialize, blocks, processes=processes
  ):
    writer.write_all(records)
    facts_of_blocks.append({"num_records": len(records), **facts})
  return facts_of_blocks


def totals(facts_of_blocks: list[dict], *names: str) -> dict[str, int]:
  """Returns the sums of some facts of blocks."""
  return {name: sum(facts[name] for facts in facts_of_blocks) for name in names}


def _read_note(path):
  """Returns the values of a note, {} if it is missing or unusable."""
  if not file_io.exists(path):
    return {}
  try:
    return json_files.read_sealed(path)
  except errors.InputError as error:
    logging.warning("%s; the records are made again", error)
    return {}


def file_sha256(path: str) -> str:
  """Returns the SHA-256 of a file's bytes, in hexadecimal."""
  return file_io.size_and_sha256(path)[1]


def weights_sha256(variables: list[tf.Variable]) -> str:
  """Returns the SHA-256 of the names and values of variables."""
  checksum = hashlib.sha256()
  for variable in variables:
    # Names matter: equal values in other variables are another model.
    checksum.update(variable.name.encode())
    checksum.update(np.ascontiguousarray(variable.numpy()).data)
  return checksum.hexdigest()
