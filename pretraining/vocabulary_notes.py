"""Notes, next to record files, about the vocabulary of their ids.

A file has its own note; shards have an entry in their manifest. No TensorFlow.
"""

import os
from collections.abc import Iterable

from common import errors, file_io, json_files
from records import tfrecord

# It ends like a manifest, which patterns of record files do not match.
_SUFFIX = ".vocabulary.manifest.json"


def write(path: str, vocab_file: str) -> None:
  """Writes a note about a record file's vocabulary next to the file."""
  if not (file_io.is_remote(path) or os.path.isfile(path)):
    return  # A device or a pipe gets no note.
  _, digest = file_io.size_and_sha256(vocab_file)
  values = {"vocab_sha256": digest, "vocab_file": os.path.basename(vocab_file)}
  json_files.write(f"{path}{_SUFFIX}", values)


def check(files: Iterable[str], vocab_file: str) -> None:
  """Raises InputError if records were written with a different vocabulary.

  It compares checksums in the notes or manifests next to the files. Files
  without either, for example from other programs, pass.
  """
  _, digest = file_io.size_and_sha256(vocab_file)
  notes: dict[str, str] = {}
  for file in files:
    # Shards NAME-00000-of-00003 share a manifest; a single file has a note.
    shards = tfrecord.manifest_name(tfrecord.output_of(file))
    notes |= {path: file for path in (shards, f"{file}{_SUFFIX}")}
  for note, file in notes.items():
    values = json_files.read(note) if file_io.exists(note) else {}
    if values.get("vocab_sha256", digest) != digest:
      raise errors.InputError(
        f"{file} was written with a different vocabulary than --vocab_file="
        f"{vocab_file} (see vocab_sha256 in {note}), so its ids stand for "
        "different tokens; pass its vocabulary, or write the records again"
      )
