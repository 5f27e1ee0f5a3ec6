"""ALBERT (arXiv 1909.11942): a narrow table of words, layers that are shared.

The variables have the names of the released TF1 checkpoints. All layers of a
group are computed with one set of weights; released models have one group.

E is the width of the embeddings, H that of the hidden states.
"""

import dataclasses
import re

import layers
import modeling

# BERT's name below "layer_<n>/" -> ALBERT's below "inner_group_0/".
_LAYER_NAMES = {
  "attention/self": "attention_1/self",
  "attention/output/dense": "attention_1/output/dense",
  "attention/output/LayerNorm": "LayerNorm",
  "intermediate/dense": "ffn_1/intermediate/dense",
  "output/dense": "ffn_1/intermediate/output/dense",
  "output/LayerNorm": "LayerNorm_1",
}
_GROUP = "transformer/group_{}/inner_group_0"
MAPPING = "embedding_hidden_mapping_in"


def tf1_name(berts: str) -> str:
  """Returns ALBERT's name of a variable of BERT, whose layer is its group."""
  return re.sub(
    rf"encoder/layer_(\d+)/({'|'.join(_LAYER_NAMES)})/",
    lambda m: f"encoder/{_GROUP.format(m[1])}/{_LAYER_NAMES[m[2]]}/", berts,
  )


class AlbertModel(modeling.BertModel):
  """The encoder; `embedding_output` is what the first layer reads, [B, T, H].

  Its configuration has embedding_size, E, and num_hidden_groups too.
  """

  shares_layers = True

  def __init__(self, config, **options):
    """Makes the variables; the options are those of modeling.BertModel."""
    super().__init__(config, **options)
    config.check_number(
      "num_hidden_groups", int, low=1, below=config.num_hidden_layers + 1
    )

  @staticmethod
  def shapes(config, scope="bert"):
    """Returns {name: shape}: E wide embeddings, one layer for each group.

    Raises InputError: the configuration lacks a number of ALBERT's, or it
    cannot be used.
    """
    for name in ("embedding_size", "num_hidden_groups"):
      config.check_number(name, int, low=1)
    groups = dataclasses.replace(
      config, num_hidden_layers=config.num_hidden_groups
    )
    narrow, shapes = config.embedding_size, {}
    for name, shape in modeling.bert_shapes(groups, scope).items():
      # Tables [rows, E], and vectors [E] of the layer norm.
      if name.startswith(f"{scope}/embeddings/"):
        shape = (*shape[:-1], narrow)
      shapes[tf1_name(name)] = shape
      # Before the first layer, as in the released files.
      if name == f"{scope}/embeddings/LayerNorm/gamma":
        shapes |= layers.dense_shapes(
          f"{scope}/encoder/{MAPPING}", narrow, config.hidden_size
        )
    return shapes

  def _embed(self, *arguments):
    narrow = super()._embed(*arguments)  # [S, E]
    weights = self._under(f"{self._scope}/encoder/")
    return layers.dense(narrow, weights, MAPPING)

  def _layer_weights(self, number):
    config = self.config
    # Consecutive layers share a group: 12 layers in 4 groups are 3 by 3.
    group = number * config.num_hidden_groups // config.num_hidden_layers
    place = f"{self._scope}/encoder/{_GROUP.format(group)}"
    return {
      f"{berts}/{end}": weight
      for berts, own in _LAYER_NAMES.items()
      for end, weight in self._under(f"{place}/{own}/").items()
    }
