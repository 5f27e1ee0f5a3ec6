"""Every next token, for models that read from left to right.

The masked-LM head predicts every token except [CLS], including [SEP], from the
tokens before it. BERT predicts only 15 % of the tokens. A step thus makes
about 7 predictions for each of BERT's, and the product with the embedding table
has 7 times the cost.

Letters: B sequences, T their length, H width, P masked tokens of each sequence,
n predicted tokens, V vocabulary.
"""

from typing import Any

import tensorflow as tf

import configuration
from pretraining import networks
from pretraining.networks import encoder
from pretraining.objectives import masked_lm
from variants import registry

IGNORED = (
  "objectives masked_lm_prob masking do_whole_word_mask mask_shares",
  "this model predicts the next word",
)
MASKS = False


def labels(settings: Any) -> dict:
  """Returns {}: the texts are the labels."""
  del settings
  return {}


def check(config: configuration.BertConfig, settings: Any) -> None:
  """Raises InputError: next sentences are to be predicted, too."""
  registry.check_next_sentence(config, settings.use_next_sentence_loss)


def fixed(settings: Any) -> dict[str, Any]:
  """Returns the settings that must not change in a run."""
  return settings.pick("use_next_sentence_loss")


class NextWord(masked_lm.MaskedLM):
  """Predicts each token's next token; see objectives.Objective."""

  name = "next_word"
  skips_padding = False

  def logits(self, states: tf.Tensor, pooled: Any, batch: dict) -> tf.Tensor:
    """Returns logits [n, V] or [B, T - 1, V] from states [B, T, H]."""
    del pooled
    return self(self._predicted(batch, states[:, :-1]))

  def labels(self, batch: dict) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns each token's next token, with weight 0 if it has none."""
    next_ids = self._predicted(batch, unmasked(batch)[:, 1:])
    is_token = self._predicted(batch, batch["input_mask"][:, 1:])
    return next_ids, tf.cast(is_token > 0, tf.float32)

  def _predicted(self, batch: dict, values: tf.Tensor) -> tf.Tensor:
    """Drops padding if it is skipped: [B, T - 1, ...] -> [n, ...]."""
    if not self.skips_padding:
      return values
    return tf.gather_nd(values, tf.where(batch["input_mask"][:, 1:] > 0))


class NextWordModel(encoder.PretrainingModel):
  """The encoder with the masked-LM head.

  It reads records with and without masks, and restores masked tokens.
  """

  def __init__(self, config: configuration.BertConfig, **model_options: Any):
    """Creates the variables; the options go to modeling.BertModel."""
    super().__init__(config, (), **model_options)
    self.next_word = NextWord(config, self.bert, seed=model_options["seed"])
    # Skipping padding needs shapes that depend on the number of tokens.
    self.next_word.skips_padding = model_options.get("skip_padding", False)
    self.objectives = [self.next_word]

  def __call__(
    self, batch: dict, dropout_seed: tf.Tensor | None = None
  ) -> dict[str, tf.Tensor]:
    """Returns {"next_word": logits [n, V] or [B, T - 1, V]}."""
    batch = {**batch, "input_ids": unmasked(batch)}
    states = self.bert.encode(batch, dropout_seed).sequence_output  # [B, T, H]
    return {"next_word": self.next_word.logits(states, None, batch)}


def make(
  config: configuration.BertConfig, settings: Any, **model_options: Any
) -> NextWordModel:
  """Returns the model that the flags describe."""
  del settings
  return NextWordModel(config, **model_options)


def unmasked(batch: dict) -> tf.Tensor:
  """Returns the ids of the text, int32 [B, T], with masked tokens restored."""
  ids = batch["input_ids"]
  # Records of --dynamic_masking have no masks.
  if "masked_lm_ids" not in batch:
    return ids
  return networks.with_words(batch, batch["masked_lm_ids"])
