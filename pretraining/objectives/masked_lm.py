"""The masked tokens (BERT, arXiv 1810.04805, section 3.1, task 1)."""

from typing import Any

import tensorflow as tf

import configuration
import heads
import modeling
from pretraining import objectives


class MaskedLM(heads.MaskedLMHead, objectives.Objective):
  """Predicts the tokens at masked_lm_positions; see objectives.Objective."""

  name = "masked_lm"
  predicts_tokens = True

  def __init__(
    self,
    config: configuration.BertConfig,
    encoder: modeling.BertModel,
    *,
    seed: int,
  ):
    """Creates the head; its output weights are the word embeddings."""
    super().__init__(config, encoder.word_embeddings, seed=seed)
    self._head_states = encoder.head_states

  def positions(self, batch: dict) -> tf.Tensor:
    """Returns the masked positions [B, P]."""
    return batch["masked_lm_positions"]

  def logits(self, states: tf.Tensor, pooled: Any, batch: dict) -> tf.Tensor:
    """Returns logits [B, P, V] from states [B, P, H]."""
    del pooled, batch
    return self(self._head_states(states))

  def labels(self, batch: dict) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the ids before masking and their weights, [B, P] both."""
    return batch["masked_lm_ids"], batch["masked_lm_weights"]


def make(
  config: configuration.BertConfig, encoder: modeling.BertModel, *, seed: int
) -> MaskedLM:
  """Returns the objective."""
  return MaskedLM(config, encoder, seed=seed)
