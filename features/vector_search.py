"""Finds the vectors with the largest cosines, in blocks. No TensorFlow.

Letters: Q queries, N lines of text (with one vector each), K results per query,
D width.
"""

import zipfile
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from common import errors, file_io

# Number of cosines in memory at a time, 16 MB.
_BLOCK_COSINES = 1 << 22
# Two vectors of one text may differ slightly, because of the batch or an int8
# export, but a cosine below this means a different text or model.
_MIN_COSINE = 0.999


def cosines(a: npt.ArrayLike, b: npt.ArrayLike) -> np.ndarray:
  """Returns the cosine of each row of `a` and the same row of `b`, float64 [N].

  `a` and `b` are [N, D]. The cosine with a zero vector is 0.
  """
  a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
  norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
  # If a norm is 0, the numerator is also 0, so the result is 0 / 1.
  return (a * b).sum(1) / np.where(norms > 0, norms, 1)


def search(
  vectors: np.ndarray,
  lines: Sequence,
  top_k: int,
  queries: np.ndarray | None = None,
) -> list[list[dict]]:
  """Returns Q lists of K dicts {"line", "text", "cosine"}, the nearest first.

  Results with equal cosines are sorted by line number. The cosine with a zero
  vector is 0.

  Args:
    vectors: float [N, D].
    lines: the N texts.
    top_k: K; there are fewer results if there are fewer lines.
    queries: float [Q, D]; None: every line is a query, and not its own result.
  """
  excludes_self = queries is None
  unit_queries = _unit(vectors if queries is None else queries)
  top_k = min(top_k, len(lines) - excludes_self)
  best_lines = np.zeros([len(unit_queries), top_k], np.int64)
  cosines = np.full([len(unit_queries), top_k], -np.inf, np.float32)
  step = max(1, _BLOCK_COSINES // max(1, len(unit_queries)))
  for start in range(0, len(lines) if top_k else 0, step):
    products = unit_queries @ _unit(vectors[start : start + step]).T
    if excludes_self:
      np.fill_diagonal(products[start:], -np.inf)
    block_lines = np.arange(start, start + products.shape[1])
    block_lines = np.broadcast_to(block_lines, products.shape)
    products = np.concatenate([cosines, products], 1)
    best = np.argpartition(products, -top_k, 1)[:, -top_k:]
    cosines = np.take_along_axis(products, best, 1)
    candidates = np.concatenate([best_lines, block_lines], 1)
    best_lines = np.take_along_axis(candidates, best, 1)
  return [
    [
      {"line": number, "text": lines[number], "cosine": round(-opposite, 6)}
      for opposite, number in sorted(zip(*row))
    ]
    for row in zip((-cosines).tolist(), best_lines.tolist())
  ]


def read_texts(path: str) -> list[str]:
  """Returns the lines of a text file; warns if some are empty."""
  texts = [line.rstrip("\r") for _, line in file_io.read_lines(path)]
  if empty := sum(not text.strip() for text in texts):
    errors.warn_once(f"{path}: the search includes {empty} empty line(s)")
  return texts


# The errors that NumPy raises for a file that is damaged, is not an .npz file,
# or has a header with an impossible size.
_DAMAGE = (
  zipfile.BadZipFile,
  zlib.error,
  EOFError,
  LookupError,
  MemoryError,
  NotImplementedError,
  OSError,  # A damaged offset.
  OverflowError,
  RuntimeError,
  ValueError,
)


def checksums(sequences: Iterable) -> np.ndarray:
  """Returns a checksum of each line's token ids, uint32 [N]."""
  values = [zlib.crc32(np.array(ids, np.int32).tobytes()) for ids in sequences]
  return np.array(values, np.uint32)


def read(path: str, sequences: Iterable = ()) -> np.ndarray:
  """Returns the `vectors` [N, D] of an .npz file.

  `sequences` are the token ids of the current lines. If they are given and the
  file has checksums (earlier versions wrote none), the checksums are compared.
  Raises InputError: no such file, no vectors in it, or a checksum differs.
  """
  try:
    with file_io.open_for_reading(path) as stream:
      arrays = np.load(stream)
      vectors, stored = arrays["vectors"], arrays.get("checksums", ())
  except _DAMAGE as error:
    raise errors.InputError(
      f"{path} has no readable vectors ({error}); pass the .npz that --search "
      "wrote to --output_file"
    ) from error
  expected = checksums(sequences)
  # Nothing to compare, or a different number of lines, which `check` reports.
  if len(stored) != len(expected):
    return vectors
  changed = np.flatnonzero(stored != expected)
  if changed.size:
    raise errors.InputError(
      f"{path} has the vector of a different text for line {changed[0] + 1}; "
      "pass vectors that were computed from these lines"
    )
  return vectors


def check(
  vectors: np.ndarray, count: int, first: np.ndarray, source: str
) -> None:
  """Raises InputError if vectors belong to different lines or another model.

  It also refuses values that are not finite floats.

  Args:
    count: N.
    first: float [D], the first line's vector, computed by the current model.
    source: name of the vectors' source, for the message.
  """
  shape, expected = np.shape(vectors), (count, len(first))
  if shape != expected:
    fault = f"has vectors of shape {shape}, expected {expected}"
  elif not np.issubdtype(np.asarray(vectors).dtype, np.floating):
    fault = f"has {np.asarray(vectors).dtype} values, expected floats"
  elif (bad := np.flatnonzero(~np.isfinite(vectors).all(axis=1))).size:
    fault = (
      f"has nan or infinite values in {bad.size} vectors, the first for line "
      f"{bad[0] + 1}"
    )
  elif not _unit(vectors[:1])[0] @ _unit([first])[0] > _MIN_COSINE:
    fault = "has a different vector for the first line than this model computes"
  else:
    return
  raise errors.InputError(
    f"{source} {fault}; pass vectors of these lines from this model"
  )


def _unit(vectors: Any) -> np.ndarray:
  vectors = np.asarray(vectors, np.float32)
  norms = np.linalg.norm(vectors, axis=1, keepdims=True)
  return vectors / np.where(norms > 0, norms, 1)
