"""DistilBERT (arXiv 1910.01108): BERT without segments, with half the layers.

Its variables carry BERT's names. What is not there: the table of segments, and
the pooler of pre-training; its classifier has a dense layer with ReLU in the
place of BERT's pooler, under the pooler's name here.
"""

import configuration
import modeling


class DistilBertModel(modeling.BertModel):
  """The encoder; token_type_ids are accepted and have no effect."""

  pooler_activation = "relu"
  predicts_next_sentence = False

  @staticmethod
  def shapes(config, scope="bert"):
    """Returns {name: shape}: BERT's without the table of segments."""
    shapes = configuration.bert_shapes(config, scope)
    # The pooler stays: a classifier's dense layer has its name.
    del shapes[f"{scope}/embeddings/token_type_embeddings"]
    return shapes

  def _add_segments(self, summed, segments):
    del segments
    return summed
