"""Model Garden's pre-training steps, for step_speed.py."""

import tensorflow as tf

# tf-models-official uses legacy Keras.
import tf_keras
from official.nlp import optimization
from official.nlp.modeling import layers, models, networks

from step_speed import CLIP, DECAY, RATE


def _gelu(x):
  # All contenders must use the same form of GELU, tanh as in the original.
  return tf.nn.gelu(x, approximate=True)


class Pretraining:
  """BertPretrainerV2 of tf-models-official with its AdamWeightDecay."""

  def __init__(self, values, *, dtype, compiled=False):
    if dtype == "bfloat16":
      tf_keras.mixed_precision.set_global_policy("mixed_bfloat16")
    encoder = networks.BertEncoderV2(
      vocab_size=values["vocab_size"],
      hidden_size=values["hidden_size"],
      num_layers=values["num_hidden_layers"],
      num_attention_heads=values["num_attention_heads"],
      inner_dim=values["intermediate_size"],
      inner_activation=_gelu,
      max_sequence_length=values.get("max_position_embeddings", 512),
      type_vocab_size=values["type_vocab_size"],
    )
    head = layers.ClassificationHead(
      values["hidden_size"], 2, dropout_rate=0.1, name="next_sentence"
    )
    self._model = models.BertPretrainerV2(
      encoder, mlm_activation=_gelu, classification_heads=[head]
    )
    self._optimizer = optimization.AdamWeightDecay(
      learning_rate=RATE, weight_decay_rate=DECAY, gradient_clip_norm=CLIP
    )
    self._step = tf.function(self._train_step, jit_compile=compiled)

  def pretrain(self, batch):
    """Takes a training step on a step_speed.PretrainingBatch."""
    self._last = self._step(tf.nest.map_structure(tf.constant, batch))

  def wait(self):
    """Waits until the device has finished its work."""
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
      loss = 0.0
      for labels, logits in (
        (batch.masked_lm_ids, outputs["mlm_logits"]),
        (batch.next_sentence_labels[:, 0], outputs["next_sentence"]),
      ):
        loss += tf.reduce_mean(
          tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels, tf.cast(logits, tf.float32)
          )
        )
    variables = self._model.trainable_variables
    gradients = tape.gradient(loss, variables)
    self._optimizer.apply_gradients(zip(gradients, variables, strict=True))
    return loss
