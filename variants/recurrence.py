"""A layer of LSTM cells over sequences, in both directions.

Letters: B batch, T sequence, S units of one direction, D = 2 directions.
"""

import math
from collections.abc import Sequence

import tensorflow as tf

import named_weights

# The usual value: cells keep most of their state at the start of training.
_FORGET_BIAS = 1.0


def initial(
  name: str, shape: Sequence[int], units: int, seed: int
) -> tf.Tensor:
  """Returns an LSTM's usual initial weights, uniform in +-1 / sqrt(units)."""
  seeds = tf.constant([seed, named_weights.name_number(name)], tf.int64)
  limit = 1 / math.sqrt(units)
  return tf.random.stateless_uniform(
    shape, seed=seeds, minval=-limit, maxval=limit, alg="philox"
  )


def bilstm(
  x: tf.Tensor,
  lengths: tf.Tensor,
  kernel: tf.Tensor,
  recurrent_kernel: tf.Tensor,
  bias: tf.Tensor,
) -> tf.Tensor:
  """Runs an LSTM over sequences in both directions.

      c' = sigmoid(f + 1) c + sigmoid(i) tanh(j),  h' = sigmoid(o) tanh(c')

  with [i, j, f, o] = x W + h U + b (Hochreiter & Schmidhuber 1997 with the
  forget gate of Gers et al. 2000). The backward direction starts at the last
  token of each sequence, so padding has no effect on the outputs of tokens.

  Args:
    x: float32 [B, T, inputs].
    lengths: int32 [B], the number of tokens in each sequence.
    kernel: W [D, inputs, 4S]; the forward direction comes first.
    recurrent_kernel: U [D, S, 4S].
    bias: b [D, 4S].

  Returns:
    [B, T, 2S], forward and backward concatenated.
  """
  # Both directions, [D, B, T, inputs]: reverse_sequence reverses only the
  # tokens and leaves padding at the end.
  both = tf.stack([x, tf.reverse_sequence(x, lengths, seq_axis=1)])
  # One product computes x W for all steps, because x W needs no earlier state.
  from_input = tf.einsum("dbti,dij->tdbj", both, kernel)
  from_input += bias[:, tf.newaxis]  # [T, D, B, 4S]
  zeros = tf.zeros_like(from_input[0, ..., : recurrent_kernel.shape[1]])

  def step(state: tuple, inputs: tuple) -> tuple:
    hidden, cell = state  # [D, B, S]
    # [D, B, 4S], both directions in one product.
    gates = inputs + tf.matmul(hidden, recurrent_kernel)
    i, j, f, o = tf.split(gates, 4, axis=-1)  # [D, B, S] each
    cell = tf.sigmoid(f + _FORGET_BIAS) * cell + tf.sigmoid(i) * tf.tanh(j)
    return tf.sigmoid(o) * tf.tanh(cell), cell

  hidden, _ = tf.scan(step, from_input, initializer=(zeros, zeros))
  forward, backward = tf.unstack(tf.transpose(hidden, [1, 2, 0, 3]))
  # Restore the order of the text, which aligns both directions by token.
  backward = tf.reverse_sequence(backward, lengths, seq_axis=1)
  return tf.concat([forward, backward], axis=-1)
