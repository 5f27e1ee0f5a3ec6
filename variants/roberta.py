"""RoBERTa (arXiv 1907.11692), XLM-R and CamemBERT: BERT with later positions.

Positions begin after pad_token_id, 1: the first token has the position 2, and
no token uses the first two rows of the position embeddings.
max_position_embeddings is the longest sequence here, 512; transformers counts
the rows, 514.

A classifier's dense layer with tanh, on <s>, has the name of BERT's pooler;
other models lack it. (In training, transformers also applies dropout to that
layer's input; here, as in BERT, dropout is only on its output.) The models are
not trained on next sentences.
"""

import configuration
import modeling


class RobertaModel(modeling.BertModel):
  """The encoder; its configuration also has pad_token_id."""

  predicts_next_sentence = False

  @staticmethod
  def shapes(config, scope="bert"):
    """Returns {name: shape}: BERT's, with more position rows.

    Raises InputError: pad_token_id is missing in the configuration, or
      pad_token_id or layer_norm_eps is invalid.
    """
    if hasattr(config, "layer_norm_eps"):
      config.check_number("layer_norm_eps", (int, float), low=0)
    shapes = configuration.bert_shapes(config, scope)
    name = f"{scope}/embeddings/position_embeddings"
    rows, width = shapes[name]
    return {**shapes, name: (_first_position(config) + rows, width)}

  def _position_table(self):
    return super()._position_table()[_first_position(self.config) :]


def _first_position(config):
  """Returns the row in the position embeddings for the first token."""
  config.check_number("pad_token_id", int, low=0)
  return config.pad_token_id + 1
