"""The question answering model and its training objective.

Letters: B batch, T tokens of a window.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

import configuration
import heads
from records import pipeline
from training import training_step
from variants import registry

# Variables that an encoder's checkpoint may lack. As in the original: the model
# does not use the pooler, so the pooler is neither trained nor required.
NEW_VARIABLES = ["^cls/squad/", *registry.OPTIONAL]

# The logit of padding. It is finite because arithmetic with -inf may give nan.
_LOWEST = tf.float32.min


class SpanModel(tf.Module):
  """The encoder with a head for each token's start and end logits."""

  def __init__(self, config: configuration.BertConfig, **model_options: Any):
    """Creates the variables; modeling.BertModel describes the options."""
    super().__init__()
    self.bert = registry.make_encoder(config, **model_options)
    self.head = heads.SpanHead(config, seed=model_options["seed"])

  def __call__(
    self, batch: dict, dropout_seed: tf.Tensor | None = None
  ) -> tuple:
    """Returns float32 start logits and end logits, [B, T] each.

    Args:
      batch: input_ids, input_mask and segment_ids, int32 [B, T].
      dropout_seed: int32 [2] in training, else None.
    """
    output = self.bert.encode(batch, dropout_seed)
    return self.head(self.bert.head_states(output.sequence_output))

  def trained_variables(self) -> list:
    """Returns the variables that affect the loss: all but the pooler's."""
    return [v for v in self.variables if "/pooler/" not in v.name]


def objective(
  model: Callable, *, mask_padding: bool = True
) -> training_step.Objective:
  """Returns the objective: mean cross-entropy of the answer's start and end.

  As in the original: both positions are 0 ([CLS]) if a window lacks the answer.

  Args:
    model: function of (batch, dropout_seed); returns start and end logits
      [B, T]. Batches have start_positions and end_positions, int32 [B].
    mask_padding: whether the softmax excludes padding.
      Unlike the original: there, the softmax is over all max_seq_length
      positions. If False, the loss depends on the length of trimmed batches.
  """

  def denominators(batch: dict) -> dict:
    # This replica's number of examples; the loop divides by the sum of all.
    return {"span": tf.cast(tf.shape(batch["input_ids"])[0], tf.float32)}

  def sums(batch: dict, dropout_seed: tf.Tensor) -> tuple[dict, dict]:
    examples = denominators(batch)["span"]
    is_token = tf.cast(batch["input_mask"], tf.bool)
    total, metrics = 0.0, {}
    for name, logits in zip(("start", "end"), model(batch, dropout_seed)):
      if mask_padding:
        logits = tf.where(is_token, logits, _LOWEST)  # [B, T]
      gold = batch[f"{name}_positions"]
      losses = tf.nn.sparse_softmax_cross_entropy_with_logits(gold, logits)
      predicted = tf.argmax(logits, axis=-1, output_type=gold.dtype)
      correct = tf.reduce_sum(tf.cast(tf.equal(predicted, gold), tf.float32))
      metrics[f"{name}_accuracy"] = (correct, examples)
      # As in the original: the mean of the start and end losses. This is a sum
      # over the replica's examples; the loop divides by the sum of `weights`.
      total += tf.reduce_sum(losses) / 2
    metrics.update(pipeline.token_metrics(batch))
    return {"span": total}, metrics

  return training_step.Objective(denominators=denominators, sums=sums)
