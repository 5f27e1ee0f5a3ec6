"""keras-hub's pre-training steps, for step_speed.py.

keras-hub has no next-sentence head, so its steps train only the masked LM.
"""

import keras
import keras_hub

from step_speed import CLIP, DECAY, RATE


class Pretraining:
  """BertMaskedLM of keras-hub, trained with train_on_batch."""

  def __init__(self, values, *, dtype, compiled=False):
    # Weights stay float32, as in this project.
    policy = "mixed_bfloat16" if dtype == "bfloat16" else "float32"
    backbone = keras_hub.models.BertBackbone(
      vocabulary_size=values["vocab_size"],
      num_layers=values["num_hidden_layers"],
      num_heads=values["num_attention_heads"],
      hidden_dim=values["hidden_size"],
      intermediate_dim=values["intermediate_size"],
      max_sequence_length=values.get("max_position_embeddings", 512),
      num_segments=values["type_vocab_size"],
      dtype=policy,
    )
    self._model = keras_hub.models.BertMaskedLM(backbone)
    self._model.compile(
      optimizer=keras.optimizers.AdamW(
        RATE, weight_decay=DECAY, global_clipnorm=CLIP
      ),
      loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
      # Disable keras-hub's default metrics, which no other contender computes.
      weighted_metrics=[],
      jit_compile=compiled,
    )

  def pretrain(self, batch):
    """Takes a training step, and waits for its end."""
    inputs = {
      "token_ids": batch.input_ids,
      "padding_mask": batch.input_mask,
      "segment_ids": batch.segment_ids,
      "mask_positions": batch.masked_lm_positions,
    }
    self._model.train_on_batch(inputs, batch.masked_lm_ids)
