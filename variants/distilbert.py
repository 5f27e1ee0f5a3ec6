"""DistilBERT (arXiv 1910.01108): BERT without segments, with half the layers.

Its variables have BERT's names. It lacks the segment embeddings and the
pre-trained pooler. Its classifier has a dense layer with ReLU, which has the
name of the pooler here.
"""

import configuration
import modeling


class DistilBertModel(modeling.BertModel):
  """The encoder; token_type_ids are accepted and have no effect."""

  pooler_activation = "relu"
  predicts_next_sentence = False

  @staticmethod
  def shapes(config, scope="bert"):
    """Returns {name: shape}: BERT's without the segment embeddings."""
    shapes = configuration.bert_shapes(config, scope)
    # Keep the pooler, because a classifier's dense layer has its name.
    del shapes[f"{scope}/embeddings/token_type_embeddings"]
    return shapes

  def _add_segments(self, summed, segments):
    del segments
    return summed
