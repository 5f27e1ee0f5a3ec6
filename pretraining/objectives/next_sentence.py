"""Whether segment B follows segment A (BERT, arXiv 1810.04805, task 2)."""

import tensorflow as tf

import configuration
import heads
import modeling
from pretraining import objectives
from variants import registry

LABELS = {"next_sentence_labels": (1, 2)}


class NextSentence(heads.NextSentenceHead, objectives.Objective):
  """Predicts next_sentence_labels; see objectives.Objective."""

  name = "next_sentence"
  reads_pooled = True
  may_lack_labels = False

  def logits(
    self, states: tf.Tensor, pooled: tf.Tensor, batch: dict
  ) -> tf.Tensor:
    """Returns logits [B, 2] from the pooled output [B, H]."""
    del states, batch
    return self(pooled)

  def labels(self, batch: dict) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns 1 for a random second segment, else 0, [B]."""
    labels = batch["next_sentence_labels"][:, 0]
    return labels, tf.ones_like(labels, tf.float32)


def check(config: configuration.BertConfig) -> None:
  """Raises InputError: the variant has no next-sentence head."""
  registry.check_next_sentence(config, True)


def make(
  config: configuration.BertConfig, encoder: modeling.BertModel, *, seed: int
) -> NextSentence:
  """Returns the objective."""
  del encoder
  return NextSentence(config, seed=seed)
