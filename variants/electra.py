"""ELECTRA (arXiv 2003.10555): BERT that predicts which tokens were replaced.

Its discriminator, which is fine-tuned, and its generator, a smaller model that
fills masks, have the same architecture: BERT with narrow embeddings. The
variables have BERT's names. ELECTRA lacks BERT's pooler. As in transformers, a
classifier has a dense layer with GELU, which has the pooler's name.
"""

from variants import factorized


class ElectraModel(factorized.FactorizedModel):
  """The encoder of a discriminator or a generator.

  It has no `mapping` if embedding_size is hidden_size.
  """

  mapping = "embeddings_project"
  pooler_activation = "gelu_erf"
  predicts_next_sentence = False

  @classmethod
  def shapes(cls, config, scope="bert"):
    """Returns {name: shape}; raises InputError like FactorizedModel."""
    shapes = super().shapes(config, scope)
    if config.embedding_size == config.hidden_size:
      for end in ("kernel", "bias"):
        del shapes[f"{scope}/{cls.mapping}/{end}"]
    return shapes
