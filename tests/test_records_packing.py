"""Packing: the rows themselves, and that no number of a sequence changes."""

import numpy as np
import pytest
import tensorflow as tf

import modeling
import tiny_model
import unpadding
from records import packing, pipeline, tfrecord
from variants import registry

LENGTH = 12
RNG = np.random.RandomState(7)


def random_masks(count, *, seed, holes=True, empty=0, longest=LENGTH):
  """Masks [count, T] of sequences of 1 to `longest` tokens.

  Every third has holes, the last `empty` have no token at all.
  """
  rng = np.random.RandomState(seed)
  lengths = rng.randint(1, longest + 1, [count])
  mask = (np.arange(LENGTH) < lengths[:, None]).astype(np.int32)
  if holes:
    mask[::3] *= rng.randint(0, 2, [LENGTH], dtype=np.int32)
  if empty:
    mask[-empty:] = 0
  return mask


def batch_of(mask, seed=0):
  rng = np.random.RandomState(seed)
  shape = mask.shape
  arrays = {
    "input_ids": rng.randint(0, 30, shape), "input_mask": mask,
    "segment_ids": rng.randint(0, 2, shape),
  }
  return {k: tf.constant(v, tf.int32) for k, v in arrays.items()}


def packed(batch, parts=1):
  lengths = packing.lengths_to_pack(batch["input_mask"], parts)
  rows, slots = packing.first_fit(lengths, batch["input_mask"].shape[-1])
  is_there = lengths.numpy() > 0
  fits = packing.Packing(
    int(rows.numpy()[is_there].max()) + 1,
    int(slots.numpy()[is_there].max()) + 1, parts,
  )
  return fits.with_plan(batch)


def test_what_a_sequence_takes_of_a_row():
  mask = [[1, 1, 0, 0], [0, 1, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0]]
  assert unpadding.extents(tf.constant(mask)).numpy().tolist() == [2, 4, 2, 4]
  # Windows that are not there take nothing, the first always something.
  windows = tf.constant([[mask[0], mask[3]], [mask[3], mask[2]]])
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


def test_every_token_is_computed_once_and_sees_its_own_sequence():
  mask = random_masks(9, seed=3, empty=1)
  batch = packed(batch_of(mask))
  # Each position of the batch has an id of its own, 0 is none.
  ids = 1 + np.arange(mask.size).reshape(mask.shape)
  batch["input_ids"] = tf.constant(ids, tf.int32)
  inputs = {
    name: value.numpy() for name, value in
    unpadding.PackedBatch.of_batch(batch).inputs(batch).items()
  }
  ids_of_rows = inputs["input_ids"]
  extents = unpadding.extents(mask).numpy()
  kept = np.concatenate([row[:n] for row, n in zip(ids, extents)])
  assert sorted(ids_of_rows[ids_of_rows > 0]) == sorted(kept)
  for row in range(len(ids_of_rows)):
    for place in np.flatnonzero(ids_of_rows[row]):
      sequence, position = divmod(ids_of_rows[row, place] - 1, LENGTH)
      assert inputs["position_ids"][row, place] == position
      attended = ids_of_rows[row, inputs["input_mask"][row, place]]
      assert attended.tolist() == ids[sequence, mask[sequence] > 0].tolist()


def encoder(variant="bert", **options):
  config = tiny_model.tiny().to_dict()
  if variant != "bert":
    config.update(variant=variant, embedding_size=8, num_hidden_groups=1)
  config = modeling.BertConfig.from_dict(config)
  return registry.make_encoder(config, seed=3, **options)


def states_and_gradients(model, batch, positions, weight):
  """Last states, pooled output, and gradients of a weighted sum of both."""
  with tf.GradientTape() as tape:
    output = model.encode(batch, positions=positions)
    states = output.sequence_output
    loss = tf.reduce_sum(states * weight)
    loss += tf.reduce_sum(tf.sin(output.pooled_output))
  # The rows of words as a list: the norm of gradients is that of the list.
  gradients = tape.gradient(loss, model.trainable_variables)
  squares = sum(
    tf.reduce_sum(g.values**2) for g in gradients
    if isinstance(g, tf.IndexedSlices)
  )
  return [
    states * weight, output.pooled_output, squares,
    *map(tf.convert_to_tensor, gradients),
  ]


@pytest.mark.parametrize("read", [None, 1, 2, 7])
@pytest.mark.parametrize("variant, options", [
  ("bert", {}), ("bert", {"use_one_hot_embeddings": True}),
  ("bert", {"recompute_activations": True}), ("albert", {}), ("distilbert", {})
])
def test_states_and_gradients_are_those_of_plain_rows(variant, options, read):
  model = encoder(variant, **options)
  mask = random_masks(8, seed=5, longest=6, empty=1)
  mask[:, 0] |= mask[:, 1]
  batch = batch_of(mask)
  extents = unpadding.extents(mask).numpy()[:, None]
  positions = None
  is_read = (np.arange(LENGTH) < extents).astype(np.float32)
  if read:
    positions = RNG.randint(0, LENGTH, [8, read]) % extents
    positions[:, 0] = 0
    is_read = np.ones([8, read], np.float32)
  weight = is_read[..., None] * RNG.randn(*is_read.shape, 16).astype("f")
  plain = states_and_gradients(model, batch, positions, weight)
  found = states_and_gradients(model, packed(batch), positions, weight)
  for one, other in zip(found, plain, strict=True):
    scale = max(1.0, np.abs(other).max())
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * scale)


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
