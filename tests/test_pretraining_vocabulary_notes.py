"""Tests the notes that name the vocabulary of records."""

import hashlib
import json
import os

import pytest

import tiny_model
from common import errors
from pretraining import vocabulary_notes


@pytest.fixture
def vocab(tmp_path):
  """The paths of two vocabularies."""
  return [
    tiny_model.write_vocabulary(tmp_path, words, f"{words}.txt")
    for words in ("ab", "ba")
  ]


def note_of(path):
  return f"{path}.vocabulary.manifest.json"


def test_a_note_names_the_vocabulary_and_its_checksum(tmp_path, vocab):
  records = tmp_path / "a.tfrecord"
  records.write_bytes(b"")
  vocabulary_notes.write(str(records), vocab[0])
  with open(vocab[0], "rb") as stream:
    digest = hashlib.sha256(stream.read()).hexdigest()
  assert json.loads(open(note_of(records)).read()) == {
    "vocab_sha256": digest,
    "vocab_file": "ab.txt",
  }
  vocabulary_notes.check([str(records)], vocab[0])
  # A file without a note passes.
  other = tmp_path / "other"
  vocabulary_notes.check([str(other)], vocab[1])
  with pytest.raises(errors.InputError) as raised:
    vocabulary_notes.check([str(other), str(records)], vocab[1])
  for fact in (f"{records} was written", vocab[1], note_of(records)):
    assert fact in str(raised.value)


def test_shards_share_the_note_in_their_manifest(tmp_path, vocab):
  manifest = tmp_path / "a.tfrecord.manifest.json"
  manifest.write_text('{"vocab_sha256": "other", "shards": {}}')
  shard = str(tmp_path / "a.tfrecord-00001-of-00002")
  with pytest.raises(errors.InputError, match="00001-of-00002 was written"):
    vocabulary_notes.check([shard], vocab[0])
  # Without a checksum, as in other programs' manifests.
  manifest.write_text('{"shards": {}}')
  vocabulary_notes.check([shard], vocab[0])


def test_a_device_or_a_pipe_gets_no_note(tmp_path, vocab):
  os.mkfifo(tmp_path / "pipe")
  for path in (tmp_path / "pipe", tmp_path / "missing", tmp_path):
    vocabulary_notes.write(str(path), vocab[0])
  assert not list(tmp_path.glob("*.vocabulary.manifest.json"))
  assert not os.path.exists(note_of(tmp_path))


def test_remote_records_get_a_note(vocab, monkeypatch):
  written = []
  monkeypatch.setattr(
    vocabulary_notes.json_files, "write", lambda *note: written.append(note)
  )
  vocabulary_notes.write("gs://bucket/a", vocab[0])
  ((path, values),) = written
  assert path == note_of("gs://bucket/a") and values["vocab_file"] == "ab.txt"
