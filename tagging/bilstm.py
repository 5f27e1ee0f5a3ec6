"""The paper's feature-based tagger: a BiLSTM on hidden states of BERT.

Section 5.3 of arXiv 1810.04805 freezes the encoder, takes the states of some
layers as features, and trains a two-layer BiLSTM of 768 units and a classifier
on them. Letters: B batch, T sequence, H width of BERT, S units of one
direction of the BiLSTM, D = 2 directions, L labels.
"""

import math

import tensorflow as tf

import layers
import modeling
from common import errors

# Name of --feature_layers -> the layers, and how they are combined. None: the
# embeddings.
_FEATURES = {
  "embeddings": (None, "concat"), "second_to_last": (slice(-2, -1), "concat"),
  "last": (slice(-1, None), "concat"),
  "weighted_sum_last_four": (slice(-4, None), "weighted_sum"),
  "concat_last_four": (slice(-4, None), "concat"),
  "weighted_sum_all": (slice(None), "weighted_sum"),
}
FEATURES = tuple(_FEATURES)

_DROPOUT = 0.1
# The paper does not give it; 1 is the usual value, so that the cells remember
# at the start of training.
_FORGET_BIAS = 1.0


def layers_needed(features: str) -> int:
  """Returns how many encoder layers a model needs for these features."""
  chosen, _ = _FEATURES[features]
  return -(chosen.start or -1) if chosen else 0


def check_features(names: list[str], num_hidden_layers: int) -> None:
  """Checks that a model has the layers of all features.

  Raises InputError: a name is unknown, or the model has too few layers for it.
  """
  for features in names:
    if features not in FEATURES:
      raise errors.InputError(
        f"--feature_layers={features} is none of {', '.join(FEATURES)}"
      )
    needed = layers_needed(features)
    if needed > num_hidden_layers:
      raise errors.InputError(
        f"--feature_layers={features} needs {needed} layers, but the model "
        f"has {num_hidden_layers}"
      )


def states_read(names: list[str], num_hidden_layers: int) -> list[int]:
  """Returns which of the encoder's outputs some features read, ascending.

  0 is the output of the embeddings, n that of the n-th layer.
  """
  read = set()
  for name in names:
    chosen, _ = _FEATURES[name]
    numbers = range(1, num_hidden_layers + 1)
    read.update(numbers[chosen] if chosen else [0])
  return sorted(read)


class FeatureTagger(tf.Module):
  """Scores labels of every token with a BiLSTM on features of BERT.

  Variables: tagging/..., output_weights and output_bias.
  """

  def __init__(
    self, config: modeling.BertConfig, num_labels: int, *, features: str,
    size: int = 768, seed: int = 12345
  ):
    """Makes the variables.

    Args:
      config: of the encoder.
      num_labels: L.
      features: one of FEATURES.
      size: S.
      seed: the initial weights are a function of it and of the names.
    """
    super().__init__()
    self._chosen, self._combined = _FEATURES[features]
    count = 1
    if self._chosen:
      count = len(range(config.num_hidden_layers)[self._chosen])
    if self._combined == "weighted_sum":
      # Zeros: the soft-max begins with the plain mean.
      self._mix = _variable("tagging/layer_mix", tf.zeros([count]))
    is_concat = self._combined == "concat"
    width = config.hidden_size * (count if is_concat else 1)
    self._lstm = []
    for number in range(2):
      name = f"tagging/bilstm_{number}"
      self._lstm.append(_lstm_weights(name, width, size, seed))
      width = 2 * size
    self._output_weights = _uniform(
      "output_weights", [num_labels, width], 1 / math.sqrt(width), seed
    )
    self._output_bias = _variable("output_bias", tf.zeros([num_labels]))

  def __call__(
    self, output: modeling.BertOutput, input_mask: tf.Tensor, *,
    dropout_seed: tf.Tensor | None = None
  ) -> tf.Tensor:
    """Returns float32 logits [B, T, L]."""
    x = self.features(output)  # [B, T, H or 4H]
    lengths = tf.reduce_sum(input_mask, axis=1)  # [B]
    for weights in self._lstm:
      x = bilstm(x, lengths, *weights)  # [B, T, 2S]
    x = layers.Dropout(dropout_seed).at("tagging")(x, _DROPOUT)
    return layers.output_logits(x, self._output_weights, self._output_bias)

  def features(self, output: modeling.BertOutput) -> tf.Tensor:
    """Returns the features of every token, float32 [B, T, H or 4H]."""
    if not self._chosen:
      return tf.cast(output.embedding_output, tf.float32)
    chosen = output.all_encoder_layers[self._chosen]
    states = [tf.cast(state, tf.float32) for state in chosen]  # [B, T, H]
    if self._combined == "concat":
      return tf.concat(states, axis=-1)
    shares = tf.nn.softmax(self._mix)  # [layers]
    return tf.tensordot(shares, tf.stack(states), axes=1)


