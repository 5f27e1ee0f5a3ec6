"""What the encoder leaves out changes no number of what it computes."""

import numpy as np
import pytest
import tensorflow as tf

import modeling
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
    layers, heads, width, length = SHAPES[number]
    rng = np.random.RandomState(number)
    self.config = tiny(
      num_hidden_layers=layers,
      num_attention_heads=heads,
      hidden_size=width,
      hidden_dropout_prob=0.0,
      attention_probs_dropout_prob=0.0,
    )
    self.model = modeling.BertModel(self.config, seed=number, **options)
    self.words = modeling.MaskedLMHead(self.config, self.model.word_embeddings)
    shape = [5, length]
    self.mask = mask_with_holes(rng, *shape)
    ids, segments = rng.randint(0, 30, shape), rng.randint(0, 2, shape)
    self.batch = [
      tf.constant(x, tf.int32) for x in (ids, self.mask, segments)
    ]
    # Predicted words are tokens; in the empty row there is [CLS] alone.
    places = [np.flatnonzero(row) if row.any() else [0] for row in self.mask]
    picked = [rng.choice(place, 3) for place in places]
    self.positions = tf.constant(np.array(picked), tf.int32)
    self.labels = tf.constant(rng.randint(0, 30, [5, 3]), tf.int32)

  def step(self, is_partial):
    """Returns logits, pooled output, loss and dense gradients."""
    first = modeling.first_positions(self.positions)
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
      loss = tf.reduce_mean(losses) + tf.reduce_mean(
        tf.square(output.pooled_output[:-1])
      )
    variables = [*self.model.variables, *self.words.variables]
    gradients = tape.gradient(loss, variables)
    dense = [tf.convert_to_tensor(g) for g in gradients]
    return logits, output.pooled_output, loss, dense


def check_same_step(found, expected, tolerance=1e-5):
  for one, other in zip(found[:3], expected[:3]):
    assert_close(one, other, tolerance)
  for one, other in zip(found[3], expected[3]):
    assert_close(one, other, tolerance)


@pytest.mark.parametrize("number", range(len(SHAPES)))
def test_the_last_layer_at_some_positions_equals_the_full_one(number):
  case = Case(number)
  partial, full = case.step(True), case.step(False)
  assert_close(partial[0], full[0], 2e-6)
  assert_close(partial[1], full[1], 1e-6)
  check_same_step(partial, full)


def test_positions_choose_rows_of_a_mask_for_each_token():
  case = Case(1)
  ids = case.batch[0]
  rng = np.random.RandomState(7)
  mask = tf.constant(rng.randint(0, 2, [5, 9, 9]) | np.eye(9, dtype=int))
  full = case.model(ids, mask, return_attention=True)
  some = case.model(
    ids, mask, positions=case.positions, return_attention=True
  )
  expected = tf.gather(full.sequence_output, case.positions, batch_dims=1)
  assert_close(some.sequence_output, expected, 2e-6)
  probs = np.take_along_axis(
    full.attention_probs[-1].numpy(),
    case.positions.numpy()[:, None, :, None],
    axis=2,
  )
  assert_close(some.attention_probs[-1], probs, 2e-6)


def products_of_last_layer(**options):
  """Returns the rows of each matrix product of a one-layer model."""
  model = modeling.BertModel(tiny(num_hidden_layers=1))

  @tf.function
  def encode(ids):
    return model(ids, **options).pooled_output

  graph = encode.get_concrete_function(tf.zeros([3, 8], tf.int32)).graph
  products = [op for op in graph.get_operations() if op.type == "MatMul"]
  return sorted(op.outputs[0].shape[0] for op in products)


def test_the_last_layer_runs_for_the_needed_rows_alone():
  # Segments, key and value of 24 tokens; query, output, both products of the
  # feed-forward and the pooler of 3.
  needed = tf.zeros([3, 1], tf.int32)
  assert products_of_last_layer(positions=needed) == [3] * 5 + [24] * 3
  assert products_of_last_layer() == [3] + [24] * 7
