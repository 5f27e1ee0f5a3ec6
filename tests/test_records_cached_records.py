"""Tests that records are made once, and again if anything changed."""

import json
import pathlib

import pytest

from common import errors
from records import cached_records, tfrecord


@pytest.fixture
def path(tmp_path):
  return str(tmp_path / "train.tf_record")


class Maker:
  """Writes `rows` as records and counts its calls."""

  def __init__(self, rows=(1, 2, 3)):
    self.rows = rows
    self.calls = 0

  def __call__(self, writer):
    self.calls += 1
    for row in self.rows:
      writer.write(tfrecord.serialize_example({"input_ids": [row]}))
    return {"num_records": len(self.rows), "lengths": (1, 2)}


def rows_of(path):
  return [int(r["input_ids"][0]) for r in tfrecord.read_records(path)]


def test_the_second_time_nothing_is_written(path, caplog):
  caplog.set_level("INFO", logger="absl")
  make = Maker()
  facts = cached_records.ensure(path, {"flags": (1, 2)}, make)
  assert facts == {"num_records": 3, "lengths": [1, 2]}
  assert rows_of(path) == [1, 2, 3]
  assert json.load(open(f"{path}.json"))["fingerprint"] == {"flags": [1, 2]}
  assert path not in caplog.text
  assert cached_records.ensure(path, {"flags": (1, 2)}, make) == facts
  assert make.calls == 1 and path in caplog.text


def test_another_fingerprint_makes_new_records(path):
  cached_records.ensure(path, {"flags": 1}, Maker())
  make = Maker([4])
  assert cached_records.ensure(path, {"flags": 2}, make)["num_records"] == 1
  assert rows_of(path) == [4]


def flipped(data):
  return data[:20] + bytes([data[20] ^ 1]) + data[21:]


FAULTS = {
  "cut": ("", lambda data: data[:-1]),
  "flipped": ("", flipped),
  "gone": ("", None),
  "note gone": (".json", None),
  "note damaged": (".json", lambda data: b"{"),
  "note changed": (".json", lambda data: data.replace(b"3", b"4")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_records_that_are_not_whole_are_made_anew(path, fault, caplog):
  cached_records.ensure(path, {}, Maker())
  suffix, change = FAULTS[fault]
  file = pathlib.Path(path + suffix)
  if change:
    file.write_bytes(change(file.read_bytes()))
  else:
    file.unlink()
  make = Maker()
  cached_records.ensure(path, {}, make)
  assert make.calls == 1 and rows_of(path) == [1, 2, 3]
  assert ("again" in caplog.text) == (fault != "note gone")


def test_a_maker_that_fails_leaves_no_note(path):
  cached_records.ensure(path, {"flags": 1}, Maker())

  def fail(writer):
    writer.write(b"half")
    raise errors.InputError("line 2 is bad")

  with pytest.raises(errors.InputError, match="line 2"):
    cached_records.ensure(path, {"flags": 2}, fail)
  # The old records are whole, but no note says which flags made them.
  assert rows_of(path) == [1, 2, 3]
  make = Maker([5])
  cached_records.ensure(path, {"flags": 1}, make)
  assert make.calls == 1


def test_checksum_of_a_file(tmp_path):
  path = tmp_path / "abc"
  path.write_bytes(b"abc")
  assert cached_records.file_sha256(str(path)).startswith("ba7816bf8f01cfea")
  with pytest.raises(errors.InputError, match="no such file"):
    cached_records.file_sha256(str(tmp_path / "none"))
