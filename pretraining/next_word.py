"""Pre-training on the next word, for models that read from left to right.

The masked-LM head predicts every token except [CLS], including [SEP], from the
tokens before it. BERT predicts only 15 % of the tokens. So a step makes about 7
times as many predictions as BERT's, and the product with the embedding table
costs 7 times as much.

Letters: B sequences, T their length, H width, P masked tokens of each sequence,
n predicted tokens, V vocabulary.
"""

import tensorflow as tf

from pretraining import model


class NextWordModel(model.PretrainingModel):
  """The encoder with the masked-LM head, for pretraining.model.objective.

  It reads records with and without masks, and restores masked tokens.
  """

  def __init__(self, config, **model_options):
    super().__init__(config, with_next_sentence=False, **model_options)
    # Skipping padding needs shapes that depend on the number of tokens.
    self._skips_padding = model_options.get("skip_padding", False)

  @property
  def head_names(self):
    """Names of the heads whose losses are added."""
    return ["next_word"]

  def labels(self, name, batch):
    """Returns each token's next token, with weight 0 if it has none."""
    del name
    next_ids = self._predicted(batch, unmasked(batch)[:, 1:])
    is_token = self._predicted(batch, batch["input_mask"][:, 1:])
    return next_ids, tf.cast(is_token > 0, tf.float32)

  def __call__(self, batch, dropout_seed=None):
    """Returns {"next_word": logits [n, V] or [B, T - 1, V]}."""
    batch = {**batch, "input_ids": unmasked(batch)}
    states = self.bert.encode(batch, dropout_seed).sequence_output  # [B, T, H]
    states = self._predicted(batch, states[:, :-1])
    return {"next_word": self.masked_lm(states)}

  def _predicted(self, batch, values):
    """Drops padding if it is skipped: [B, T - 1, ...] -> [n, ...]."""
    if not self._skips_padding:
      return values
    return tf.gather_nd(values, tf.where(batch["input_mask"][:, 1:] > 0))


def unmasked(batch: dict) -> tf.Tensor:
  """Returns the ids of the text, int32 [B, T], with masked tokens restored."""
  ids = batch["input_ids"]
  # Records of --dynamic_masking have no masks.
  if "masked_lm_ids" not in batch:
    return ids
  columns = batch["masked_lm_positions"]
  # Unused entries point to position 0, where [CLS] must stay.
  masked_ids = tf.gather(ids, columns, batch_dims=1)
  is_masked = batch["masked_lm_weights"] > 0
  labels = tf.cast(batch["masked_lm_ids"], ids.dtype)
  labels = tf.where(is_masked, labels, masked_ids)  # [B, P]
  count = tf.shape(ids, columns.dtype)[0]
  rows = tf.zeros_like(columns) + tf.range(count)[:, tf.newaxis]
  return tf.tensor_scatter_nd_update(ids, tf.stack([rows, columns], 2), labels)
