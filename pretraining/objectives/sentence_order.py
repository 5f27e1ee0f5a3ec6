"""Which of two segments comes first, for --packing=sentence_order (ALBERT).

It uses the head and the variables of the next sentence; the label is 1 for a
swapped pair (arXiv 1909.11942, section 3.1).
"""

import configuration
import modeling
from pretraining.objectives import next_sentence

LABELS = next_sentence.LABELS
check = next_sentence.check


class SentenceOrder(next_sentence.NextSentence):
  """Predicts next_sentence_labels; see objectives.Objective."""

  name = "sentence_order"


def make(
  config: configuration.BertConfig, encoder: modeling.BertModel, *, seed: int
) -> SentenceOrder:
  """Returns the objective."""
  del encoder
  return SentenceOrder(config, seed=seed)
