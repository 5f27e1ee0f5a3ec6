"""RoBERTa (arXiv 1907.11692), XLM-R and CamemBERT: BERT with later positions.

No token uses the first rows of their position embeddings, up to the row of the
padding's id (pad_token_id, 1): the first token's position is 2.
max_position_embeddings is the longest sequence here, 512; transformers counts
the rows, 514.

A classifier's dense layer with tanh, on <s>, has the name of BERT's pooler; a
file of another class lacks it. (In training, transformers applies dropout to
that layer's input, too; here, as in BERT, only to its output.) The models are
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

    Raises InputError: the configuration has no pad_token_id, or pad_token_id or
      layer_norm_eps is invalid.
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
  """Returns the row of the first token's position."""
  config.check_number("pad_token_id", int, low=0)
  return config.pad_token_id + 1
