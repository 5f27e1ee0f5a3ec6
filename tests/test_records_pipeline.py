"""Tests the order of records, their distribution, trimming and bad files."""

import numpy as np
import pytest
import tensorflow as tf

import two_replicas
from common import errors
from pretraining import record_checks
from records import pipeline, tfrecord

FEATURES = {
  "input_ids": tf.io.FixedLenFeature([4], tf.int64),
  "masked_lm_weights": tf.io.FixedLenFeature([2], tf.float32),
  "label": tf.io.FixedLenFeature([], tf.int64),
}
SIZES = (7, 1, 5)  # records in each file
COUNT = sum(SIZES)


def write_records(path, records):
  with tfrecord.RecordWriter(str(path)) as writer:
    writer.write_all(records)
  return str(path)


def example(number, **changed):
  features = {
    "input_ids": [number, 0, 0, 300],
    "masked_lm_weights": [0.5, number],
    "label": [number],
  }
  return tfrecord.serialize_example({**features, **changed})


@pytest.fixture(scope="module")
def files(tmp_path_factory):
  """Three files with the records b"0" to b"12"."""
  folder = tmp_path_factory.mktemp("records")
  paths, first = [], 0
  for size in SIZES:
    numbers = range(first, first + size)
    path = folder / f"from_{first:02d}.tfrecord"
    paths.append(write_records(path, [b"%d" % number for number in numbers]))
    first += size
  return paths


@pytest.fixture(scope="module")
def examples_file(tmp_path_factory):
  """A file of ten examples; example n has n in each of its features."""
  path = tmp_path_factory.mktemp("examples") / "ten.tfrecord"
  return write_records(path, [example(number) for number in range(10)])


def numbers_of(records, count):
  return [int(record) for record in records.take(count).as_numpy_iterator()]


def shuffled(files, *, seed=5, **options):
  return pipeline.shuffled_records(
    files, num_records=COUNT, seed=seed, **options
  )


@pytest.mark.parametrize("window", [2, 4, 1000])
def test_every_epoch_holds_every_record_once(files, window):
  order = numbers_of(shuffled(files, window=window), 3 * COUNT)
  epochs = [tuple(order[i : i + COUNT]) for i in range(0, 3 * COUNT, COUNT)]
  for epoch in epochs:
    assert sorted(epoch) == list(range(COUNT))
  assert len(set(epochs)) == 3


def test_the_order_is_a_function_of_the_seed(files):
  order = numbers_of(shuffled(files, seed=5), 2 * COUNT)
  assert numbers_of(shuffled(files, seed=5), 2 * COUNT) == order
  assert numbers_of(shuffled(files[::-1], seed=5), 2 * COUNT) == order
  assert numbers_of(shuffled(files, seed=6), 2 * COUNT) != order


def test_the_order_stays_the_same_in_new_versions(files, tmp_path):
  """A resumed run goes on with the same records."""
  order = numbers_of(shuffled(files, window=4), 2 * COUNT)
  epochs = [order[:COUNT], order[COUNT:]]
  assert epochs == [
    [8, 0, 7, 9, 2, 10, 11, 1, 12, 5, 4, 3, 6],
    [9, 7, 0, 8, 10, 2, 11, 1, 5, 12, 3, 4, 6],
  ]
  path = write_lengths(tmp_path / "a", [n * 37 % 64 + 1 for n in range(70)])
  stream = bucketed([path])
  numbers = [29, 29, 29, 10, 28, 9, 9, 9, 62, 62, 43, 43, 14, 59, 59, 59]
  assert [int(next(stream)[0]) for _ in numbers] == numbers


def test_a_window_as_large_as_the_data_shuffles_all_of_it(files):
  epochs = 60
  order = np.reshape(numbers_of(shuffled(files), epochs * COUNT), (epochs, -1))
  # A record misses a position in 60 epochs with probability (12/13)**60, 1/120.
  for position in range(COUNT):
    assert len(set(order[:, position])) >= COUNT - 2


def test_a_small_window_shuffles_only_near_neighbours(files):
  order = numbers_of(shuffled(files[:1], window=2), SIZES[0])
  pairs = [sorted(order[i : i + 2]) for i in range(0, SIZES[0], 2)]
  assert pairs == [[0, 1], [2, 3], [4, 5], [6]]


