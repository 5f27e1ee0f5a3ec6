"""The nearest vectors are as in plain NumPy, however they are cut."""

import numpy as np
import pytest

from features import text_vectors, vector_search

_RNG = np.random.default_rng(0)
VECTORS = _RNG.normal(size=(23, 5)) * _RNG.uniform(0.1, 9, size=(23, 1))
QUERIES = _RNG.normal(size=(7, 5))


def expected(queries, top_k, *, is_itself=False):
  """Returns (numbers, cosines) by float64 and a sort of everything."""
  cosines = np.stack([
    text_vectors.cosines(np.tile(query, (len(VECTORS), 1)), VECTORS)
    for query in queries
  ])
  if is_itself:
    np.fill_diagonal(cosines, -np.inf)
  numbers = np.argsort(-cosines, axis=1)[:, :top_k]
  return numbers, np.take_along_axis(cosines, numbers, 1)


def assert_equal(found, numbers, cosines):
  np.testing.assert_array_equal(found[0], numbers)
  np.testing.assert_allclose(found[1], cosines, rtol=0, atol=1e-6)
  assert (found[0].dtype, found[1].dtype) == (np.int64, np.float32)


@pytest.mark.parametrize("rows, columns", [(512, 8192), (2, 3), (3, 7), (7, 1)])
@pytest.mark.parametrize("top_k", [1, 4, 22])
def test_blocks_make_no_difference(rows, columns, top_k, monkeypatch):
  monkeypatch.setattr(vector_search, "_QUERIES", rows)
  monkeypatch.setattr(vector_search, "_VECTORS", columns)
  blocks = np.split(VECTORS, [4, 4, 11, 12])
  found = vector_search.nearest(QUERIES, iter(blocks), top_k)
  assert_equal(found, *expected(QUERIES, top_k))
  found = vector_search.nearest(VECTORS, blocks, top_k, is_itself=True)
  assert_equal(found, *expected(VECTORS, top_k, is_itself=True))
  assert not (found[0] == np.arange(23)[:, None]).any()


def test_equal_ones_zeros_and_none():
  vectors = np.array([[0, 0], [2, 0], [0, 1], [5, 0]], np.float32)
  found = vector_search.nearest(np.array([[3.0, 0]]), [vectors], 4)
  assert found[0].tolist() == [[1, 3, 0, 2]]
  assert found[1].tolist() == [[1, 1, 0, 0]]
  alone = vector_search.nearest(vectors[:1], [vectors[:1]], 0, is_itself=True)
  assert alone[0].shape == (1, 0)
  none = vector_search.nearest(np.zeros([0, 2]), [vectors], 2)
  assert none[1].shape == (0, 2)


def test_results_have_the_texts():
  results = vector_search.described(
    np.array([[1, 0]]), np.array([[0.5, 0.25]]), ["a", "b"]
  )
  assert results == [[
    {"line": 1, "text": "b", "cosine": 0.5},
    {"line": 0, "text": "a", "cosine": 0.25},
  ]]
