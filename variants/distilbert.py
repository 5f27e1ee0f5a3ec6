"""DistilBERT (arXiv 1910.01108): BERT without segments, with half the layers.

Its variables have BERT's names. It has neither segment embeddings nor a
pre-trained pooler. Its classifier has a dense layer with ReLU; in this project,
that layer has the pooler's name.
"""

import configuration
import modeling


class DistilBertModel(modeling.BertModel):
  """The encoder; it accepts token_type_ids and ignores them."""

  pooler_activation = "relu"
  predicts_next_sentence = False

  @staticmethod
  def shapes(
    config: configuration.BertConfig, scope: str = "bert"
  ) -> dict[str, tuple]:
    """Returns {name: shape}: BERT's without the segment embeddings."""
    shapes = configuration.bert_shapes(config, scope)
    del shapes[f"{scope}/embeddings/token_type_embeddings"]
    # The pooler stays, because a classifier's dense layer has its name.
    return shapes
