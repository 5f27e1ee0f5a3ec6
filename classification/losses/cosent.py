"""Pairs with a higher score get a higher cosine (CoSENT).

  log(1 + sum over pairs i, j with score_i < score_j of
      exp((cosine_i - cosine_j) / temperature))

Su, "CoSENT (I)", 2022, https://kexue.fm/archives/8847. The loss equals
sentence-transformers' CoSENTLoss with scale = 1 / temperature.
"""

from collections.abc import Callable

import tensorflow as tf

from classification import data

KINDS = (data.SIMILARITY,)
COMPARES = True
OPTIONS = {
  "cosent_temperature": (0.05, "Divisor of the cosines in --losses=cosent.")
}


def make(
  inner: Callable, task_kind: str, cosent_temperature: float
) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
  """Returns a function of vectors [B, 2, D] and scores [B].

  It returns [B] with the loss of the batch at each example.
  """
  del inner, task_kind

  def losses(vectors: tf.Tensor, gold: tf.Tensor) -> tf.Tensor:
    cosines = tf.reduce_sum(vectors[:, 0] * vectors[:, 1], -1)
    logits = cosines[:, None] - cosines  # [B, B]
    is_pair = gold[:, None] < gold
    terms = tf.where(is_pair, logits / cosent_temperature, tf.float32.min)
    # The 1 in the logarithm is exp(0).
    terms = tf.concat([[0.0], tf.reshape(terms, [-1])], 0)
    return tf.fill(tf.shape(gold), tf.reduce_logsumexp(terms))

  return losses
