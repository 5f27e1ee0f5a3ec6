"""ELECTRA (arXiv 2003.10555): BERT that predicts which tokens were replaced.

ELECTRA has a discriminator, which is fine-tuned, and a generator, a smaller
model that fills masks. Both are BERT without a pooler, and their embeddings may
differ in width from the hidden states. The variables have BERT's names. As in
transformers, a classifier has a dense layer with GELU; in this project, that
layer has the pooler's name.
"""

import tensorflow as tf

import configuration
import heads
import layers
import named_weights
from variants import factorized


class ElectraModel(factorized.FactorizedModel):
  """The encoder of a discriminator or a generator.

  The dense layer `mapping` exists only if embedding_size != hidden_size.
  """

  mapping = "embeddings_project"
  pooler_activation = "gelu_erf"
  predicts_next_sentence = False

  @classmethod
  def shapes(
    cls, config: configuration.BertConfig, scope: str = "bert"
  ) -> dict[str, tuple]:
    """Returns {name: shape}; raises InputError like FactorizedModel."""
    shapes = super().shapes(config, scope)
    if config.embedding_size == config.hidden_size:
      for end in ("kernel", "bias"):
        del shapes[f"{scope}/{cls.mapping}/{end}"]
    return shapes


def replaced_token_shapes(config: configuration.BertConfig) -> dict[str, tuple]:
  """Returns {name: shape} of a `ReplacedTokenHead`."""
  prefix, width = "cls/replaced_tokens/", config.hidden_size
  return {
    **configuration.dense_shapes(f"{prefix}dense", width, width),
    **heads.output_shapes(config, prefix, 1),
  }


class ReplacedTokenHead(named_weights.Weights):
  """Predicts whether each token was replaced (ELECTRA's discriminator)."""

  def __init__(self, config: configuration.BertConfig, *, seed: int = 12345):
    shapes = replaced_token_shapes(config)
    super().__init__(shapes, stddev=config.initializer_range, seed=seed)
    self._activation = layers.get_activation(config.hidden_act)

  def __call__(self, sequence_output: tf.Tensor) -> tf.Tensor:
    """Returns logits [B, T] from [B, T, H], above 0 for a replaced token."""
    weights = self.weights_below("cls/replaced_tokens/")
    x = layers.dense(sequence_output, weights, "dense", self._activation)
    return layers.output_logits(
      x, weights["output_weights"], weights["output_bias"]
    )[..., 0]
