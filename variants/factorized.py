"""BERT whose embeddings may differ in width from its hidden states.

E is the width of the embeddings, H the width of the hidden states.
"""

import tensorflow as tf

import configuration
import layers
import modeling


class FactorizedModel(modeling.BertModel):
  """An encoder whose dense layer `mapping` maps the embeddings from E to H.

  `embedding_output` [B, T, H] is the output of that layer. The configuration
  also has embedding_size, which is E.
  """

  # The dense layer's name, without the scope.
  mapping: str

  @classmethod
  def shapes(
    cls, config: configuration.BertConfig, scope: str = "bert"
  ) -> dict[str, tuple]:
    """Returns {name: shape}, in the order of the released checkpoints.

    Raises InputError: embedding_size is missing or invalid.
    """
    config.check_number("embedding_size", int, low=1)
    width, shapes = config.embedding_size, {}
    for name, shape in configuration.bert_shapes(config, scope).items():
      # The tables become [rows, E], and the layer norm's vectors [E].
      if name.startswith(f"{scope}/embeddings/"):
        shape = (*shape[:-1], width)
      shapes[name] = shape
      if name == f"{scope}/embeddings/LayerNorm/gamma":
        shapes |= configuration.dense_shapes(
          f"{scope}/{cls.mapping}", width, config.hidden_size
        )
    return shapes

  def _embed(self, *arguments) -> tf.Tensor:
    embedded = super()._embed(*arguments)  # [S, E]
    weights = self.weights_below(f"{self._scope}/")
    # ELECTRA has no dense layer if E equals H.
    if f"{self.mapping}/kernel" not in weights:
      return embedded
    return layers.dense(embedded, weights, self.mapping)
