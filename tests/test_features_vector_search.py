"""Compares the nearest vectors with plain NumPy, for several block sizes."""

import contextlib
import io
import re
import zipfile

import numpy as np
import pytest

from common import errors
from features import vector_search
from message_facts import says

_RNG = np.random.default_rng(0)
VECTORS = _RNG.normal(size=(23, 5)) * _RNG.uniform(0.1, 9, size=(23, 1))
QUERIES = _RNG.normal(size=(7, 5))
LINES = [f"line {number}" for number in range(23)]


def check(results, queries, top_k, *, is_itself=False):
  """Compares results with a full sort of all cosines in float64."""
  cosines = np.stack(
    [
      vector_search.cosines(np.tile(query, (len(VECTORS), 1)), VECTORS)
      for query in queries
    ]
  )
  if is_itself:
    np.fill_diagonal(cosines, -np.inf)
  line_numbers = np.argsort(-cosines, axis=1)[:, :top_k]
  expected = np.take_along_axis(cosines, line_numbers, 1)
  for row, lines, values in zip(results, line_numbers, expected, strict=True):
    assert [result["line"] for result in row] == lines.tolist()
    assert [result["text"] for result in row] == [LINES[n] for n in lines]
    np.testing.assert_allclose(
      [result["cosine"] for result in row], values, rtol=0, atol=2e-6
    )


@pytest.mark.parametrize("products", [1, 40, 1 << 22])
@pytest.mark.parametrize("top_k", [1, 4, 22])
def test_blocks_make_no_difference(products, top_k, monkeypatch):
  monkeypatch.setattr(vector_search, "_BLOCK_COSINES", products)
  results = vector_search.search(VECTORS, LINES, top_k, QUERIES)
  check(results, QUERIES, top_k)
  results = vector_search.search(VECTORS, LINES, top_k)
  check(results, VECTORS, top_k, is_itself=True)


def test_equal_cosines_zero_vectors_and_few_vectors():
  vectors = np.array([[0, 0], [2, 0], [0, 1], [5, 0]], np.float32)
  (results,) = vector_search.search(vectors, "abcd", 9, np.array([[3.0, 0]]))
  assert [tuple(result.values()) for result in results] == [
    (1, "b", 1.0),
    (3, "d", 1.0),
    (0, "a", 0.0),
    (2, "c", 0.0),
  ]
  assert vector_search.search(vectors[:1], "a", 3) == [[]]
  assert vector_search.search(vectors, "abcd", 3, np.zeros([0, 2])) == []


def test_stored_vectors_are_loaded(tmp_path):
  path = str(tmp_path / "a.npz")
  sequences = [[n, 2 * n] for n in range(23)]
  np.savez(path, vectors=VECTORS)  # The format of earlier versions.
  np.testing.assert_array_equal(vector_search.read(path, sequences), VECTORS)
  vector_search.check(VECTORS, 23, VECTORS[0] * 3, path)
  checksums = vector_search.checksums(sequences)
  np.savez(path, vectors=VECTORS, checksums=checksums)
  np.testing.assert_array_equal(vector_search.read(path, sequences), VECTORS)
  np.testing.assert_array_equal(vector_search.read(path), VECTORS)
  sequences[7] = [7, 13]
  with pytest.raises(errors.InputError, match="a.npz has .* text for line 8;"):
    vector_search.read(path, sequences)


@pytest.mark.parametrize(
  "count, first, message",
  [
    (22, VECTORS[0], r"vectors of shape \(23, 5\), expected \(22, 5\)"),
    (23, VECTORS[0, :4], r"vectors of shape \(23, 5\), expected \(23, 4\)"),
    (
      23,
      VECTORS[1],
      "a different vector for the first line than this model computes",
    ),
  ],
)
def test_vectors_that_do_not_fit_are_refused(count, first, message):
  with pytest.raises(errors.InputError, match=f"a.npz has {message}; pass"):
    vector_search.check(VECTORS, count, first, "a.npz")


@pytest.mark.parametrize("cosine, fits", [(0.9995, True), (0.9985, False)])
def test_a_batch_or_an_export_may_change_vectors_slightly(cosine, fits):
  vectors = np.array([[4.0, 0.0], [1.0, 1.0]])
  first = np.array([cosine, (1 - cosine**2) ** 0.5])
  if fits:
    vector_search.check(vectors, 2, first, "a.npz")
    return
  with pytest.raises(errors.InputError, match="first line"):
    vector_search.check(vectors, 2, first, "a.npz")


def test_empty_lines_are_counted_and_read(tmp_path, caplog):
  path = tmp_path / "lines.txt"
  path.write_bytes(b"a\r\n\n \nb ")
  assert vector_search.read_texts(str(path)) == ["a", "", " ", "b "]
  assert re.search(says(str(path), "2", "empty"), caplog.text)
  caplog.clear()
  path.write_text("a\nb\n")
  assert vector_search.read_texts(str(path)) == ["a", "b"]
  assert not caplog.text


def changed(value):
  vectors = VECTORS.copy()
  vectors[[4, 17], 2] = value
  return vectors


@pytest.mark.parametrize(
  "vectors, facts",
  [
    (changed(np.nan), ["infinite values in 2 vectors", "line 5"]),
    (changed(-np.inf), ["infinite values in 2 vectors", "line 5"]),
    (VECTORS.astype(str), ["has <U", "expected floats"]),
    (VECTORS.astype(int), ["has int64 values"]),
  ],
)
def test_every_value_must_be_a_finite_float(vectors, facts):
  with pytest.raises(errors.InputError) as raised:
    vector_search.check(vectors, 23, VECTORS[0], "a.npz")
  assert all(fact in str(raised.value) for fact in facts)


@pytest.mark.parametrize("content", [b"", b"{}", b"PK\x03\x04", None])
def test_a_file_without_vectors(content, tmp_path):
  path = tmp_path / "a.npz"
  if content is None:
    np.savez(path, similarities=np.zeros(3))
  else:
    path.write_bytes(content)
  with pytest.raises(errors.InputError, match=says("a.npz", "no", "readable")):
    vector_search.read(str(path), [[1]] * 3)


def test_every_damage_of_a_compressed_file_is_one_sentence(tmp_path):
  path = tmp_path / "a.npz"
  np.savez_compressed(path, vectors=VECTORS, checksums=np.arange(23))
  whole = path.read_bytes()
  for place in range(0, len(whole), 7):
    content = bytearray(whole)
    content[place] ^= 0x55
    path.write_bytes(content)
    with contextlib.suppress(errors.InputError):
      vector_search.read(str(path))


def test_a_header_with_an_impossible_size_is_one_sentence(tmp_path):
  path = tmp_path / "a.npz"
  array = io.BytesIO()
  np.lib.format.write_array_header_1_0(
    array, {"descr": "<f4", "fortran_order": False, "shape": (1 << 62, 4)}
  )
  with zipfile.ZipFile(path, "w") as archive:
    archive.writestr("vectors.npy", array.getvalue())
  with pytest.raises(errors.InputError, match=says("a.npz", "no", "readable")):
    vector_search.read(str(path))
