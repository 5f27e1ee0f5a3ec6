"""ELECTRA (arXiv 2003.10555): BERT that predicts which tokens were replaced.

Its discriminator, which is fine-tuned, and its generator, a smaller model that
fills masks, have the same architecture: BERT with narrow embeddings. The
variables have BERT's names. ELECTRA lacks BERT's pooler. As in transformers, a
classifier has a dense layer with GELU, which has the pooler's name.
"""

from collections.abc import Iterable

from variants import factorized

# The scope of the generator, and of its head, in a checkpoint of both models,
# which share their embeddings.
GENERATOR = "generator"


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


def generator_names(names: Iterable[str]) -> dict[str, str]:
  """Returns {name in a separate generator: name in a pre-training}."""
  names_in_both = {}
  for name in names:
    start, _, rest = name.partition("/")
    if start == GENERATOR:
      # A separate generator's encoder has BERT's scope, its head has none.
      names_in_both[rest if rest.startswith("cls/") else f"bert/{rest}"] = name
    elif name.startswith("bert/embeddings/"):
      names_in_both.setdefault(name, name)
  return names_in_both
