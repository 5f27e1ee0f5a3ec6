"""The paper's feature-based tagger: a BiLSTM on hidden states of BERT.

Section 5.3 of arXiv 1810.04805 freezes the encoder, uses the hidden states of
some layers as features, and trains a two-layer BiLSTM of 768 units and a
classifier on them. Letters: B batch, T sequence, H width of BERT, S units of
one direction of the BiLSTM, D = 2 directions, L labels.
"""

import tensorflow as tf

import configuration
import layers
import modeling
from common import errors
from variants import recurrence

# Maps a value of --feature_layers to layers and the way to combine them; None
# means the output of the embeddings.
_FEATURES = {
  "embeddings": (None, "concat"),
  "second_to_last": (slice(-2, -1), "concat"),
  "last": (slice(-1, None), "concat"),
  "weighted_sum_last_four": (slice(-4, None), "weighted_sum"),
  "concat_last_four": (slice(-4, None), "concat"),
  "weighted_sum_all": (slice(None), "weighted_sum"),
}
FEATURES = tuple(_FEATURES)

_DROPOUT = 0.1


def check_features(features: str, num_hidden_layers: int) -> None:
  """Raises InputError if the model has too few layers for `features`."""
  chosen, _ = _FEATURES[features]
  needed = -(chosen.start or -1) if chosen else 0
  if needed > num_hidden_layers:
    raise errors.InputError(
      f"--feature_layers={features} needs {needed} layers, but the model "
      f"has {num_hidden_layers}"
    )


def states_read(features: str, num_hidden_layers: int) -> list[int]:
  """Returns the ascending numbers of the encoder outputs that `features` reads.

  0 is the output of the embeddings, n the output of the n-th layer.
  """
  chosen, _ = _FEATURES[features]
  return list(range(1, num_hidden_layers + 1)[chosen]) if chosen else [0]


class FeatureTagger(tf.Module):
  """Scores the labels of each token with a BiLSTM on features of BERT.

  The variables are tagging/..., output_weights and output_bias.
  """

  def __init__(
    self,
    config: configuration.BertConfig,
    num_labels: int,
    *,
    features: str,
    size: int = 768,
    seed: int = 12345,
  ):
    """Creates the variables.

    Args:
      config: configuration of the encoder.
      num_labels: L.
      features: one of FEATURES.
      size: S.
      seed: determines the initial weights, together with the variables' names.
    """
    super().__init__()
    self._chosen, self._combined = _FEATURES[features]
    count = 1
    if self._chosen:
      count = len(range(config.num_hidden_layers)[self._chosen])
    is_concat = self._combined == "concat"
    width = config.hidden_size * (count if is_concat else 1)

    def uniform(name: str, shape: list[int], units: int) -> tf.Variable:
      return _variable(name, recurrence.initial(name, shape, units, seed))

    # The arguments of `recurrence.bilstm` for each of the two layers.
    self._weights = tuple(
      (
        uniform(f"{name}/kernel", [2, inputs, 4 * size], size),
        uniform(f"{name}/recurrent_kernel", [2, size, 4 * size], size),
        _variable(f"{name}/bias", tf.zeros([2, 4 * size])),
      )
      for name, inputs in (
        ("tagging/bilstm_0", width),
        ("tagging/bilstm_1", 2 * size),
      )
    )
    if self._combined == "weighted_sum":
      # With zeros, the softmax gives all layers the same weight at first.
      self._mix = _variable("tagging/layer_mix", tf.zeros([count]))
    self._output_weights = uniform(
      "output_weights", [num_labels, 2 * size], 2 * size
    )
    self._output_bias = _variable("output_bias", tf.zeros([num_labels]))

  def __call__(
    self,
    output: modeling.BertOutput,
    input_mask: tf.Tensor,
    *,
    dropout_seed: tf.Tensor | None = None,
  ) -> tf.Tensor:
    """Returns float32 logits [B, T, L]."""
    x = self.features(output)  # [B, T, H or 4H]
    lengths = tf.reduce_sum(input_mask, axis=1)  # [B]
    for weights in self._weights:
      x = recurrence.bilstm(x, lengths, *weights)  # [B, T, 2S]
    x = layers.Dropout(dropout_seed).at("tagging")(x, _DROPOUT)
    return layers.output_logits(x, self._output_weights, self._output_bias)

  def features(self, output: modeling.BertOutput) -> tf.Tensor:
    """Returns the features of each token, float32 [B, T, H or 4H]."""
    if not self._chosen:
      return tf.cast(output.embedding_output, tf.float32)
    chosen = output.all_encoder_layers[self._chosen]
    states = [tf.cast(state, tf.float32) for state in chosen]  # [B, T, H]
    if self._combined == "concat":
      return tf.concat(states, axis=-1)
    shares = tf.nn.softmax(self._mix)  # [layers]
    return tf.tensordot(shares, tf.stack(states), axes=1)


def _variable(name: str, value: tf.Tensor) -> tf.Variable:
  # The empty scope keeps the caller's scopes out of the variable's name.
  with tf.device("CPU:0"), tf.name_scope(""):
    return tf.Variable(value, name=name)