def bilstm(
  x: tf.Tensor, lengths: tf.Tensor, kernel: tf.Tensor,
  recurrent_kernel: tf.Tensor, bias: tf.Tensor
) -> tf.Tensor:
  """Runs an LSTM over sequences in both directions.

      c' = sigmoid(f + 1) c + sigmoid(i) tanh(j),  h' = sigmoid(o) tanh(c')

  with [i, j, f, o] = x W + h U + b (Hochreiter & Schmidhuber 1997 with the
  forget gate of Gers et al. 2000). The backward direction starts at the last
  token of each sequence, so padding has no effect on the output.

  Args:
    x: float32 [B, T, inputs].
    lengths: int32 [B], tokens of each sequence.
    kernel: [2, inputs, 4S], forward and backward.
    recurrent_kernel: [2, S, 4S].
    bias: [2, 4S].

  Returns:
    [B, T, 2S], forward and backward concatenated.
  """
  # [D, B, T, inputs]: padding stays at the end, only tokens are reversed.
  both = tf.stack([x, tf.reverse_sequence(x, lengths, seq_axis=1)])
  # The part that needs no earlier step, of all steps in one product.
  from_input = tf.einsum("dbti,dij->tdbj", both, kernel)
  from_input += bias[tf.newaxis, :, tf.newaxis]  # [T, D, B, 4S]
  # [D, B, S]
  zeros = tf.zeros_like(from_input[0, :, :, : recurrent_kernel.shape[1]])

  def step(state, inputs):
    hidden, cell = state  # [D, B, S]
    # [D, B, 4S], both directions in one product.
    gates = inputs + tf.matmul(hidden, recurrent_kernel)
    i, j, f, o = tf.split(gates, 4, axis=-1)  # [D, B, S] each
    cell = tf.sigmoid(f + _FORGET_BIAS) * cell + tf.sigmoid(i) * tf.tanh(j)
    return tf.sigmoid(o) * tf.tanh(cell), cell

  hidden, _ = tf.scan(step, from_input, initializer=(zeros, zeros))
  forward, backward = tf.unstack(tf.transpose(hidden, [1, 2, 0, 3]))
  # Back to the order of the text, so that both belong to the same token.
  backward = tf.reverse_sequence(backward, lengths, seq_axis=1)
  return tf.concat([forward, backward], axis=-1)


def _lstm_weights(name, inputs, size, seed):
  """Returns kernel, recurrent kernel and bias of both directions."""
  # The usual range of an LSTM's initial weights; the paper gives none.
  limit = 1 / math.sqrt(size)
  return (
    _uniform(f"{name}/kernel", [2, inputs, 4 * size], limit, seed),
    _uniform(f"{name}/recurrent_kernel", [2, size, 4 * size], limit, seed),
    _variable(f"{name}/bias", tf.zeros([2, 4 * size])),
  )


def _uniform(name, shape, limit, seed):
  seeds = tf.constant([seed, layers.name_number(name)], tf.int64)
  with tf.device("CPU:0"):
    return _variable(name, tf.random.stateless_uniform(
      shape, seed=seeds, minval=-limit, maxval=limit, alg="philox"
    ))


def _variable(name, value):
  # The empty scope keeps the caller's scopes out of the name.
  with tf.name_scope(""):
    return tf.Variable(value, name=name)
