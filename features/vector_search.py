"""Searches the vectors with the largest cosines, in blocks. No TensorFlow.

Letters: Q queries, N vectors of lines, K results, D width.
"""

import zipfile
import zlib
from collections.abc import Iterable, Sequence

import numpy as np

from common import errors, file_io

# Number of products in memory at a time, 16 MB.
_PRODUCTS = 1 << 22
# Least cosine of a text's vectors from different batches, or from int8.
_SAME = 0.999


def search(
  vectors: np.ndarray,
  lines: Sequence,
  top_k: int,
  queries: np.ndarray | None = None,
) -> list[list[dict]]:
  """Returns [Q][K] dicts of `line`, `text` and `cosine`, the largest first.

  For equal cosines, the lower line number comes first. A vector of zeros has
  the cosine 0 with any other.

  Args:
    vectors: floats [N, D] of the N lines.
    top_k: K; results are fewer if there are fewer lines.
    queries: floats [Q, D]; None uses `vectors` as queries, and then a line is
      never its own result.
  """
  is_itself = queries is None
  unit = _of_length_one(vectors if queries is None else queries)
  top_k = min(top_k, len(lines) - is_itself)
  numbers = np.zeros([len(unit), top_k], np.int64)
  cosines = np.full([len(unit), top_k], -np.inf, np.float32)
  step = max(1, _PRODUCTS // max(1, len(unit)))
  for start in range(0, len(lines) if top_k else 0, step):
    products = unit @ _of_length_one(vectors[start : start + step]).T
    if is_itself:
      np.fill_diagonal(products[start:], -np.inf)
    places = np.arange(start, start + products.shape[1])
    places = np.broadcast_to(places, products.shape)
    products = np.concatenate([cosines, products], 1)
    best = np.argpartition(products, -top_k, 1)[:, -top_k:]
    cosines = np.take_along_axis(products, best, 1)
    places = np.concatenate([numbers, places], 1)
    numbers = np.take_along_axis(places, best, 1)
  return [
    [
      {"line": number, "text": lines[number], "cosine": round(-opposite, 6)}
      for opposite, number in sorted(zip(*row))
    ]
    for row in zip((-cosines).tolist(), numbers.tolist())
  ]


def read_texts(path: str) -> list[str]:
  """Returns the lines of a text file, and warns of empty ones."""
  texts = [line.rstrip("\r") for _, line in file_io.read_lines(path)]
  if empty := sum(not text.strip() for text in texts):
    errors.warn_once(f"{path}: {empty} empty lines take part in the search")
  return texts


def checksums(sequences: Iterable) -> np.ndarray:
  """Returns uint32 [N], a checksum of the ids of each line."""
  return np.array(
    [zlib.crc32(np.array(ids, np.int32).tobytes()) for ids in sequences],
    np.uint32,
  )


def read(path: str, sequences: Iterable = ()) -> np.ndarray:
  """Returns the `vectors` [N, D] of an .npz file.

  Raises InputError: the file has no vectors, or its `checksums` differ from the
  checksums of `sequences`, the ids of the current lines, if given. Files of
  earlier versions have no checksums.
  """
  try:
    with file_io.open_for_reading(path) as stream:
      arrays = np.load(stream)
      vectors, stored = arrays["vectors"], arrays.get("checksums", ())
  except (zipfile.BadZipFile, EOFError, LookupError, ValueError) as error:
    raise errors.InputError(
      f"{path} has no readable vectors ({error}); pass the .npz that --search "
      "wrote to --output_file"
    ) from error
  expected = checksums(sequences)
  if len(stored) != len(expected):  # `check` compares the numbers of lines.
    return vectors
  others = np.flatnonzero(stored != expected)
  if others.size:
    raise errors.InputError(
      f"{path} has the vector of another text for line {others[0] + 1}; pass "
      "the vectors of these lines"
    )
  return vectors


def check(vectors: np.ndarray, count: int, first: np.ndarray, source: str):
  """Raises InputError for vectors of other lines or of another model.

  Args:
    count: N.
    first: floats [D], the first line's vector from the current model.
    source: the source of the vectors, for the error.
  """
  shape, expected = np.shape(vectors), (count, len(first))
  if shape != expected:
    fault = f"has vectors of the shape {shape}, not {expected}"
  elif not _of_length_one(vectors[:1])[0] @ _of_length_one([first])[0] > _SAME:
    fault = "has another vector of the first line than this model makes"
  else:
    return
  raise errors.InputError(
    f"{source} {fault}; pass the vectors of these lines by this model"
  )


def _of_length_one(vectors):
  vectors = np.asarray(vectors, np.float32)
  lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
  return vectors / np.where(lengths > 0, lengths, 1)
