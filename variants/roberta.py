"""RoBERTa (arXiv 1907.11692), XLM-R and CamemBERT: BERT with shifted positions.

Positions begin after pad_token_id, which is 1: the first token has position 2,
and no token uses the first two rows of the position embeddings. In this
project, max_position_embeddings is the maximum sequence length, 512; in
transformers, it is the number of rows, 514.

A classifier has a dense layer with tanh on the hidden state of <s>; in this
project, that layer has the name of BERT's pooler. As in BERT, training applies
dropout only to the layer's output; transformers applies it to the input too.
The models are not trained to predict next sentences.
"""

import tensorflow as tf

import configuration
import modeling


class RobertaModel(modeling.BertModel):
  """The encoder; its configuration also has pad_token_id."""

  predicts_next_sentence = False

  @staticmethod
  def shapes(
    config: configuration.BertConfig, scope: str = "bert"
  ) -> dict[str, tuple]:
    """Returns {name: shape}: BERT's, with more rows of position embeddings.

    Raises InputError: pad_token_id is missing or invalid.
    """
    shapes = configuration.bert_shapes(config, scope)
    name = f"{scope}/embeddings/position_embeddings"
    rows, width = shapes[name]
    return {**shapes, name: (_first_position(config) + rows, width)}

  def _position_table(self, weights: dict[str, tf.Variable]) -> tf.Tensor:
    return super()._position_table(weights)[_first_position(self.config) :]


def _first_position(config: configuration.BertConfig) -> int:
  """Returns the first token's row in the position embeddings."""
  config.check_number("pad_token_id", int, low=0)
  return config.pad_token_id + 1
