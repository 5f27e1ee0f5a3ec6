"""Heads on top of the encoder; logits are float32 for every compute_dtype.

Shapes use the letters of modeling.py.
"""

import tensorflow as tf

import configuration
import layers
import named_weights

# As in the original: fine-tuning heads ignore initializer_range, and the
# classification head drops 10 % of its input even if hidden_dropout_prob is 0.
_HEAD_STDDEV = 0.02
_HEAD_DROPOUT = 0.1
# If the head does not use the pooled output, a checkpoint may lack these
# variables: several of Hugging Face's classes have no pooler.
POOLER = ("^bert/pooler/",)


def masked_lm_shapes(
  config: configuration.BertConfig, width: int | None = None
) -> dict[str, tuple]:
  """Returns {name: shape} of a `MaskedLMHead`, without the word embeddings."""
  width = width or config.hidden_size
  if not configuration.has_transform(config):
    return {"cls/predictions/output_bias": (config.vocab_size,)}
  return {
    **configuration.dense_shapes(
      "cls/predictions/transform/dense", config.hidden_size, width
    ),
    **configuration.norm_shapes("cls/predictions/transform/LayerNorm", width),
    "cls/predictions/output_bias": (config.vocab_size,),
  }


def output_shapes(
  config: configuration.BertConfig, prefix: str, num_outputs: int
) -> dict[str, tuple]:
  """Returns {name: shape} of an output layer, stored as [outputs, H]."""
  return {
    f"{prefix}output_weights": (num_outputs, config.hidden_size),
    f"{prefix}output_bias": (num_outputs,),
  }


class MaskedLMHead(named_weights.Weights):
  """Predicts masked tokens; the word embeddings are its output weights."""

  def __init__(
    self,
    config: configuration.BertConfig,
    word_embeddings: tf.Variable,
    *,
    seed: int = 12345,
    fused: bool = False,
  ):
    """Creates the head for word embeddings [V, E]; in BERT, E is H.

    `fused` is for inference only, see layers.get_activation.
    """
    shapes = masked_lm_shapes(config, word_embeddings.shape[1])
    super().__init__(shapes, stddev=config.initializer_range, seed=seed)
    act = configuration.masked_lm_act(config)
    self._activation = layers.get_activation(act, fused=fused)
    self._epsilon = config.layer_norm_eps
    # The function hides the table from tf.Module. Otherwise, joining the head's
    # and the encoder's variables would list it twice.
    self._table = lambda: word_embeddings

  def __call__(
    self, sequence_output: tf.Tensor, masked_lm_positions=None
  ) -> tf.Tensor:
    """Returns logits [B, P, V] at positions [B, P] of [B, T, H].

    Without positions, returns the logits of all states: [..., V] of [..., H].
    """
    weights = self.weights_below("cls/predictions/")
    x = sequence_output
    if masked_lm_positions is not None:
      # Gathers first, because the slowest part is the product with V columns.
      x = tf.gather(x, masked_lm_positions, batch_dims=1)  # [B, P, H]
    # The transform: [B, P, H] -> [B, P, E].
    if "transform/dense/kernel" in weights:
      x = layers.dense(x, weights, "transform/dense", self._activation)
      x = layers.layer_norm(x, weights, "transform/LayerNorm", self._epsilon)
    return layers.output_logits(x, self._table(), weights["output_bias"])


class _OutputHead(named_weights.Weights):
  """An output layer in float32; subclasses may apply dropout to its input."""

  def __init__(
    self,
    config: configuration.BertConfig,
    num_outputs: int,
    *,
    prefix: str = "",
    stddev: float = _HEAD_STDDEV,
    seed: int,
  ):
    shapes = output_shapes(config, prefix, num_outputs)
    super().__init__(shapes, stddev=stddev, seed=seed)
    self._dropout_rate = getattr(config, "head_dropout", _HEAD_DROPOUT)

  def _logits(self, x: tf.Tensor, dropout=layers.Dropout()):
    x = dropout.at("head")(tf.cast(x, tf.float32), self._dropout_rate)
    return layers.output_logits(x, *self._weights)


class NextSentenceHead(_OutputHead):
  """Predicts whether segment B follows segment A (label 0) or not (label 1)."""

  def __init__(self, config: configuration.BertConfig, *, seed: int = 12345):
    prefix, stddev = "cls/seq_relationship/", config.initializer_range
    super().__init__(config, 2, prefix=prefix, stddev=stddev, seed=seed)

  def __call__(self, pooled_output: tf.Tensor) -> tf.Tensor:
    """Returns logits [B, 2] from the pooled output [B, H]."""
    return self._logits(pooled_output)


class ClassificationHead(_OutputHead):
  """Scores the labels of a whole sequence; regression has one output."""

  def __init__(
    self,
    config: configuration.BertConfig,
    num_labels: int,
    *,
    seed: int = 12345,
  ):
    super().__init__(config, num_labels, seed=seed)

  def __call__(
    self, output: tf.Tensor, training: bool = False, *, dropout_seed=None
  ) -> tf.Tensor:
    """Returns logits [B, L] from the pooled output [B, H].

    `dropout_seed` is the seed passed to `BertModel`.
    """
    return self._logits(output, layers.Dropout.of_call(training, dropout_seed))


class TokenClassificationHead(ClassificationHead):
  """Scores labels of tokens: [B, T, L] from the sequence output [B, T, H]."""


class SpanHead(_OutputHead):
  """Scores every token as the first and as the last token of an answer."""

  def __init__(self, config: configuration.BertConfig, *, seed: int = 12345):
    super().__init__(config, 2, prefix="cls/squad/", seed=seed)

  def __call__(self, sequence_output: tf.Tensor) -> tuple:
    """Returns start and end logits, each [B, T], from [B, T, H]."""
    start, end = tf.unstack(self._logits(sequence_output), axis=-1)  # [B, T]
    return start, end


def pool(output, input_mask: tf.Tensor, pooling) -> tf.Tensor:
  """Returns one vector for each sequence, float32 [B, D].

  Args:
    output: modeling.BertOutput with states [B, T, H].
    input_mask: integers [B, T].
    pooling: a sentence_pooling.Pooling.
  """
  vectors = _pooled(output, input_mask, pooling)
  return tf.math.l2_normalize(vectors, -1) if pooling.normalize else vectors


def _pooled(output, input_mask: tf.Tensor, pooling):
  if pooling.mode == "pooled":
    return tf.cast(output.pooled_output, tf.float32)
  # A graph does not compute the layers above the last one summed here.
  computed = output.all_encoder_layers
  sums = [
    tf.add_n([tf.cast(computed[layer], tf.float32) for layer in summed])
    for summed in pooling.layers
  ]
  states = tf.concat(sums, axis=-1)  # [B, T, D]
  if pooling.mode == "cls":
    return states[:, 0]  # [CLS]
  is_token = tf.cast(input_mask, tf.bool)[:, :, tf.newaxis]  # [B, T, 1]
  if pooling.mode == "max":
    # With states * mask, the 0 of padding would exceed negative states.
    return tf.reduce_max(tf.where(is_token, states, tf.float32.min), axis=1)
  mask = tf.cast(is_token, tf.float32)
  # Empty examples, which fill up the last batch, must not become NaN.
  count = tf.maximum(tf.reduce_sum(mask, axis=1), 1.0)  # [B, 1]
  return tf.reduce_sum(states * mask, axis=1) / count
