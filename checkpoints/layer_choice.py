"""Keeps some of a model's layers, as the start of a smaller model.

DistilBERT starts from every other layer of its teacher (arXiv 1910.01108,
section 3); all other weights stay as they are.
"""

import copy
import re
from collections.abc import Sequence

import numpy as np

import configuration
from checkpoints import converter, weight_names
from common import errors
from variants import registry

_LAYER = re.compile(r"(?<=/encoder/layer_)\d+(?=/)")


class _ShallowReader(weight_names.Reader):
  """Reads some layers of a checkpoint under new numbers."""

  def __init__(self, reader: weight_names.Reader, layers: Sequence[int]):
    """`layers` are the numbers of the kept layers, in their new order."""
    vars(self).update(vars(reader))
    self._old, self._old_names = reader, {}
    for name in reader.shapes:
      match = _LAYER.search(name)
      if not match:
        self._old_names[name] = name
      elif int(match[0]) in layers:
        number = str(layers.index(int(match[0])))
        self._old_names[_LAYER.sub(number, name)] = name
    self.shapes = {
      name: reader.shapes[old] for name, old in self._old_names.items()
    }

  def read(self, tf1: str) -> np.ndarray:
    """Returns the value of a variable of the smaller model."""
    return self._old.read(self._old_names[tf1])


def keep(source: converter.Source, texts: Sequence[str]) -> converter.Source:
  """Returns the model with the layers whose numbers `texts` has, from 0.

  Raises InputError: they are not ascending numbers of the model's layers, or
  the model's layers share their weights.
  """
  config, depth = source.config, source.config.num_hidden_layers
  if getattr(registry.encoder_class(config), "shares_layers", False):
    raise errors.InputError(
      f"--keep_layers: the layers of {registry.name_of(config)} share their "
      "weights; change num_hidden_layers in its configuration instead"
    )
  numbers = [int(text) if text.isdecimal() else -1 for text in texts]
  if numbers != sorted(set(numbers)) or not 0 <= numbers[0] <= numbers[-1] < (
    depth
  ):
    raise errors.InputError(
      f"--keep_layers={','.join(texts)}: expected ascending numbers from 0 to "
      f"{depth - 1}, such as {','.join(map(str, range(0, depth, 2)))}"
    )
  if registry.layers_differ(config):
    raise errors.InputError(
      f"--keep_layers: a layer of {registry.name_of(config)} cannot take "
      "another's place: some attend to the whole text, others to near tokens"
    )
  values = {**config.to_dict(), "num_hidden_layers": len(numbers)}
  return source._replace(
    reader=_ShallowReader(source.reader, numbers),
    config=configuration.BertConfig.from_dict(copy.deepcopy(values)),
  )
