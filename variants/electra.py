"""ELECTRA (arXiv 2003.10555): BERT that tells which tokens were replaced.

Its discriminator, the model that is fine-tuned, and its generator, a smaller
one that fills masks, are the same network: BERT with narrow embeddings. The
variables have BERT's names. In the place of BERT's pooler, which ELECTRA lacks,
is the dense layer with GELU of a classifier, as in transformers.
"""

from collections.abc import Iterable

from variants import factorized

# Of a generator that is trained with its discriminator, whose embeddings it
# shares; also of its head.
GENERATOR = "generator"


class ElectraModel(factorized.FactorizedModel):
  """The encoder of a discriminator or a generator.

  Without `mapping` where embedding_size is hidden_size.
  """

  mapping = "embeddings_project"
  pooler_activation = "gelu_erf"
  predicts_next_sentence = False

  @classmethod
  def shapes(cls, config, scope="bert"):
    """Returns {name: shape}; InputError as of FactorizedModel."""
    shapes = super().shapes(config, scope)
    if config.embedding_size == config.hidden_size:
      for end in ("kernel", "bias"):
        del shapes[f"{scope}/{cls.mapping}/{end}"]
    return shapes


def generator_names(names: Iterable[str]) -> dict[str, str]:
  """Returns {name in a generator of its own: name in a pre-training}."""
  found = {}
  for name in names:
    start, _, rest = name.partition("/")
    if start == GENERATOR:
      # Its encoder has BERT's scope, its head none.
      found[rest if rest.startswith("cls/") else f"bert/{rest}"] = name
    elif name.startswith("bert/embeddings/"):
      found.setdefault(name, name)
  return found
