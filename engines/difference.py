"""How far the outputs of two programs that compute one network are apart."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np


class Difference(NamedTuple):
  """Of rows of outputs, as shares of the typical length of a row.

  A row is a text's vector or logits, or those of one of its tokens.
  """

  largest: float
  mean: float


def measure(
  compute: Callable, other: Callable, batches: Iterable[dict]
) -> Difference:
  """Compares what two functions give, such as `run` of an engine.

  Args:
    compute, other: functions of integers [B, T], by the names in batches, that
      return arrays by name.
    batches: input_ids, input_mask and segment_ids, without padding.
  """
  lengths, distances = [], []
  for batch in batches:
    expected, found = compute(**batch), other(**batch)
    for name, rows in expected.items():
      # The states are in the vector, the last one.
      if name != "last_hidden_state":
        rows = rows.reshape(-1, rows.shape[-1])
        lengths.append(np.linalg.norm(rows, axis=1))
        others = found[name].reshape(rows.shape)
        distances.append(np.linalg.norm(others - rows, axis=1))
  typical = np.sqrt(np.mean(np.square(np.concatenate(lengths))))
  shares = np.concatenate(distances) / typical
  return Difference(float(shares.max()), float(shares.mean()))
