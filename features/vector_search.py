"""Finds the vectors with the largest cosines, block after block. No TensorFlow.

Letters: Q queries, N vectors that are searched, K results, D width.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

# Their products, 16 MB, and the sorting of these are in memory at a time.
_QUERIES, _VECTORS = 512, 8192


def nearest(
  queries: np.ndarray, blocks: Iterable[np.ndarray], top_k: int, *,
  is_itself: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
  """Returns (numbers int64 [Q, K], cosines float32 [Q, K]), the largest first.

  Of equal cosines the lower number comes first. A vector of zeros has the
  cosine 0 with any other.

  Args:
    queries: floats [Q, D].
    blocks: arrays [n, D] of the vectors, whose n add up to N.
    top_k: K; at most N, and N - 1 with `is_itself`.
    is_itself: whether the queries are the vectors; query 3 then never gets
      number 3.
  """
  queries, start = _of_length_one(queries), 0
  numbers = np.zeros([len(queries), top_k], np.int64)
  cosines = np.full([len(queries), top_k], -np.inf, np.float32)
  for vectors in _cut(blocks) if top_k else ():
    for first in range(0, len(queries), _QUERIES):
      part = slice(first, first + _QUERIES)
      products = queries[part] @ vectors.T  # [q, n]
      if is_itself:
        ends = first + len(products), start + len(vectors)
        both = np.arange(max(first, start), min(ends))
        products[both - first, both - start] = -np.inf
      products = np.concatenate([cosines[part], products], 1)
      best = np.argpartition(products, -top_k, axis=1)[:, -top_k:]  # [q, K]
      cosines[part] = np.take_along_axis(products, best, 1)
      before = np.take_along_axis(
        numbers[part], np.minimum(best, top_k - 1), 1
      )
      numbers[part] = np.where(best < top_k, before, best - top_k + start)
    start += len(vectors)
  order = np.lexsort((numbers, -cosines))
  return (
    np.take_along_axis(numbers, order, 1), np.take_along_axis(cosines, order, 1)
  )


def described(
  numbers: np.ndarray, cosines: np.ndarray,
  texts: Sequence[str] | Mapping[int, str],
) -> list[list[dict]]:
  """Returns [Q][K] dicts of `line`, its `text` and `cosine`.

  `texts` has the text of each number in `numbers` [Q, K].
  """
  return [
    [
      {"line": number, "text": texts[number], "cosine": cosine}
      for number, cosine in zip(*row)
    ]
    for row in zip(numbers.tolist(), cosines.tolist())
  ]


def _cut(blocks):
  for block in blocks:
    for start in range(0, len(block), _VECTORS):
      yield _of_length_one(block[start : start + _VECTORS])


def _of_length_one(vectors):
  vectors = np.asarray(vectors, np.float32)
  lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
  return vectors / np.where(lengths > 0, lengths, 1)
