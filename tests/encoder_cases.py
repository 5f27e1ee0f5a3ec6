"""Small encoders of several sizes; batches with padding and mask holes."""

import numpy as np
import tensorflow as tf

import heads
import modeling
from tiny_model import assert_close, tiny

# Arbitrary values of (layers, heads, width, sequence length).
SHAPES = [(1, 2, 8, 5), (2, 4, 16, 9), (3, 1, 12, 12), (2, 3, 24, 7)]


def mask_with_holes(rng, rows, length):
  """Returns a random mask [B, T] with padding, holes and an empty last row.

  A hole is a position with mask 0 in front of a token.
  """
  lengths = rng.randint(1, length + 1, [rows])
  mask = np.arange(length) < lengths[:, None]
  mask &= rng.uniform(size=mask.shape) > 0.2
  mask[:, 0] = True
  mask[-1] = False
  mask[0] = True
  return mask.astype(np.int32)


class Case:
  """A model of SHAPES[number] without dropout, and a batch with labels."""

  def __init__(self, number, **options):
    layers, num_heads, width, length = SHAPES[number]
    rng = np.random.RandomState(number)
    self.config = tiny(
      num_hidden_layers=layers,
      num_attention_heads=num_heads,
      hidden_size=width,
      hidden_dropout_prob=0.0,
      attention_probs_dropout_prob=0.0,
    )
    self.model = modeling.BertModel(self.config, seed=number, **options)
    self.masked_lm = heads.MaskedLMHead(self.config, self.model.word_embeddings)
    shape = [5, length]
    self.mask = mask_with_holes(rng, *shape)
    ids, segments = rng.randint(0, 30, shape), rng.randint(0, 2, shape)
    self.batch = [tf.constant(x, tf.int32) for x in (ids, self.mask, segments)]
    # Only positions with mask 1 are predicted; in the empty row, position 0.
    tokens = [np.flatnonzero(row) if row.any() else [0] for row in self.mask]
    predicted = [rng.choice(choices, 3) for choices in tokens]
    self.positions = tf.constant(np.array(predicted), tf.int32)
    self.labels = tf.constant(rng.randint(0, 30, [5, 3]), tf.int32)

  def step(self, is_partial):
    """Returns logits, pooled output, loss and dense gradients."""
    # A partial last layer computes only the needed positions.
    first = self.model.pooled_positions(self.mask)
    with tf.GradientTape() as tape:
      if is_partial:
        needed = tf.concat([first, self.positions], axis=1)
        output = self.model(*self.batch, training=True, positions=needed)
        logits = self.masked_lm(output.sequence_output[:, 1:])
      else:
        output = self.model(*self.batch, training=True)
        logits = self.masked_lm(output.sequence_output, self.positions)
      losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        self.labels, logits
      )
      loss = tf.reduce_mean(losses[:-1]) + tf.reduce_mean(
        tf.square(output.pooled_output[:-1])
      )
    variables = [*self.model.variables, *self.masked_lm.variables]
    gradients = tape.gradient(loss, variables)
    dense = [tf.convert_to_tensor(g) for g in gradients]
    return logits, output.pooled_output, loss, dense


def check_same(outputs, expected, tolerance=1e-5):
  """Compares arrays [B, ...], with a tolerance of 2e-3 for the empty last row.

  The empty row's attention scores are around -10000, where neighboring float32
  values are 1e-3 apart.
  """
  assert_close(outputs[:-1], expected[:-1], tolerance)
  assert_close(outputs[-1], expected[-1], 2e-3)


def check_same_step(step, expected):
  for value, expected_value in zip(step[:2], expected[:2]):
    check_same(value, expected_value)
  assert_close(step[2], expected[2])
  for value, expected_value in zip(step[3], expected[3]):
    assert_close(value, expected_value)
