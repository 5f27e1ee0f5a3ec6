"""Sparse vectors of texts, from a masked-LM head: SPLADE.

B is the number of texts, T their length, H the width of the states and V the
size of the vocabulary.
"""

import tensorflow as tf

import heads


def word_weights(
  head: heads.MaskedLMHead,
  states: tf.Tensor,
  input_mask: tf.Tensor,
  pooling: str,
  activation: str,
) -> tf.Tensor:
  """Returns a weight for each vocabulary token, float32 [B, V], mostly 0.

  SPLADE: log(1 + relu(logit)), pooled over the text by the maximum (arXiv
  2109.10086) or the sum (arXiv 2107.05720).

  Args:
    states: the last states [B, T, H].
    input_mask: integers [B, T].
    pooling: "max" or "sum".
    activation: "relu", or "log1p_relu" to apply log(1 + x) twice.
  """

  def weigh_text(text: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
    # Padding gets the logit 0, which gives the weight 0.
    weights = head(text[0]) * tf.cast(text[1], tf.float32)[:, tf.newaxis]
    # The maximum may come first, because the weight grows with the logit.
    if pooling == "max":
      weights = tf.reduce_max(weights, 0, keepdims=True)  # [1, V]
    weights = tf.math.log1p(tf.nn.relu(weights))
    if activation == "log1p_relu":
      weights = tf.math.log1p(weights)
    return tf.reduce_sum(weights, 0)

  # One text at a time: the logits [B, T, V] of a batch would take gigabytes.
  return tf.map_fn(
    weigh_text, (states, input_mask), fn_output_signature=tf.float32
  )
