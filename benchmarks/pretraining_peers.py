"""Other programs' pre-training steps, for pretraining_step.py.

Each peer is a class with `name`, `optional` and `pretrain(batch)`: forward,
gradient, clipping and Adam with weight decay, on a Batch of that script. What a
peer lacks is left out: keras-hub has no next-sentence head. They need torch and
transformers, tf-models-official, keras-hub; a peer that cannot be imported
raises ImportError.
"""

import numpy as np
import peer_imports
import tensorflow as tf

from checkpoints import comparison

_RATE, _DECAY, _CLIP = 1e-5, 0.01, 1.0


class HuggingFace:
  """transformers' BertForPreTraining with SDPA and torch's fused AdamW.

  It computes the vocabulary's logits at all positions.
  """

  def __init__(self, config, *, dtype, compiled=False):
    peer_imports.hide_triton()
    import torch
    import transformers

    self.name = "Hugging Face, " + ("torch.compile" if compiled else "eager")
    self.optional = compiled
    self._torch, self._is_mixed = torch, dtype == tf.bfloat16
    # Their name of the tanh form, which ours is.
    values = {**config.to_dict(), "hidden_act": "gelu_new"}
    self._model = transformers.BertForPreTraining(
      transformers.BertConfig(attn_implementation="sdpa", **values)
    )
    self._optimizer = torch.optim.AdamW(
      self._model.parameters(), lr=_RATE, weight_decay=_DECAY, fused=True
    )
    self._run = torch.compile(self._model) if compiled else self._model

  def pretrain(self, batch):
    """One training step; returns when it is done."""
    torch = self._torch
    # -100 is what torch's cross-entropy leaves out.
    labels = np.full(batch.input_ids.shape, -100)
    np.put_along_axis(
      labels, batch.masked_lm_positions, batch.masked_lm_ids, 1
    )
    inputs = {
      "input_ids": batch.input_ids,
      "attention_mask": batch.input_mask,
      "token_type_ids": batch.segment_ids,
      "labels": labels,
      "next_sentence_label": batch.next_sentence_labels[:, 0],
    }
    inputs = {
      name: torch.from_numpy(value.astype(np.int64))
      for name, value in inputs.items()
    }
    self._model.train()
    with torch.autocast("cpu", torch.bfloat16, enabled=self._is_mixed):
      # torch runs at once on a CPU: when `step` returns the work is done.
      loss = self._run(**inputs).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(self._model.parameters(), _CLIP)
    self._optimizer.step()
    self._optimizer.zero_grad()


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
    self._step(tf.nest.map_structure(tf.constant, batch)).numpy()

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


PEERS = {
  "huggingface": HuggingFace,
  "model_garden": ModelGarden,
  "keras_hub": KerasHub,
}
