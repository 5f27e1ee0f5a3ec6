"""ALBERT (arXiv 1909.11942): a narrow table of words, layers that are shared.

The variables have the names of the released TF1 checkpoints. All layers of a
group are computed with one set of weights; released models have one group.

E is the width of the embeddings, H that of the hidden states.
"""

import copy
import re

import layers
import modeling
from common import errors

# BERT's name below "layer_<n>/" -> ALBERT's below "inner_group_0/".
_LAYER_NAMES = {
  "attention/self": "attention_1/self",
  "attention/output/dense": "attention_1/output/dense",
  "attention/output/LayerNorm": "LayerNorm",
  "intermediate/dense": "ffn_1/intermediate/dense",
  "output/dense": "ffn_1/intermediate/output/dense",
  "output/LayerNorm": "LayerNorm_1",
}
MAPPING = "embedding_hidden_mapping_in"


def tf1_name(name: str) -> str:
  """Returns ALBERT's name of a variable of BERT, whose layer is its group."""
  match = re.search(r"/encoder/layer_(\d+)/", name)
  if not match:
    return name
  rest = name[match.end():]
  for berts, own in _LAYER_NAMES.items():
    if rest.startswith(f"{berts}/"):
      rest = own + rest.removeprefix(berts)
      break
  # bert/encoder/layer_0/output/dense/kernel becomes bert/encoder/transformer/
  # group_0/inner_group_0/ffn_1/intermediate/output/dense/kernel.
  group = f"/encoder/transformer/group_{match[1]}/inner_group_0/"
  return name[: match.start()] + group + rest


class AlbertModel(modeling.BertModel):
  """The encoder; `embedding_output` is what the first layer reads, [B, T, H].

  Its configuration has embedding_size, E, and num_hidden_groups too.
  """

  shares_layers = True

  def __init__(self, config, **options):
    """Makes the variables; the options are those of modeling.BertModel."""
    super().__init__(config, **options)
    if config.num_hidden_groups > config.num_hidden_layers:
      raise errors.InputError(
        f"num_hidden_groups {config.num_hidden_groups} is more than "
        f"num_hidden_layers {config.num_hidden_layers} in the model "
        "configuration; make it at most that"
      )

  @staticmethod
  def shapes(config, scope="bert"):
    """Returns {name: shape}: E wide embeddings, one layer for each group.

    Raises:
      InputError: the configuration lacks a number of ALBERT's, or it cannot
        be used.
    """
    _check(config)
    groups = copy.copy(config)
    groups.num_hidden_layers = config.num_hidden_groups
    width, narrow = config.hidden_size, config.embedding_size
    shapes, mapping = {}, f"{scope}/encoder/{MAPPING}"
    for name, shape in modeling.bert_shapes(groups, scope).items():
      # Tables [rows, E], and vectors [E] of the layer norm.
      if name.startswith(f"{scope}/embeddings/"):
        shape = (*shape[:-1], narrow)
      # Once, between embeddings and the first layer, as in the released files.
      elif f"{mapping}/kernel" not in shapes:
        shapes[f"{mapping}/kernel"] = (narrow, width)
        shapes[f"{mapping}/bias"] = (width,)
      shapes[tf1_name(name)] = shape
    return shapes

  def _embed(self, *arguments):
    # [S, E]
    narrow = super()._embed(*arguments)
    return layers.dense(narrow, self._under(f"{self._scope}/encoder/"), MAPPING)

  def _layer_weights(self, number):
    config = self.config
    # Consecutive layers share a group: 12 layers in 4 groups are 3 by 3.
    group = number * config.num_hidden_groups // config.num_hidden_layers
    place = f"{self._scope}/encoder/transformer/group_{group}/inner_group_0"
    return {
      f"{berts}/{end}": weight
      for berts, own in _LAYER_NAMES.items()
      for end, weight in self._under(f"{place}/{own}/").items()
    }


def _check(config):
  for name in ("embedding_size", "num_hidden_groups"):
    if not hasattr(config, name):
      raise errors.InputError(
        f"the model configuration is of ALBERT and has no {name}; add it"
      )
    config.check_number(name, int, low=1)
