"""ALBERT (arXiv 1909.11942): narrow embeddings and shared layers.

The variables have the names of the released TF1 checkpoints. All layers of a
group share one set of weights; released models have one group.
"""

import copy
import re

import configuration
from variants import factorized

# Maps BERT's names below "layer_<n>/" to ALBERT's below "inner_group_0/".
_LAYER_NAMES = {
  "attention/self": "attention_1/self",
  "attention/output/dense": "attention_1/output/dense",
  "attention/output/LayerNorm": "LayerNorm",
  "intermediate/dense": "ffn_1/intermediate/dense",
  "output/dense": "ffn_1/intermediate/output/dense",
  "output/LayerNorm": "LayerNorm_1",
}
_GROUP = "transformer/group_{}/inner_group_0"


def tf1_name(bert_name: str) -> str:
  """Returns ALBERT's name for a variable of BERT; layer_n becomes group_n."""
  return re.sub(
    rf"encoder/layer_(\d+)/({'|'.join(_LAYER_NAMES)})/",
    lambda m: f"encoder/{_GROUP.format(m[1])}/{_LAYER_NAMES[m[2]]}/",
    bert_name,
  )


class AlbertModel(factorized.FactorizedModel):
  """The encoder; its configuration also has num_hidden_groups."""

  mapping = "encoder/embedding_hidden_mapping_in"
  shares_layers = True

  def __init__(self, config: configuration.BertConfig, **options):
    """Creates the variables; for the options see modeling.BertModel."""
    super().__init__(config, **options)
    config.check_number(
      "num_hidden_groups", int, low=1, below=config.num_hidden_layers + 1
    )

  @classmethod
  def shapes(
    cls, config: configuration.BertConfig, scope: str = "bert"
  ) -> dict[str, tuple]:
    """Returns {name: shape}: embeddings of width E, and one layer per group.

    Raises InputError: num_hidden_groups or embedding_size is not valid.
    """
    config.check_number("num_hidden_groups", int, low=1)
    groups = copy.copy(config)
    groups.num_hidden_layers = config.num_hidden_groups
    shapes = super().shapes(groups, scope)
    return {tf1_name(name): shape for name, shape in shapes.items()}

  def _layer_weights(self, number: int) -> dict:
    config = self.config
    # A group has consecutive layers: 12 layers and 4 groups give 3 per group.
    group = number * config.num_hidden_groups // config.num_hidden_layers
    prefix = f"{self._scope}/encoder/{_GROUP.format(group)}"
    return {
      f"{bert_name}/{end}": weight
      for bert_name, albert_name in _LAYER_NAMES.items()
      for end, weight in self.weights_below(f"{prefix}/{albert_name}/").items()
    }
