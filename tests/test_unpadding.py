"""Without padding, and with packed rows, no number of a token changes."""

import numpy as np
import pytest
import tensorflow as tf

import modeling
import tiny_model
import two_replicas
import unpadding
from encoder_cases import SHAPES, Case, check_same, check_same_step
from packed_batches import LENGTH, batch_of, packed, random_masks
from tiny_model import assert_close
from variants import registry

RNG = np.random.RandomState(7)


def test_the_positions_that_a_sequence_takes_of_a_row():
  mask = [[1, 1, 0, 0], [0, 1, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0]]
  assert unpadding.extents(tf.constant(mask)).numpy().tolist() == [2, 4, 2, 4]


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


@pytest.mark.parametrize("variant, options, read", [
  *(("bert", {}, read) for read in (None, 1, 2, 7)),
  *((variant, options, read) for read in (None, 2) for variant, options in (
    ("bert", {"use_one_hot_embeddings": True}),
    ("bert", {"recompute_activations": True}), ("albert", {}),
    ("distilbert", {}),
  )),
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
  of_packed = states_and_gradients(model, packed(batch), positions, weight)
  for one, other in zip(of_packed, plain, strict=True):
    scale = max(1.0, np.abs(other).max())
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * scale)


# Skipped padding.


# Recomputing goes over layers: one shape of several shows it.
@pytest.mark.parametrize("number, recompute", [
  *((number, False) for number in range(len(SHAPES))), (1, True)
])
@pytest.mark.parametrize("is_partial", [False, True])
def test_skipped_padding_changes_no_number(number, is_partial, recompute):
  padded = Case(number)
  tokens = Case(number, skip_padding=True, recompute_activations=recompute)
  check_same_step(tokens.step(is_partial), padded.step(is_partial))
  output, expected = tokens.model(*tokens.batch), padded.model(*padded.batch)
  is_token = np.array(padded.mask, bool)
  is_token |= ~is_token.any(axis=1, keepdims=True)
  for one, other in zip(
    [output.embedding_output, *output.all_encoder_layers],
    [expected.embedding_output, *expected.all_encoder_layers],
  ):
    mask = is_token[..., np.newaxis]
    check_same(one * mask, other * mask)
    # [CLS] is computed where it is masked too.
    assert not one.numpy()[:, 1:][~is_token[:, 1:]].any()
  # The empty row too: as in the original it attends everywhere.
  check_same(output.pooled_output, expected.pooled_output)


def test_a_masked_first_token_is_computed():
  case, mask = Case(2, skip_padding=True), np.ones([5, 12], np.int32)
  mask[:3, [0, 4]] = 0
  pooled = case.model(case.batch[0], mask).pooled_output
  expected = Case(2).model(case.batch[0], mask).pooled_output
  assert_close(pooled, expected)


def test_rows_of_words_have_the_norm_of_the_padded_batch():
  norms = []
  for skip_padding in (False, True):
    case = Case(1, skip_padding=skip_padding)
    with tf.GradientTape() as tape:
      loss = tf.reduce_sum(case.model(*case.batch).pooled_output)
    gradients = tape.gradient(loss, case.model.variables[:3])
    # Positions have a dense gradient, whose norm is that of sums over rows.
    assert [isinstance(g, tf.IndexedSlices) for g in gradients] == [
      True, False, False,
    ]
    norms.append([tf.norm(getattr(g, "values", g)) for g in gradients])
  np.testing.assert_allclose(norms[0], norms[1], rtol=1e-5)


def test_two_devices_without_padding_equal_one():
  case = Case(1, skip_padding=True)
  whole = case.step(True)
  strategy = two_replicas.strategy()
  with strategy.scope():
    model = modeling.BertModel(case.config, seed=1, skip_padding=True)

  @tf.function
  def encode(data):
    return strategy.run(lambda *x: model(*x).pooled_output, args=data)

  parts = strategy.experimental_local_results(
    encode(two_replicas.halves(tuple(case.batch)))
  )
  check_same(tf.concat(parts, axis=0), whole[1])
