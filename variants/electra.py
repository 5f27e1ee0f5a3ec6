"""ELECTRA (arXiv 2003.10555): BERT that predicts which tokens were replaced.

ELECTRA has a discriminator, which is fine-tuned, and a generator, a smaller
model that fills masks. Both are BERT without a pooler, and their embeddings may
differ in width from the hidden states. The variables have BERT's names. As in
transformers, a classifier has a dense layer with GELU; in this project, that
layer has the pooler's name.
"""

import configuration
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
