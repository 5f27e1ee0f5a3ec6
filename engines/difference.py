"""Measures how much the outputs of two engines for one network differ."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np


class Difference(NamedTuple):
  """Distances between output rows, relative to the typical length of a row.

  A row is the vector or the logits of a text or of one of its tokens.
  """

  largest: float
  mean: float


def measure(
  compute: Callable, other: Callable, batches: Iterable[dict]
) -> Difference:
  """Compares the outputs of two functions, such as `run` of an engine.

  Args:
    compute, other: functions of integers [B, T], named as in the batches, that
      return {name: array}.
    batches: input_ids, input_mask and segment_ids, without padding.
  """
  lengths, distances = [], []
  for batch in batches:
    expected, computed = compute(**batch), other(**batch)
    for name, rows in expected.items():
      # The vector depends on the hidden states, so comparing it is enough.
      if name != "last_hidden_state":
        rows = rows.reshape(-1, rows.shape[-1])
        lengths.append(np.linalg.norm(rows, axis=1))
        others = computed[name].reshape(rows.shape)
        distances.append(np.linalg.norm(others - rows, axis=1))
  typical = np.sqrt(np.mean(np.square(np.concatenate(lengths))))
  shares = np.concatenate(distances) / typical
  return Difference(float(shares.max()), float(shares.mean()))
