"""RoBERTa (arXiv 1907.11692), XLM-R and CamemBERT: BERT with later positions.

Their table of positions begins with rows that no token has, up to the one of
the padding's id (pad_token_id, 1): the first token's position is 2.
max_position_embeddings is the longest sequence here, 512; transformers counts
the rows, 514.

A classifier's dense layer with tanh, on <s>, has the place of BERT's pooler,
and a file of another class has none. (In training, transformers also drops
units of that layer's input; here, as in BERT, of its output alone.) Nothing is
learned of next sentences.
"""

import configuration
import modeling


class RobertaModel(modeling.BertModel):
  """The encoder; its configuration has pad_token_id too."""

  predicts_next_sentence = False

  @staticmethod
  def shapes(config, scope="bert"):
    """Returns {name: shape}: BERT's with more rows of positions.

    Raises InputError: the configuration has no pad_token_id, or it or
      layer_norm_eps is no such number.
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
