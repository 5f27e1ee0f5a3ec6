"""Pre-training on the next word, for models that read from left to right.

The masked-LM head predicts every token except [CLS], including [SEP], from the
tokens before it. BERT predicts 15 % of the tokens, so a step trains more
predictions here, and costs more: the product with the word table covers all
tokens, about 7× more.

Letters: B sequences, T their length, P masked tokens of each, n words that are
predicted, V vocabulary.
"""

import tensorflow as tf

from pretraining import model


class NextWordModel(model.PretrainingModel):
  """The encoder with the masked-LM head, for pretraining.model.objective.

  It reads records with and without masks, and puts masked words back.
  """

  def __init__(self, config, **model_options):
    super().__init__(config, with_next_sentence=False, **model_options)
    # Skipping padding needs shapes that depend on the number of words.
    self._skips_padding = model_options.get("skip_padding", False)

  @property
  def head_names(self):
    """Names of the heads whose losses are added."""
    return ["next_word"]

  def labels(self, name, batch):
    """Returns each token's next token and whether it has one."""
    del name
    words = self._predicted(batch, unmasked(batch)[:, 1:])
    is_word = self._predicted(batch, batch["input_mask"][:, 1:])
    return words, tf.cast(is_word > 0, tf.float32)

  def __call__(self, batch, dropout_seed=None):
    """Returns {"next_word": logits [n, V] or [B, T - 1, V]}."""
    batch = {**batch, "input_ids": unmasked(batch)}
    states = self.bert.encode(batch, dropout_seed).sequence_output  # [B, T, H]
    read = self._predicted(batch, states[:, :-1])
    return {"next_word": self.masked_lm(read)}

  def _predicted(self, batch, values):
    """Selects the positions of predicted words: [B, T - 1, ...] -> [n, ...]."""
    if not self._skips_padding:
      return values
    return tf.gather_nd(values, tf.where(batch["input_mask"][:, 1:] > 0))


def unmasked(batch: dict) -> tf.Tensor:
  """Returns the ids of the text, int32 [B, T], with masked words restored."""
  ids = batch["input_ids"]
  # Records of --dynamic_masking hold the text as it is.
  if "masked_lm_ids" not in batch:
    return ids
  places = batch["masked_lm_positions"]
  # Unused positions are 0, where [CLS] stays.
  masked_ids = tf.gather(ids, places, batch_dims=1)
  is_masked = batch["masked_lm_weights"] > 0
  words = tf.cast(batch["masked_lm_ids"], ids.dtype)
  words = tf.where(is_masked, words, masked_ids)  # [B, P]
  count = tf.shape(ids, places.dtype)[0]
  rows = tf.zeros_like(places) + tf.range(count)[:, tf.newaxis]
  return tf.tensor_scatter_nd_update(ids, tf.stack([rows, places], 2), words)
