"""Which layers are trained, and at which rate."""

import re
from collections.abc import Iterable

from common import errors


def layer_of(name: str, num_layers: int) -> int:
  """Returns the depth of the variable with this name.

  It is 0 for the embeddings, i + 1 for encoder layer i (from 0), and
  num_layers + 1 for the pooler and every head. The encoder's other weights,
  such as shared layers, have the depth of the last layer.
  """
  if re.search(r"(^|/)embeddings(_project)?/", name):
    return 0
  layer = re.search(r"(^|/)encoder/layer_(\d+)/", name)
  if layer:
    return int(layer.group(2)) + 1
  return num_layers + (not re.search(r"(^|/)encoder/", name))


def learning_rate_multipliers(
  names: Iterable[str], num_layers: int, decay: float
) -> dict[str, float]:
  """Returns factors for layer-wise rate decay (ULMFiT, arXiv 1801.06146).

  The heads and the pooler have the factor 1, the last encoder layer `decay`,
  the layer below it `decay` squared, and so on.
  """
  return {
    # 12 layers: heads 1, layer 11 decay, layer 0 decay^12, embeddings decay^13.
    name: decay ** (num_layers + 1 - layer_of(name, num_layers))
    for name in names
  }


def trainable_names(
  names: Iterable[str], num_layers: int, *, freeze_layers: int = 0
) -> list[str]:
  """Returns the names of the variables that stay trainable with frozen layers.

  Freezes the embeddings and the lowest `freeze_layers` encoder layers. 0
  freezes nothing; `num_layers` freezes all but the pooler and the heads. Raises
  InputError: freeze_layers is not from 0 to num_layers.
  """
  if not 0 <= freeze_layers <= num_layers:
    raise errors.InputError(
      f"cannot freeze {freeze_layers} layers of a model that has "
      f"{num_layers}; give a number from 0 to {num_layers}"
    )
  # The embeddings have depth 0 and layer i depth i + 1.
  lowest = freeze_layers + 1 if freeze_layers else 0
  return [name for name in names if layer_of(name, num_layers) >= lowest]
