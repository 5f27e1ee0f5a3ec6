"""Hidden states of a text's tokens -> one vector for the text; cosines."""

import numpy as np
import numpy.typing as npt
import tensorflow as tf

import modeling
from common import choices

POOLINGS = choices.SENTENCE_POOLINGS


def pool(
  kind: str, output: modeling.BertOutput, input_mask: tf.Tensor
) -> tf.Tensor:
  """Makes one vector of each sequence.

  Args:
    kind: "cls": the last layer's state of [CLS]. "mean", "max": of the last
      layer's states of all tokens, [CLS] and [SEP] among them. "pooled": the
      dense tanh layer on [CLS] that next-sentence prediction has trained.
      "last_four_concat": the means of the last four layers side by side, the
      last layer first.
    output: its states are [B, T, H].
    input_mask: integers [B, T].

  Returns:
    float32 [B, H], or [B, 4H].
  """
  if kind == "pooled":
    return tf.cast(output.pooled_output, tf.float32)
  layers = [
    tf.cast(states, tf.float32) for states in output.all_encoder_layers
  ]
  if kind == "cls":
    return layers[-1][:, 0]  # [CLS]
  if kind == "max":
    return _max(layers[-1], input_mask)
  if kind == "mean":
    return _mean(layers[-1], input_mask)
  means = [_mean(states, input_mask) for states in layers[:-5:-1]]
  return tf.concat(means, axis=-1)


def _mean(states, input_mask):
  mask = tf.cast(input_mask, tf.float32)[:, :, tf.newaxis]  # [B, T, 1]
  # Rows of padding fill up the last batch; they must not become NaN.
  count = tf.maximum(tf.reduce_sum(mask, axis=1), 1.0)
  return tf.reduce_sum(states * mask, axis=1) / count


def _max(states, input_mask):
  is_token = tf.cast(input_mask, tf.bool)[:, :, tf.newaxis]
  # Not states * mask: the largest of negative numbers would become 0.
  return tf.reduce_max(tf.where(is_token, states, states.dtype.min), axis=1)


def cosines(a: npt.ArrayLike, b: npt.ArrayLike) -> np.ndarray:
  """Returns float64 [N], the cosine between each row of a and b [N, D].

  A vector of zeros has the cosine 0 with any other.
  """
  a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
  lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
  dots = (a * b).sum(1)  # [N]
  return np.where(lengths > 0, dots / np.where(lengths > 0, lengths, 1), 0.0)
