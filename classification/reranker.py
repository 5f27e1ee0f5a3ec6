"""A reranker: one score for a query and a passage that are read together.

Letters: B batch, W passages of a query; 1 in evaluation and with the pointwise
loss.
"""

import tensorflow as tf

from classification import model


class Reranker(model.ClassifierModel):
  """Learns by --ranking_loss; its logits are [B, W]."""

  def __init__(self, *args, loss: str, **options):
    """`loss` is in flag_values.RANKING_LOSSES; others as in ClassifierModel."""
    super().__init__(*args, **options)
    self._losses = {"pairwise": pairwise, "listwise": listwise}.get(loss)

  def example_losses(self, logits, label_ids):
    """Returns float32 [B]; `label_ids` are relevances, float32 [B, W].

    The relevance is -1 where a query has no further passage. The loss of a
    single passage is the binary cross-entropy; above 1 is as relevant as 1.
    """
    if self._losses and label_ids.shape[1] != 1:
      # Logits are as wide as the batch's largest group, labels as the data's.
      return self._losses(logits, label_ids[:, : tf.shape(logits)[1]])
    return tf.nn.sigmoid_cross_entropy_with_logits(
      tf.minimum(label_ids, 1.0), logits
    )[:, 0]


def pairwise(logits, relevances):
  """Returns the mean of log(1 + exp(worse - better)) over pairs (RankNet)."""
  better, worse = relevances[:, :, None], relevances[:, None]
  is_pair = tf.cast((better > worse) & (worse >= 0), tf.float32)  # [B, W, W]
  losses = tf.nn.softplus(logits[:, None] - logits[:, :, None]) * is_pair
  return tf.reduce_sum(losses, [1, 2]) / tf.reduce_sum(is_pair, [1, 2])


def listwise(logits, relevances):
  """Returns the cross-entropy of the softmax with the shares of relevance."""
  gains = tf.maximum(relevances, 0.0)
  return tf.nn.softmax_cross_entropy_with_logits(
    gains / tf.reduce_sum(gains, 1, keepdims=True),
    tf.where(relevances < 0, tf.float32.min, logits),
  )
