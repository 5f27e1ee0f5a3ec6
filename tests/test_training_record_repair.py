"""Copies of TFRecord files without their damaged records."""

import gzip
import logging

import pytest

from common import errors, tfrecord
from training import record_repair

# Records of several lengths, at known places: 16 bytes around each.
RECORDS = [bytes([65 + number]) * (20 + 3 * number) for number in range(8)]


def write(path, damaged=(), cut=None):
  """Writes RECORDS; flips a byte of some of them, cuts the file's end."""
  with tfrecord.RecordWriter(str(path)) as writer:
    for record in RECORDS:
      writer.write(record)
  data, start = bytearray(path.read_bytes()), 0
  for number, record in enumerate(RECORDS):
    if number in damaged:
      data[start + 12 + 5] ^= 1
    start += len(record) + 16
  path.write_bytes(bytes(data[:cut]))
  return str(path)


@pytest.mark.parametrize(
  "damaged, cut",
  [([0], None), ([7], None), ([2, 3, 6], None), ([], -5), ([1], -60)],
)
def test_only_damaged_records_are_left_out(tmp_path, caplog, damaged, cut):
  path = write(tmp_path / "a.tfrecord", damaged, cut)
  whole = write(tmp_path / "b.tfrecord")
  with caplog.at_level(logging.WARNING, logger="absl"):
    files = record_repair.without_damage([path, whole], str(tmp_path / "run"))
  assert files[1] == whole
  assert files[0] == str(tmp_path / "run/repaired/a.tfrecord")
  lost = set(damaged)
  if cut:
    ends = [sum(len(r) + 16 for r in RECORDS[: n + 1]) for n in range(8)]
    lost |= {n for n in range(8) if ends[n] > ends[-1] + cut}
  kept = [record for n, record in enumerate(RECORDS) if n not in lost]
  assert list(tfrecord.read_serialized(files[0])) == kept
  # What the cut left of records counts as one.
  lost_pieces = len(damaged) + bool(cut)
  assert f"{path}: {lost_pieces} damaged records" in caplog.text
  assert f"{len(kept)} kept" in caplog.text


def test_whole_files_are_read_where_they_are(tmp_path):
  path = write(tmp_path / "a.tfrecord")
  assert record_repair.without_damage([path], str(tmp_path)) == [path]
  assert not (tmp_path / "repaired").exists()


def test_compressed_file_is_kept_up_to_its_damage(tmp_path):
  plain = write(tmp_path / "a.tfrecord", damaged=[4])
  path = tmp_path / "a.tfrecord.gz"
  with open(plain, "rb") as stream:
    path.write_bytes(gzip.compress(stream.read()))
  (copy,) = record_repair.without_damage([str(path)], str(tmp_path / "run"))
  assert list(tfrecord.read_serialized(copy)) == RECORDS[:4]


def test_file_without_a_good_record_is_refused(tmp_path):
  path = write(tmp_path / "a.tfrecord", damaged=range(8))
  with pytest.raises(errors.InputError, match="a.tfrecord: no record can be"):
    record_repair.without_damage([path], str(tmp_path / "run"))
  assert not list((tmp_path / "run/repaired").iterdir())


def test_each_file_gets_a_copy_of_its_own_and_is_read_once(tmp_path, caplog):
  paths = []
  for number, folder in enumerate(("train", "eval")):
    (tmp_path / folder).mkdir()
    paths.append(write(tmp_path / folder / "a.tfrecord", damaged=[number]))
  whole = write(tmp_path / "a.tfrecord")
  files = record_repair.without_damage(
    [*paths, whole, paths[0]], str(tmp_path / "run")
  )
  assert files[2] == whole and files[3] == files[0] != files[1]
  assert [list(tfrecord.read_serialized(path)) for path in files[:2]] == [
    RECORDS[1:], RECORDS[:1] + RECORDS[2:],
  ]
  assert all(path.endswith("-a.tfrecord") for path in files[:2])
  assert caplog.text.count("reading ") == 2