@pytest.mark.parametrize("window", [1, 4, COUNT, 1000])
def test_the_stream_can_be_entered_anywhere(files, window):
  whole = numbers_of(shuffled(files, window=window), 3 * COUNT)
  # Borders of windows and epochs, their neighbours, and positions between.
  for first in (1, 4, 6, 12, 13, 14, 17, 26, 29):
    entered = shuffled(files, window=window, first_record=first)
    assert numbers_of(entered, 8) == whole[first : first + 8], first


def test_more_files_than_are_read_together_can_be_entered_anywhere(tmp_path):
  paths = [
    write_records(tmp_path / f"{i:02d}", [b"%d" % (2 * i), b"%d" % (2 * i + 1)])
    for i in range(20)
  ]

  def order(count, first):
    records = pipeline.shuffled_records(
      paths, num_records=40, seed=1, window=6, first_record=first
    )
    return numbers_of(records, count)

  whole = order(80, 0)
  assert sorted(whole[:40]) == sorted(whole[40:]) == list(range(40))
  for first in (7, 39, 45):
    assert order(30, first) == whole[first : first + 30]


def test_compressed_files_give_the_same_records(tmp_path, files):
  packed = write_records(
    tmp_path / "packed.gz", [b"%d" % number for number in range(SIZES[0])]
  )
  both = [packed, *files[1:]]
  assert numbers_of(pipeline.sequential_records(both), -1) == list(range(COUNT))
  order = numbers_of(shuffled(both), 2 * COUNT)
  assert sorted(order[:COUNT]) == list(range(COUNT))
  assert numbers_of(shuffled(both, first_record=9), 8) == order[9:17]


class SeveralProcesses:
  """Stands in for a strategy; returns the input of every process."""

  def __init__(self, num_processes, num_replicas):
    self.num_replicas_in_sync = num_replicas
    self._contexts = [
      tf.distribute.InputContext(num_processes, index, num_replicas)
      for index in range(num_processes)
    ]

  def distribute_datasets_from_function(self, make_input):
    return [make_input(context) for context in self._contexts]


def batches_of(strategy, path, batch_size, **options):
  return pipeline.distributed_batches(
    strategy,
    pipeline.sequential_records([path]),
    FEATURES,
    batch_size=batch_size,
    **options,
  )


def labels_per_replica(strategy, batches):
  return [
    [
      share.numpy().tolist()
      for share in strategy.experimental_local_results(batch["label"])
    ]
    for batch in batches
  ]


def test_a_batch_on_one_device_and_on_two(examples_file):
  strategy = tf.distribute.OneDeviceStrategy("CPU:0")
  batches = batches_of(strategy, examples_file, 4)
  # With autotuning, ending an iterator could take as long as using it.
  assert batches.options().autotune.enabled is False
  batches = list(batches)
  # Records 8 and 9 would not fill a batch.
  assert labels_per_replica(strategy, batches) == [
    [[0, 1, 2, 3]],
    [[4, 5, 6, 7]],
  ]
  two = two_replicas.strategy()
  assert labels_per_replica(two, batches_of(two, examples_file, 4)) == [
    [[0, 1], [2, 3]],
    [[4, 5], [6, 7]],
  ]
  batch = batches[1]
  assert {name: value.dtype for name, value in batch.items()} == {
    "input_ids": tf.int32,
    "masked_lm_weights": tf.float32,
    "label": tf.int32,
  }
  assert batch["input_ids"].numpy().tolist()[1] == [5, 0, 0, 300]
  assert batch["masked_lm_weights"].numpy().tolist()[1] == [0.5, 5.0]


@pytest.mark.parametrize("num_processes", [1, 2, 4])
def test_processes_share_the_batch_of_one_device(examples_file, num_processes):
  processes = SeveralProcesses(num_processes, num_replicas=4)
  inputs = batches_of(processes, examples_file, 8)
  assert inputs[0].options().autotune.enabled is False
  shares = [
    batch["label"].tolist()
    for process in inputs
    for batch in process.as_numpy_iterator()
  ]
  assert shares == [[0, 1], [2, 3], [4, 5], [6, 7]]


