"""What the encoder leaves out changes no number of what it computes."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import heads
import modeling
import two_replicas
from tiny_model import assert_close, tiny

# (layers, heads, width, longest sequence), chosen at random once.
SHAPES = [(1, 2, 8, 5), (2, 4, 16, 9), (3, 1, 12, 12), (2, 3, 24, 7)]


def mask_with_holes(rng, rows, length):
  """Random [B, T]: padding at the end, holes inside, and an empty row."""
  lengths = rng.randint(1, length + 1, [rows])
  mask = np.arange(length) < lengths[:, None]
  mask &= rng.uniform(size=mask.shape) > 0.2
  mask[:, 0] = True
  mask[-1] = False
  mask[0] = True
  return mask.astype(np.int32)


class Case:
  """A model of random size without dropout, and a batch with labels."""

  def __init__(self, number, **options):
    layers, num_heads, width, length = SHAPES[number]
    rng = np.random.RandomState(number)
    self.config = tiny(
      num_hidden_layers=layers, num_attention_heads=num_heads,
      hidden_size=width,
      hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )
    self.model = modeling.BertModel(self.config, seed=number, **options)
    self.words = heads.MaskedLMHead(self.config, self.model.word_embeddings)
    shape = [5, length]
    self.mask = mask_with_holes(rng, *shape)
    ids, segments = rng.randint(0, 30, shape), rng.randint(0, 2, shape)
    self.batch = [tf.constant(x, tf.int32) for x in (ids, self.mask, segments)]
    # Predicted words are tokens; in the empty row there is [CLS] alone.
    places = [np.flatnonzero(row) if row.any() else [0] for row in self.mask]
    picked = [rng.choice(place, 3) for place in places]
    self.positions = tf.constant(np.array(picked), tf.int32)
    self.labels = tf.constant(rng.randint(0, 30, [5, 3]), tf.int32)

  def step(self, is_partial):
    """Returns logits, pooled output, loss and dense gradients."""
    first = self.model.pooled_positions(self.mask)
    with tf.GradientTape() as tape:
      if is_partial:
        needed = tf.concat([first, self.positions], axis=1)
        output = self.model(*self.batch, training=True, positions=needed)
        logits = self.words(output.sequence_output[:, 1:])
      else:
        output = self.model(*self.batch, training=True)
        logits = self.words(output.sequence_output, self.positions)
      losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        self.labels, logits
      )
      loss = tf.reduce_mean(losses[:-1]) + tf.reduce_mean(
        tf.square(output.pooled_output[:-1])
      )
    variables = [*self.model.variables, *self.words.variables]
    gradients = tape.gradient(loss, variables)
    dense = [tf.convert_to_tensor(g) for g in gradients]
    return logits, output.pooled_output, loss, dense


def check_same(found, expected, tolerance=1e-5):
  """Compares values [B, ...]; the empty row is good to 1e-3 only.

  Its scores are around -10000, where float32 steps by 1e-3.
  """
  assert_close(found[:-1], expected[:-1], tolerance)
  assert_close(found[-1], expected[-1], 2e-3)


def check_same_step(found, expected):
  for one, other in zip(found[:2], expected[:2]):
    check_same(one, other)
  assert_close(found[2], expected[2])
  for one, other in zip(found[3], expected[3]):
    assert_close(one, other)


@pytest.mark.parametrize("number", range(len(SHAPES)))
def test_the_last_layer_at_some_positions_equals_the_full_one(number):
  case = Case(number)
  partial, full = case.step(True), case.step(False)
  check_same(partial[0], full[0], 5e-6)
  check_same(partial[1], full[1], 5e-6)
  check_same_step(partial, full)


def test_positions_choose_rows_of_a_mask_for_each_token():
  case = Case(1)
  ids = case.batch[0]
  rng = np.random.RandomState(7)
  mask = tf.constant(rng.randint(0, 2, [5, 9, 9]) | np.eye(9, dtype=int))
  full = case.model(ids, mask, return_attention=True)
  some = case.model(ids, mask, positions=case.positions, return_attention=True)
  expected = tf.gather(full.sequence_output, case.positions, batch_dims=1)
  assert_close(some.sequence_output, expected, 2e-6)
  probs = np.take_along_axis(
    full.attention_probs[-1].numpy(), case.positions.numpy()[:, None, :, None],
    axis=2,
  )
  assert_close(some.attention_probs[-1], probs, 2e-6)


def rows_of_products(monkeypatch, *data, skip_padding=False, **options):
  """Returns the rows of each matrix product of a one-layer model."""
  # In line: the operations of functions in a function are not listed.
  monkeypatch.setattr(tf, "inside_function", lambda: False)
  config = tiny(num_hidden_layers=1)
  model = modeling.BertModel(config, skip_padding=skip_padding)

  @tf.function
  def rows(*data):
    model(*data, **options)
    graph = tf.compat.v1.get_default_graph()
    return [
      tf.shape(op.outputs[0])[0] for op in graph.get_operations()
      if op.type == "MatMul"
    ]

  return sorted(int(number) for number in rows(*data))


def test_products_run_for_the_needed_rows_alone(monkeypatch):
  rows = functools.partial(rows_of_products, monkeypatch)
  ids, needed = tf.zeros([3, 8], tf.int32), tf.zeros([3, 1], tf.int32)
  assert rows(ids) == [3] + [24] * 7
  # Segments, key and value of 24 tokens; query, output, both products of the
  # feed-forward and the pooler of 3.
  assert rows(ids, positions=needed) == [3] * 5 + [24] * 3
  # Of the 24 tokens 15 are padding.
  mask = tf.constant(np.arange(8) < [[2], [1], [6]], tf.int32)
  found = rows(ids, mask, skip_padding=True, positions=needed)
  assert found == [3] * 5 + [9] * 3


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("is_partial", [False, True])
@pytest.mark.parametrize("number", range(len(SHAPES)))
def test_skipped_padding_changes_no_number(number, is_partial, recompute):
  padded = Case(number)
  tokens = Case(number, skip_padding=True, recompute_activations=recompute)
  check_same_step(tokens.step(is_partial), padded.step(is_partial))
  found, expected = tokens.model(*tokens.batch), padded.model(*padded.batch)
  is_token = np.array(padded.mask, bool)
  is_token |= ~is_token.any(axis=1, keepdims=True)
  for one, other in zip(
    [found.embedding_output, *found.all_encoder_layers],
    [expected.embedding_output, *expected.all_encoder_layers],
  ):
    mask = is_token[..., np.newaxis]
    check_same(one * mask, other * mask)
    # [CLS] is computed where it is masked too.
    assert not one.numpy()[:, 1:][~is_token[:, 1:]].any()
  # The empty row too: as in the original it attends everywhere.
  check_same(found.pooled_output, expected.pooled_output)


def test_a_masked_first_token_is_computed():
  case, mask = Case(2, skip_padding=True), np.ones([5, 12], np.int32)
  mask[:3, [0, 4]] = 0
  found = case.model(case.batch[0], mask).pooled_output
  expected = Case(2).model(case.batch[0], mask).pooled_output
  assert_close(found, expected)


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
