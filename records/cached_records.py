"""Writes TFRecord files once and reuses them while their sources are unchanged.

A note, `train.tf_record.json` next to `train.tf_record`, stores a fingerprint
of the sources, the size and checksum of the file, and facts about the records.
`ensure` deletes the note before it rewrites the records and writes a new note
after them, so a note always describes the current records.
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

  Returns the facts that `write` returned, in this run or in the run that wrote
  the file. Raises InputError: the file cannot be written, or `write` raises it.

  Args:
    path: the file.
    fingerprint: everything that determines the content, in JSON types:
      checksums of the data and the vocabulary, flags, the format's version.
    write: function that writes the records to an open tfrecord.RecordWriter
      and returns facts about them, a dict of JSON types.
  """
  note = f"{path}.json"
  # Convert as JSON does: tuples become lists, keys become strings.
  fingerprint = json_files.plain(fingerprint)
  stored = _read_note(note)
  if stored.get("fingerprint") == fingerprint:
    if file_io.exists(path) and (
      file_io.size_and_sha256(path) == (stored["bytes"], stored.get("sha256"))
    ):
      logging.info("reusing %s: the data and flags are unchanged", path)
      return stored["facts"]
    logging.warning("writing %s again: it is missing or damaged", path)
  elif stored:
    logging.info("writing %s again: its data or flags have changed", path)
  file_io.remove(note)
  # Leaving the block moves the complete file to `path`.
  with tfrecord.RecordWriter(path) as writer:
    facts = json_files.plain(write(writer))
  size, sha256 = file_io.size_and_sha256(path)
  content = {"fingerprint": fingerprint, "bytes": size, "sha256": sha256}
  json_files.write_sealed(note, {**content, "facts": facts})
  return facts


def write_blocks(
  writer: tfrecord.RecordWriter,
  items: Iterable,
  serialize: Callable,
  *,
  block: int = 512,
  processes: int = 1,
) -> list[dict]:
  """Serializes items in blocks, faster than one by one, and writes the records.

  Returns the facts about each block, including `num_records`.

  Args:
    writer: an open RecordWriter.
    items: an iterable; only a few blocks are in memory at the same time.
    serialize: function of a list of items; returns their records and a dict of
      facts. With several processes, it must be picklable.
    block: the maximum number of items in a block.
    processes: the number of processes that share the work.
  """
  rest = iter(items)
  blocks = iter(lambda: list(itertools.islice(rest, block)), [])
  facts_of_blocks = []
  results = process_pool.in_order(serialize, blocks, processes=processes)
  for records, facts in results:
    writer.write_all(records)
    facts_of_blocks.append({"num_records": len(records), **facts})
  return facts_of_blocks


def totals(facts_of_blocks: list[dict], *names: str) -> dict[str, int]:
  """Returns the sum of each named fact over all blocks."""
  return {name: sum(facts[name] for facts in facts_of_blocks) for name in names}


def _read_note(path: str):
  """Returns the contents of a note; {} if it is missing or damaged."""
  if not file_io.exists(path):
    return {}
  try:
    return json_files.read_sealed(path)
  except errors.InputError as error:
    logging.warning("%s; writing the records again", error)
    return {}


def file_sha256(path: str) -> str:
  """Returns the SHA-256 of a file's bytes, in hexadecimal."""
  return file_io.size_and_sha256(path)[1]


def weights_sha256(variables: list[tf.Variable]) -> str:
  """Returns the SHA-256 of variables' names and values, in hexadecimal."""
  checksum = hashlib.sha256()
  for variable in variables:
    # Include the names: equal values under different names are another model.
    checksum.update(variable.name.encode())
    checksum.update(np.ascontiguousarray(variable.numpy()).data)
  return checksum.hexdigest()
