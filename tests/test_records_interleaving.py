"""interleaving.after equals what tf.data gives after the skipped records."""

import json
import random

import pytest
import tensorflow as tf

from records import interleaving, pipeline, tfrecord


def interleaved(files, cycle):
  """Returns the records (ints) of files [(first record, number)] in order."""
  firsts, counts = zip(*files)
  pairs = tf.data.Dataset.from_tensor_slices(
    (tf.constant(firsts, tf.int64), tf.constant(counts, tf.int64))
  )
  return list(
    pairs.interleave(
      lambda first, count: tf.data.Dataset.range(first, first + count),
      cycle_length=cycle,
      num_parallel_calls=4,
      deterministic=True,
    ).as_numpy_iterator()
  )


@pytest.mark.parametrize("seed", range(12))
def test_the_rest_continues_where_the_records_were_skipped(seed):
  rng = random.Random(seed)
  cycle = rng.choice([4, 5, 16])
  counts = [rng.randint(0, 9) for _ in range(rng.randint(1, 30))]
  files = [(1000 * number, count) for number, count in enumerate(counts)]
  whole = interleaved(files, cycle)
  skips = {0, len(whole), *(rng.randint(0, len(whole)) for _ in range(4))}
  for skipped in skips:
    rest = interleaving.after(counts, skipped, cycle)
    left = [(files[file][0] + read, counts[file] - read) for file, read in rest]
    actual = interleaved(left, cycle) if left else []
    assert actual == whole[skipped:], (counts, skipped, cycle)


def test_many_records_take_no_time():
  """500 million records in 4,000 files, half of them skipped."""
  counts = [125_000] * 4000
  rest = interleaving.after(counts, 250_000_000, 16)
  partly = [read for _, read in rest if read]
  assert sum(counts[file] - read for file, read in rest) == 250_000_000
  assert len(partly) <= 16 and len(rest) <= 2016


def write_shards(folder, counts):
  """Writes files of `counts` records and a manifest; returns the paths."""
  paths, entries = [], {}
  for number, count in enumerate(counts):
    path = folder / f"a.tfrecord-{number:05}-of-{len(counts):05}"
    with tfrecord.RecordWriter(str(path)) as writer:
      writer.write_all([b"record"] * count)
    paths.append(str(path))
    entries[path.name] = {"records": count, "bytes": path.stat().st_size}
  manifest = folder / "a.tfrecord.manifest.json"
  manifest.write_text(json.dumps({"shards": entries}))
  return paths


def test_counts_come_from_a_manifest_that_fits_the_files(tmp_path, monkeypatch):
  paths = write_shards(tmp_path, [3, 5])
  with open(paths[1], "ab") as stream:
    # The size is not the manifest's.
    stream.write(open(paths[0], "rb").read())
  counted = []
  count = tfrecord.count_records
  monkeypatch.setattr(
    tfrecord, "count_records", lambda path: counted.append(path) or count(path)
  )
  assert [tfrecord.num_records(path) for path in paths] == [3, 8]
  assert counted == paths[1:]


@pytest.mark.parametrize("content", ["{", "[]", '{"shards": [1]}', "{}"])
def test_without_a_valid_manifest_records_are_counted(tmp_path, content):
  [path] = write_shards(tmp_path, [4])
  (tmp_path / "a.tfrecord.manifest.json").write_text(content)
  assert tfrecord.num_records(path) == 4


def test_a_resumed_run_continues_in_the_next_epoch(tmp_path):
  """Most of the files ended before record 40, and are not opened again."""
  counts = [1] * 14 + [2] * 2 + [7] * 4
  paths = []
  for number, count in enumerate(counts):
    paths.append(str(tmp_path / f"{number:02}"))
    with tfrecord.RecordWriter(paths[-1]) as writer:
      writer.write_all([b"%d %d" % (number, index) for index in range(count)])
  stream = dict(num_records=46, seed=3, window=4)
  whole = pipeline.shuffled_records(paths, **stream).take(92)
  expected = list(whole.as_numpy_iterator())
  rest = pipeline.shuffled_records(paths, first_record=41, **stream)
  assert list(rest.take(51).as_numpy_iterator()) == expected[41:]
  left = interleaving.after(counts, 40, 16)
  assert len(left) <= 6
