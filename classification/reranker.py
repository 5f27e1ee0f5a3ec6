"""A reranker: computes one score for a query and a passage in one sequence.

Letters: B batch, W passages of a query (1 in evaluation and with the pointwise
loss).
"""

import tensorflow as tf

from classification import model


class Reranker(model.ClassifierModel):
  """A classifier with a ranking loss; its logits are [B, W]."""

  def __init__(self, *args, loss: str, **options):
    """Creates the variables; `loss` is one of flag_values.RANKING_LOSSES."""
    super().__init__(*args, **options)
    self._losses = {"pairwise": pairwise, "listwise": listwise}.get(loss)

  def example_losses(
    self,
    logits: tf.Tensor,
    label_ids: tf.Tensor,
    class_weights: tf.Tensor | None = None,
  ) -> tf.Tensor:
    """Returns the loss of each example, float32 [B].

    `label_ids` are relevances, float32 [B, W], padded with -1. The loss of a
    single passage is the binary cross-entropy, with relevances capped at 1.
    """
    if self._losses and label_ids.shape[1] != 1:
      # Labels are padded to the data's largest group, logits to the batch's.
      return self._losses(logits, label_ids[:, : tf.shape(logits)[1]])
    return tf.nn.sigmoid_cross_entropy_with_logits(
      tf.minimum(label_ids, 1.0), logits
    )[:, 0]


def pairwise(logits: tf.Tensor, relevances: tf.Tensor) -> tf.Tensor:
  """Returns RankNet's loss: mean log(1 + exp(worse - better)) of pairs, [B]."""
  better, worse = relevances[:, :, None], relevances[:, None]
  is_pair = tf.cast((better > worse) & (worse >= 0), tf.float32)  # [B, W, W]
  losses = tf.nn.softplus(logits[:, None] - logits[:, :, None]) * is_pair
  return tf.reduce_sum(losses, [1, 2]) / tf.reduce_sum(is_pair, [1, 2])


def listwise(logits: tf.Tensor, relevances: tf.Tensor) -> tf.Tensor:
  """Returns the softmax cross-entropy with the normalized relevances, [B]."""
  gains = tf.maximum(relevances, 0.0)
  return tf.nn.softmax_cross_entropy_with_logits(
    gains / tf.reduce_sum(gains, 1, keepdims=True),
    tf.where(relevances < 0, tf.float32.min, logits),
  )
