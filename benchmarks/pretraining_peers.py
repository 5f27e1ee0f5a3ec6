"""Other programs' pre-training steps, for pretraining_step.py.

Each peer is a class with `name`, `optional` and `pretrain(batch)`: forward,
gradient, clipping and Adam with weight decay, on a PretrainingBatch of
step_batches.py; and `wait()`. What a peer lacks is left out: keras-hub has no
next-sentence head. They need torch and transformers, tf-models-official,
keras-hub; a peer that cannot be imported raises ImportError.
"""

import huggingface_steps
import tensorflow as tf

from checkpoints import comparison

_RATE, _DECAY, _CLIP = (
  huggingface_steps.RATE, huggingface_steps.DECAY, huggingface_steps.CLIP
)


class ModelGarden:
  """BertPretrainerV2 of tf-models-official with its AdamWeightDecay."""

  def __init__(self, config, *, dtype, compiled=False):
    # Legacy Keras, which is what tf-models-official uses.
    import tf_keras
    from official.nlp import optimization
    from official.nlp.modeling import layers, models

    self.name = "Model Garden, " + ("XLA" if compiled else "graph")
    self.optional = compiled
    self._is_mixed = dtype == tf.bfloat16
    if self._is_mixed:
      # Of the process: no other peer here uses tf_keras.
      tf_keras.mixed_precision.set_global_policy("mixed_bfloat16")
    encoder = comparison.make_model_garden_encoder(config)
    head = layers.ClassificationHead(
      config.hidden_size, 2, dropout_rate=0.1, name="next_sentence"
    )
    self._model = models.BertPretrainerV2(
      encoder,
      # The original's form, so that all compute the same function.
      mlm_activation=lambda x: tf.nn.gelu(x, approximate=True),
      classification_heads=[head],
    )
    self._optimizer = optimization.AdamWeightDecay(
      learning_rate=_RATE, weight_decay_rate=_DECAY, gradient_clip_norm=_CLIP
    )
    self._step = tf.function(self._train_step, jit_compile=compiled)

  def pretrain(self, batch):
    """One training step; returns when it is done."""
    self._last = self._step(tf.nest.map_structure(tf.constant, batch))

  def wait(self):
    """Returns when the device has done what it was given."""
    self._last.numpy()

  def _train_step(self, batch):
    inputs = dict(
      input_word_ids=batch.input_ids,
      input_mask=batch.input_mask,
      input_type_ids=batch.segment_ids,
      masked_lm_positions=batch.masked_lm_positions,
    )
    with tf.GradientTape() as tape:
      outputs = self._model(inputs, training=True)
      loss = _mean_loss(batch.masked_lm_ids, outputs["mlm_logits"])
      loss += _mean_loss(
        batch.next_sentence_labels[:, 0], outputs["next_sentence"]
      )
    variables = self._model.trainable_variables
    gradients = tape.gradient(loss, variables)
    self._optimizer.apply_gradients(zip(gradients, variables))
    return loss


def _mean_loss(labels, logits):
  logits = tf.cast(logits, tf.float32)
  return tf.reduce_mean(
    tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
  )


class KerasHub:
  """BertMaskedLM of keras-hub, trained by its train_on_batch."""

  def __init__(self, config, *, dtype, compiled=False):
    import keras
    import keras_hub

    self.name = "keras-hub, " + ("XLA" if compiled else "graph")
    self.optional = True
    # Weights stay float32, as they do here.
    policy = "mixed_bfloat16" if dtype == tf.bfloat16 else "float32"
    backbone = keras_hub.models.BertBackbone(
      vocabulary_size=config.vocab_size,
      num_layers=config.num_hidden_layers,
      num_heads=config.num_attention_heads,
      hidden_dim=config.hidden_size,
      intermediate_dim=config.intermediate_size,
      max_sequence_length=config.max_position_embeddings,
      num_segments=config.type_vocab_size,
      dtype=policy,
    )
    self._model = keras_hub.models.BertMaskedLM(backbone)
    self._model.compile(
      optimizer=keras.optimizers.AdamW(
        _RATE, weight_decay=_DECAY, global_clipnorm=_CLIP
      ),
      loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
      # Metrics of every step are no part of a training step.
      weighted_metrics=[],
      jit_compile=compiled,
    )

  def pretrain(self, batch):
    """One training step; returns when it is done."""
    inputs = {
      "token_ids": batch.input_ids,
      "padding_mask": batch.input_mask,
      "segment_ids": batch.segment_ids,
      "mask_positions": batch.masked_lm_positions,
    }
    self._model.train_on_batch(inputs, batch.masked_lm_ids)

  def wait(self):
    """Returns at once: train_on_batch has waited."""


def _hugging_face(config, *, dtype, compiled=False):
  return huggingface_steps.Pretraining(
    config.to_dict(), dtype=dtype.name, compiled=compiled
  )


PEERS = {
  "huggingface": _hugging_face,
  "model_garden": ModelGarden,
  "keras_hub": KerasHub,
}
