"""The tagging model, what it learns from, and what it gives for a batch.

Letters: B batch, T sequence, H width of BERT, L labels.
"""

from collections.abc import Callable

import tensorflow as tf

import heads
import modeling
from records import pipeline
from tagging import bilstm, dataset, encoder_states
from training import loop
from variants import registry

# What the checkpoint of an encoder need not have.
NEW_VARIABLES = ("^output_(weights|bias)$", "^tagging/", "^bert/pooler/")


class TaggingModel(tf.Module):
  """The encoder and a classifier of tokens, or the BiLSTM on features."""

  def __init__(
    self, config: modeling.BertConfig, num_labels: int, *,
    features: str | None = None, bilstm_size: int = 768,
    stored_features: list[str] | tuple = (), **model_options
  ):
    """Makes the variables.

    Args:
      config: of the encoder.
      num_labels: L.
      features: one of bilstm.FEATURES, which the BiLSTM reads from a frozen
        encoder; None to fine-tune a classifier of the last layer.
      bilstm_size: units of each direction of the BiLSTM.
      stored_features: those whose states are in the batches, if any are.
      **model_options: keyword arguments of modeling.BertModel, with `seed`.
    """
    super().__init__()
    self.config = config
    seed = model_options["seed"]
    self.bert = registry.make_encoder(config, **model_options)
    self.is_frozen = bool(features)
    # Which outputs the stored states are of, in the order in which they lie.
    self._stored = bilstm.states_read(stored_features, config.num_hidden_layers)
    if features:
      self.head = bilstm.FeatureTagger(
        config, num_labels, features=features, size=bilstm_size, seed=seed
      )
    else:
      self.head = heads.TokenClassificationHead(config, num_labels, seed=seed)

  def __call__(
    self, batch: dict, dropout_seed: tf.Tensor | None = None
  ) -> tf.Tensor:
    """Returns the scores of all labels, float32 logits [B, T, L].

    Args:
      batch: input_ids, input_mask and segment_ids, integers [B, T]. With
        `states`, those of encoder_states, the encoder is not run.
      dropout_seed: int32 [2]; None for no dropout.
    """
    # The encoder is trained: it drops units in training, as the head does.
    if not self.is_frozen:
      output = self.bert.encode(batch, dropout_seed)
      return self.head(
        output.sequence_output,
        dropout_seed is not None,
        dropout_seed=dropout_seed,
      )
    mask = batch["input_mask"]
    if "states" in batch:
      output = encoder_states.restore(
        batch["states"], mask, self._stored, self.config.num_hidden_layers
      )
    else:
      # A frozen encoder is a fixed function of the text: no dropout in it.
      output = self.bert.encode(batch)
    return self.head(output, mask, dropout_seed=dropout_seed)

  def trained_variables(self) -> list[tf.Variable]:
    """Returns the variables that the loss depends on: not the pooler's."""
    bert = [] if self.is_frozen else self.bert.variables
    encoder = [v for v in bert if "/pooler/" not in v.name]
    return [*encoder, *self.head.variables]


def objective(model: Callable) -> loop.Objective:
  """Cross-entropy, the mean over all words of the batch.

  Args:
    model: function of (batch, dropout_seed); returns logits [B, T, L].
  """

  def has_label(batch):
    return tf.cast(batch["label_ids"] != dataset.NO_LABEL, tf.float32)

  def weights(batch):
    # Words of this replica's share; the loop divides by those of all.
    return {"tagging": tf.reduce_sum(has_label(batch))}

  def sums(batch, dropout_seed):
    logits = model(batch, dropout_seed)  # [B, T, L]
    # NO_LABEL becomes some label, which the mask then hides: the cross-entropy
    # takes no negative number.
    mask, labels = has_label(batch), tf.maximum(batch["label_ids"], 0)
    losses = word_losses(logits, batch["label_ids"])  # [B, T]
    predicted = tf.argmax(logits, axis=-1, output_type=labels.dtype)
    right = tf.cast(tf.equal(predicted, labels), tf.float32)
    loss, words = tf.reduce_sum(losses), tf.reduce_sum(mask)
    metrics = {
      "tagging_loss": (loss, words),
      "tagging_accuracy": (tf.reduce_sum(right * mask), words),
    }
    if dropout_seed is not None:
      metrics.update(pipeline.token_metrics(batch))
    return {"tagging": loss}, metrics

  return loop.Objective(weights=weights, sums=sums)


def word_losses(logits: tf.Tensor, label_ids: tf.Tensor) -> tf.Tensor:
  """Returns cross-entropies [B, T], 0 where there is no label."""
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
    tf.maximum(label_ids, 0), logits
  )
  return losses * tf.cast(label_ids != dataset.NO_LABEL, tf.float32)
