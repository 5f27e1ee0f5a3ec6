"""The tagging model, its objective, and stored states of a frozen encoder.

Letters: B batch, T sequence, H width of BERT, N encoder outputs, L labels.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import configuration
import heads
import modeling
from records import pipeline, tfrecord
from tagging import bilstm, inputs
from training import frozen_states, training_step
from variants import registry

# Patterns of variables that an encoder's checkpoint may lack.
NEW_VARIABLES = ("^output_(weights|bias)$", "^tagging/", *registry.OPTIONAL)
_HELD_BYTES = 1 << 29  # The maximum size of states in memory.


class TaggingModel(tf.Module):
  """The encoder with a token classifier, or with a BiLSTM on its features."""

  def __init__(
    self,
    config: configuration.BertConfig,
    num_labels: int,
    *,
    features: str | None = None,
    bilstm_size: int = 768,
    **model_options: Any,
  ):
    """Creates the variables.

    Args:
      config: configuration of the encoder.
      num_labels: L.
      features: one of bilstm.FEATURES, for a BiLSTM on a frozen encoder; None
        to fine-tune the encoder with a classifier on its last layer.
      bilstm_size: units of each direction of the BiLSTM.
      **model_options: keyword arguments of modeling.BertModel, including
        `seed`.
    """
    super().__init__()
    self.config = config
    seed = model_options["seed"]
    self.bert = registry.make_encoder(config, **model_options)
    self.is_frozen = bool(features)
    if features:
      # The numbers of the stored encoder outputs, in the order of a record.
      self.stored = bilstm.states_read(features, config.num_hidden_layers)
      self.head = bilstm.FeatureTagger(
        config, num_labels, features=features, size=bilstm_size, seed=seed
      )
    else:
      self.head = heads.TokenClassificationHead(config, num_labels, seed=seed)

  def __call__(
    self, batch: dict, dropout_seed: tf.Tensor | None = None
  ) -> tf.Tensor:
    """Returns the logits of all labels, float32 [B, T, L].

    Args:
      batch: input_ids, input_mask and segment_ids, integers [B, T]; or
        input_mask and the `states` that `store_states` wrote.
      dropout_seed: int32 [2]; None for no dropout.
    """
    # In fine-tuning, the encoder has dropout, like the head.
    if not self.is_frozen:
      output = self.bert.encode(batch, dropout_seed)
      is_training = dropout_seed is not None
      states = self.bert.head_states(output.sequence_output)
      return self.head(states, is_training, dropout_seed=dropout_seed)
    # A frozen encoder has no dropout, because its states may be stored.
    output = (
      self._restored(batch) if "states" in batch else self.bert.encode(batch)
    )
    return self.head(output, batch["input_mask"], dropout_seed=dropout_seed)

  def _restored(self, batch: dict) -> modeling.BertOutput:
    """Returns a BertOutput of the stored states; all other outputs are None."""
    states = batch["states"]  # [B, t, N H]
    # The parser pads states to the longest sequence of the batch, not to T.
    missing = tf.shape(batch["input_mask"])[1] - tf.shape(states)[1]
    states = tf.pad(states, [[0, 0], [0, missing], [0, 0]])
    parts = tf.split(states, len(self.stored), axis=-1)
    outputs = dict(zip(self.stored, parts))
    numbers = range(1, self.config.num_hidden_layers + 1)
    return modeling.BertOutput(
      embedding_output=outputs.get(0),
      all_encoder_layers=tuple(outputs.get(number) for number in numbers),
      sequence_output=None,
      pooled_output=None,
      attention_probs=None,
    )

  def trained_variables(self) -> list[tf.Variable]:
    """Returns all variables except the pooler's and a frozen encoder's."""
    bert = [] if self.is_frozen else self.bert.variables
    encoder = [v for v in bert if "/pooler/" not in v.name]
    return [*encoder, *self.head.variables]


def objective(model: Callable) -> training_step.Objective:
  """Returns the objective: the mean cross-entropy of a batch's words.

  Args:
    model: function of (batch, dropout_seed); returns logits [B, T, L].
  """

  def has_label(batch: dict) -> tf.Tensor:
    return tf.cast(batch["label_ids"] != inputs.NO_LABEL, tf.float32)

  def denominators(batch: dict) -> dict:
    # This replica's number of words; the loop divides by the sum of all.
    return {"tagging": tf.reduce_sum(has_label(batch))}

  def sums(batch: dict, dropout_seed: tf.Tensor) -> tuple[dict, dict]:
    logits = model(batch, dropout_seed)  # [B, T, L]
    mask, labels = has_label(batch), batch["label_ids"]
    predicted = tf.argmax(logits, axis=-1, output_type=labels.dtype)
    # This needs no mask, because a prediction never equals NO_LABEL.
    correct = tf.reduce_sum(tf.cast(tf.equal(predicted, labels), tf.float32))
    loss = tf.reduce_sum(word_losses(logits, labels))
    words = tf.reduce_sum(mask)
    metrics = {
      "tagging_loss": (loss, words),
      "tagging_accuracy": (correct, words),
    }
    if dropout_seed is not None:
      metrics.update(pipeline.token_metrics(batch))
    return {"tagging": loss}, metrics

  return training_step.Objective(denominators=denominators, sums=sums)


def word_losses(logits: tf.Tensor, label_ids: tf.Tensor) -> tf.Tensor:
  """Returns cross-entropies [B, T]; they are 0 at positions without a label."""
  # TensorFlow refuses negative labels, so replace NO_LABEL and mask its loss.
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
    tf.maximum(label_ids, 0), logits
  )
  return losses * tf.cast(label_ids != inputs.NO_LABEL, tf.float32)


def store_states(
  path: str,
  model: TaggingModel,
  file: inputs.TaggingData,
  *,
  strategy: tf.distribute.Strategy,
  batch_size: int,
  trim: bool,
) -> inputs.TaggingData:
  """Writes a frozen encoder's states for all windows, unless they exist.

  A record has the outputs `model.stored` for the t tokens of a window, float32
  [t, N H]. For BERT base, all 12 layers of 200,000 word pieces need 7.4 GB.
  Returns `file` with these records, in the same order.

  Args:
    path: the TFRecord file.
    model: the model with its weights.
    strategy, batch_size: the strategy and batch size for computing states.
    trim: whether to trim batches to their longest sequence. If false, the
      stored states have padding.
  """
  width = len(model.stored) * model.config.hidden_size  # N H
  copied = ("input_mask", "label_ids")
  (length,) = file.features["input_mask"].shape

  def states_of_batch(batch: dict) -> dict:
    trimmed = pipeline.trim_to_longest(batch) if trim else batch
    output = model.bert.encode(trimmed)
    outputs = (output.embedding_output, *output.all_encoder_layers)
    # [B, T', N H]
    states = tf.concat(
      [tf.cast(outputs[number], tf.float32) for number in model.stored], axis=-1
    )
    # The predictor concatenates batches, so pad to T; `serialize` trims again.
    missing = length - tf.shape(states)[1]
    states = tf.pad(states, [[0, 0], [0, missing], [0, 0]])
    return {"states": states, **{name: batch[name] for name in copied}}

  def serialize(outputs: dict) -> list[bytes]:
    serialized = []
    for states, mask, labels in zip(*outputs.values(), strict=True):
      flat: Any = np.ravel(states[: mask.sum()] if trim else states)
      serialized.append(
        tfrecord.serialize_example(
          {"states": flat, "input_mask": mask, "label_ids": labels}
        )
      )
    return serialized

  # Hold at least one batch, even if its states exceed _HELD_BYTES.
  batches = max(1, _HELD_BYTES // (4 * batch_size * length * width))
  frozen_states.store(
    path,
    model.bert,
    file,
    states_of_batch,
    serialize,
    strategy=strategy,
    batch_size=batch_size,
    window=batch_size * batches,
    joins_short=False,
    states=model.stored,
    is_padded=not trim,
  )
  states = tf.io.FixedLenFeature([length, width], tf.float32)
  if trim:
    # The parser returns [B, longest of the batch, N H].
    states = tf.io.FixedLenSequenceFeature(
      [width], tf.float32, allow_missing=True
    )
  features = {name: file.features[name] for name in copied}
  return file._replace(records=path, features={**features, "states": states})
