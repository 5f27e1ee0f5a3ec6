"""BERT with embeddings narrower than its hidden states.

E is the width of the embeddings, H that of the hidden states.
"""

import configuration
import layers
import modeling


class FactorizedModel(modeling.BertModel):
  """An encoder whose embeddings, E wide, a dense layer makes H wide.

  `embedding_output` is what the first layer reads, [B, T, H]. The configuration
  has embedding_size, E, too.
  """

  # Name of the dense layer below the scope.
  mapping: str

  @classmethod
  def shapes(cls, config, scope="bert"):
    """Returns {name: shape}, in the order of the released checkpoints.

    Raises InputError: the configuration has no embedding_size.
    """
    config.check_number("embedding_size", int, low=1)
    narrow, shapes = config.embedding_size, {}
    for name, shape in configuration.bert_shapes(config, scope).items():
      # Tables [rows, E], and vectors [E] of the layer norm.
      if name.startswith(f"{scope}/embeddings/"):
        shape = (*shape[:-1], narrow)
      shapes[name] = shape
      if name == f"{scope}/embeddings/LayerNorm/gamma":
        shapes |= configuration.dense_shapes(
          f"{scope}/{cls.mapping}", narrow, config.hidden_size
        )
    return shapes

  def _embed(self, *arguments):
    narrow = super()._embed(*arguments)  # [S, E]
    weights = self.weights_below(f"{self._scope}/")
    # A variant may have none where E is H.
    if f"{self.mapping}/kernel" not in weights:
      return narrow
    return layers.dense(narrow, weights, self.mapping)
