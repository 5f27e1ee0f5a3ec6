"""Packing: which sequences share a row, and the batches that a run reads."""

import numpy as np
import pytest
import tensorflow as tf

import unpadding
from packed_batches import LENGTH, batch_of, packed, random_masks
from records import packing, pipeline, tfrecord


def test_a_window_that_is_not_there_takes_nothing_and_the_first_something():
  first = [[1, 1, 0, 0], [0, 0, 0, 0]]
  windows = tf.constant([first, [[0, 0, 0, 0], [0, 1, 0, 0]]])
  lengths = packing.lengths_to_pack(windows, 2)
  assert lengths.numpy().tolist() == [[2, 0], [4, 2]]


def test_the_first_row_with_room_longest_first():
  rows, slots = packing.first_fit([[2, 7, 5, 3, 10], [4, 4, 4, 0, 0]], 10)
  assert rows.numpy()[0].tolist() == [2, 1, 2, 1, 0]
  assert slots.numpy()[0].tolist() == [1, 0, 0, 1, 0]
  assert rows.numpy()[1, :3].tolist() == [0, 0, 1]
  assert slots.numpy()[1, :3].tolist() == [0, 1, 0]


@pytest.mark.parametrize("seed", range(20))
def test_no_row_overflows_and_no_two_rows_could_be_one(seed):
  rng = np.random.RandomState(seed)
  length, count = rng.randint(4, 65), rng.randint(1, 50)
  lengths = rng.randint(0, length + 1, [3, count])
  rows, slots = packing.first_fit(tf.constant(lengths, tf.int32), length)
  for sizes, row, slot in zip(lengths, rows.numpy(), slots.numpy()):
    filled = np.bincount(row, weights=sizes, minlength=count)
    assert filled.max(initial=0) <= length
    used = np.unique(row[sizes > 0])
    assert used.tolist() == list(range(len(used)))
    for number in used:
      own = slot[(row == number) & (sizes > 0)]
      assert sorted(own) == list(range(len(own)))
    levels = np.sort(filled[used])
    assert len(levels) < 2 or levels[0] + levels[1] > length


@pytest.mark.parametrize("parts", [1, 2])
def test_every_sequence_is_in_the_plan_once(parts):
  batch = batch_of(random_masks(16, seed=1, empty=1))
  plan = packed(batch, parts)[unpadding.PLAN].numpy()
  for part in np.split(plan, parts):
    numbers = np.sort(part[part >= 0])
    assert numbers.tolist() == list(range(16 // parts))
  assert len(plan) < 16


def test_the_rate_of_filling_is_that_of_the_rows():
  batch = batch_of(random_masks(8, seed=5, longest=6, holes=False))
  tokens = batch["input_mask"].numpy().sum()
  metrics = pipeline.token_metrics(batch)
  assert metrics["fill_rate"] == (tokens, 8 * LENGTH)
  batch = packed(batch)
  rows = len(batch[unpadding.PLAN])
  assert rows < 8
  metrics = pipeline.token_metrics(batch)
  assert metrics["fill_rate"] == (tokens, rows * LENGTH)
  assert metrics["tokens_per_example"] == (tokens, 8)


FEATURES = {
  name: tf.io.FixedLenFeature([LENGTH], tf.int64)
  for name in ("input_ids", "input_mask", "segment_ids")
}


def write(path, masks):
  ids = np.tile(np.arange(len(masks))[:, None], LENGTH)
  arrays = {"input_ids": ids, "input_mask": masks, "segment_ids": ids * 0}
  with tfrecord.RecordWriter(str(path)) as writer:
    writer.write_all(tfrecord.serialize_examples(arrays))
  return str(path)


@pytest.mark.parametrize("parts", [1, 2])
def test_all_batches_have_one_shape_and_the_fullest_fits(tmp_path, parts):
  masks = random_masks(50, seed=9, longest=7)
  options = {"num_records": 50, "batch_size": 8, "seed": 4}
  files = [write(tmp_path / "records", masks)]
  fits = pipeline.measure_packing(
    files, FEATURES, **options, num_steps=20, replicas=1, parts=parts
  )
  assert fits.parts == parts
  batches = pipeline.training_batches(
    tf.distribute.get_strategy(), files, FEATURES, **options, first_step=0,
    packed=fits,
  )
  assert batches.element_spec[unpadding.PLAN].shape == (
    parts * fits.rows, fits.sequences
  )
  fullest = np.zeros([2], int)
  for batch in batches.take(20):
    plan = batch[unpadding.PLAN].numpy()
    for part in np.split(plan, parts):
      numbers = part[part >= 0]
      assert sorted(numbers) == list(range(8 // parts))
      used = np.argwhere(part >= 0).max(axis=0) + 1
      fullest = np.maximum(fullest, used)
  assert fullest.tolist() == [fits.rows, fits.sequences]


def test_windows_that_are_not_there_take_no_place():
  masks = tf.constant([[[1, 1, 0, 0], [0] * 4, [0] * 4]] * 2)
  dataset = tf.data.Dataset.from_tensors(masks)
  fits = packing.measure(dataset, group_size=2, parts=1)
  assert fits == (1, 2, 1)
  batch = fits.with_plan({"input_mask": masks})
  assert batch[unpadding.PLAN].numpy().tolist() == [[0, 3]]
  assert packing.num_positions(batch) == 4


def test_sequences_that_do_not_fit_together_are_not_packed(tmp_path):
  masks = random_masks(20, seed=1, holes=False)
  masks[:, :7] = 1
  files = [write(tmp_path / "records", masks)]
  assert not pipeline.measure_packing(
    files, FEATURES, num_records=20, batch_size=4, seed=1, num_steps=5,
    replicas=1, parts=1,
  )
