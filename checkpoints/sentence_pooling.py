"""Settings for pooling hidden states into a vector. No TensorFlow."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from common import errors, run_settings


def layer_number(text: str, depth: int, named: str) -> int:
  """Parses the number of a layer from `text`.

  Raises InputError: `text` is not a number, or a model with `depth` layers
  lacks the layer. The message begins with `named`, the flag and its value.
  """
  # As in the original: negative numbers count from the last layer.
  is_number = text.strip().removeprefix("-").isdecimal()
  if not is_number or not -depth <= int(text) < depth:
    raise errors.InputError(
      f"{named}: {text!r} is not a layer of this model, which has {depth}; "
      f"the valid numbers are -{depth} to {depth - 1}"
    )
  return int(text)


def by_word(vector: np.ndarray, words: Sequence[str]) -> dict[str, float]:
  """Returns {token: weight} for the nonzero weights in a vector [V], sorted.

  The largest come first. With a padded embedding table, V exceeds len(words).
  """
  ids = np.flatnonzero(vector[: len(words)])
  order = ids[np.argsort(-vector[ids], kind="stable")]
  return {words[token_id]: float(vector[token_id]) for token_id in order}


class Pooling(NamedTuple):
  """Settings for pooling hidden states into a vector [D]; see heads.pool.

  Attributes:
    mode: "cls": the state of [CLS]. "mean", "max": over the states of all
      tokens, including [CLS] and [SEP]. "pooled": the output of the pooler, a
      dense tanh layer on the last state of [CLS].
    layers: each entry lists layers whose states are summed; the sums are
      concatenated, D = H * entries.
    normalize: whether to scale vectors to length 1.
  """

  mode: str
  layers: tuple[tuple[int, ...], ...] = ((-1,),)
  normalize: bool = False

  @classmethod
  def of(cls, settings: run_settings.Settings, depth: int) -> "Pooling":
    """Returns the Pooling for --pooling, --pooling_layer and --normalize.

    Args:
      depth: number of layers in the model.

    Raises:
      InputError: the flags name a layer that the model lacks.
    """
    mode, numbers = settings.pooling, settings.pooling_layer
    # Python code may pass a single layer as a number.
    numbers = numbers if isinstance(numbers, (list, tuple)) else [numbers]
    texts = [str(each) for each in numbers] or [""]
    named = f"--pooling_layer={','.join(texts)}"
    if mode == "last_four_concat":
      named = f"--pooling={mode}"
      mode, texts = "mean", ["-1", "-2", "-3", "-4"]
    layers = tuple(
      tuple(layer_number(each, depth, named) for each in text.split("+"))
      for text in texts
    )
    return cls(mode, layers, settings.normalize)

  def width(self, hidden_size: int) -> int:
    """Returns D."""
    return hidden_size * len(self.layers)