@pytest.mark.parametrize("num_processes", [1, 2, 4])
def test_a_transform_is_told_which_rows_it_has(examples_file, num_processes):
  """Random draws for a row must not depend on the number of devices."""

  def add_position(batch, step, *, rows, first_row):
    row = first_row + tf.range(tf.shape(batch["label"])[0])
    return {"position": step * rows + tf.cast(row, tf.int64)}

  inputs = batches_of(
    SeveralProcesses(num_processes, num_replicas=4),
    examples_file,
    4,
    transform=add_position,
    first_step=3,
  )
  positions = [
    batch["position"].tolist()
    for process in inputs
    for batch in process.as_numpy_iterator()
  ]
  # Steps 3 and 4 have four rows each; a process gets its rows of both.
  expected = [[position] for position in range(12, 20)]
  assert sorted(positions) == expected
  assert positions[: 4 // num_processes] == expected[: 4 // num_processes]


def test_a_batch_that_cannot_be_shared_equally_is_refused(examples_file):
  processes = SeveralProcesses(2, num_replicas=4)
  with pytest.raises(
    errors.InputError, match="size=6: .* by 4 replicas; pass a multiple of 4"
  ):
    batches_of(processes, examples_file, 6)


def padded_batch(lengths, width):
  """Returns sequences of these lengths, padded with zeros to `width`."""
  mask = np.arange(width) < np.array(lengths)[:, None]
  ids = np.arange(1, mask.size + 1).reshape(mask.shape) * mask
  return {
    "input_ids": tf.constant(ids, tf.int32),
    "input_mask": tf.constant(mask, tf.int32),
    "segment_ids": tf.constant(mask * (np.arange(width) > 3), tf.int32),
    "masked_lm_positions": tf.zeros([len(lengths), width], tf.int32),
    "label_ids": tf.constant(lengths, tf.int32),
  }


@pytest.mark.parametrize(
  "lengths, width, expected",
  [
    ([3, 8, 1], 32, 8),
    ([3, 9, 1], 32, 16),
    ([3, 32, 1], 32, 32),
    ([9, 2], 12, 12),  # no multiple of 8 below the width
    ([0, 0], 32, 1),
  ],
)
def test_trimming_cuts_only_common_padding(lengths, width, expected):
  batch = padded_batch(lengths, width)
  trimmed = pipeline.trim_to_longest(batch)
  for name in ("input_ids", "input_mask", "segment_ids"):
    before, after = batch[name].numpy(), trimmed[name].numpy()
    assert after.shape == (len(lengths), expected)
    np.testing.assert_array_equal(before[:, :expected], after)
    assert not before[:, expected:].any()
  for name in ("masked_lm_positions", "label_ids"):
    assert trimmed[name] is batch[name]


def test_trimming_keeps_tokens_after_holes_and_trims_token_labels():
  batch = padded_batch([3, 20], 32)
  batch["input_mask"] *= tf.constant([0] * 15 + [1] * 17)
  batch["label_ids"] = batch["input_ids"] + 1
  trimmed = pipeline.trim_to_longest(batch)
  assert trimmed["input_ids"].shape == [2, 24]
  labels = batch["label_ids"][:, :24]
  np.testing.assert_array_equal(trimmed["label_ids"], labels)


def test_several_sequences_of_an_example_are_trimmed_together():
  mask = np.zeros([2, 3, 24], np.int32)
  mask[0, 1, :9] = mask[1, 0, :3] = 1
  batch = {
    "input_ids": tf.constant(mask),
    "input_mask": tf.constant(mask),
    "label_ids": tf.zeros([2, 24], tf.int32),
  }
  trimmed = pipeline.trim_to_longest(batch)
  assert trimmed["input_ids"].shape == [2, 3, 16]
  assert trimmed["label_ids"] is batch["label_ids"]
  features = {"first_states": tf.zeros([2, 3, 4])}
  assert pipeline.trim_to_longest(features) == features


@pytest.mark.parametrize(
  "record, message",
  [
    (
      tfrecord.serialize_example({"label": [1], "words": [2]}),
      "no feature 'input_ids'; they have label, words",
    ),
    (
      example(0, input_ids=[1, 2, 3]),
      "input_ids has 3 values per record, but the flags require 4; "
      "pass the --max_seq_length",
    ),
    (example(0, label=[1, 2]), "label has 2 values per record"),
    (b"no example", "record 1 is not a tf.train.Example"),
  ],
)
def test_unsuitable_records_are_named(tmp_path, examples_file, record, message):
  path = write_records(tmp_path / "other.tfrecord", [record])
  with pytest.raises(errors.InputError) as raised:
    record_checks.check_records([examples_file, path], FEATURES)
  assert str(raised.value).startswith(path)
  assert message in str(raised.value)


def test_an_empty_file_is_named(tmp_path, examples_file):
  assert record_checks.check_records([examples_file] * 2, FEATURES) == 20
  path = write_records(tmp_path / "empty.tfrecord", [])
  with pytest.raises(
    errors.InputError, match="empty.tfrecord holds no records"
  ):
    record_checks.check_records([examples_file, path], FEATURES)


@pytest.mark.parametrize("read", ["sequential_records", "shuffled_records"])
def test_a_damaged_record_is_named_with_its_file(tmp_path, files, read):
  path = tmp_path / "damaged.tfrecord"
  with open(files[0], "rb") as stream:
    content = bytearray(stream.read())
  content[2 * (12 + 1 + 4) + 12] ^= 1  # the data of the third record
  path.write_bytes(content)
  damaged = [files[1], str(path)]
  options = (
    {}
    if read == "sequential_records"
    else {"num_records": SIZES[0] + SIZES[1], "seed": 1}
  )
  records = getattr(pipeline, read)(damaged, **options)
  with pytest.raises(errors.InputError, match="damaged.tfrecord: record 3 is"):
    with record_checks.damage_named(damaged):
      numbers_of(records, 8)


def test_other_errors_are_not_renamed(files):
  with pytest.raises(tf.errors.NotFoundError):
    with record_checks.damage_named(files):
      tf.io.read_file(files[0] + "-none")


def write_lengths(path, lengths):
  """Writes numbered records of 64 positions with these numbers of tokens."""
  mask = np.arange(64) < np.array(lengths)[:, None]
  return write_records(
    path,
    tfrecord.serialize_examples(
      {
        "number": np.arange(len(lengths))[:, None],
        "input_mask": mask.astype(int),
      }
    ),
  )


MASK = {"input_mask": tf.io.FixedLenFeature([64], tf.int64)}


def test_tokens_are_counted(tmp_path):
  paths = [
    write_lengths(tmp_path / "a", [3, 1]),
    write_lengths(tmp_path / "b", [4]),
  ]
  records = pipeline.sequential_records(paths)
  assert pipeline.token_counts(records, MASK).tolist() == [3, 1, 4]


@pytest.mark.parametrize("window", [2, 3, 100])
def test_order_by_length_sorts_each_window(window, monkeypatch):
  monkeypatch.setattr(pipeline, "_SORTED_WINDOW", window)
  lengths = [1, 5, 5, 2, 9, 3, 7]
  order = pipeline.order_by_length(lengths)
  assert sorted(order) == list(range(7))
  for start in range(0, 7, window):
    part = order[start : start + window]
    assert set(part) == set(range(start, min(start + window, 7)))
    assert list(part) == sorted(part, key=lambda i: (-lengths[i], i))
  records = tf.data.Dataset.from_tensor_slices([str(i) for i in range(7)])
  strings = pipeline.reordered(records, order)
  assert [int(s) for s in strings.as_numpy_iterator()] == list(order)


def bucketed(files, first_record=0):
  dataset = pipeline.bucketed_records(
    files, MASK, batch_size=4, num_records=70, seed=3, first_record=first_record
  )

  def number_and_length(string):
    values = tf.io.parse_single_example(
      string, {"number": tf.io.FixedLenFeature([], tf.int64), **MASK}
    )
    return values["number"], tf.reduce_sum(values["input_mask"])

  return dataset.map(number_and_length).as_numpy_iterator()


def test_buckets_hold_similar_lengths_and_can_be_entered_anywhere(tmp_path):
  path = write_lengths(tmp_path / "a", [n * 37 % 64 + 1 for n in range(70)])
  stream = bucketed([path])
  rows = [next(stream) for _ in range(280)]
  # 280 records are four epochs. The first 200 are shuffled together and touch
  # three epochs, so each record occurs in them at most three times.
  numbers = [number for number, _ in rows[:200]]
  assert set(numbers) == set(range(70))
  assert max(numbers.count(number) for number in range(70)) <= 3
  batches = [rows[i : i + 4] for i in range(0, 200, 4)]
  spreads = [max(n for _, n in b) - min(n for _, n in b) for b in batches]
  assert max(spreads) <= 4
  longest = [max(n for _, n in batch) for batch in batches]
  assert longest != sorted(longest)  # The batches are shuffled.
  for first in (1, 4, 199, 200, 237):
    entered = bucketed([path], first)
    assert [next(entered) for _ in range(20)] == rows[first : first + 20]
