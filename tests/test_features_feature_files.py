"""Tests of the files of vectors: what is written can be read back."""

import json
import os

import numpy as np
import pytest
import tensorflow as tf

from common import errors
from features import feature_files

_RNG = np.random.RandomState(0)
LAYERS = [-1, 2]
TOKENS = [
  feature_files.TokenRow(
    index, tokens, list(range(len(tokens))),
    _RNG.randn(2, len(tokens), 3).astype(np.float32),
  )
  for index, tokens in enumerate([["[CLS]", "Zürich", "[SEP]"], ["a\"b", "c"]])
]
VECTORS = [
  feature_files.VectorRow(index, _RNG.randn(3).astype(np.float32))
  for index in range(4)
]
SIMILARITIES = [
  feature_files.SimilarityRow(index, value)
  for index, value in enumerate([0.25, -1.0, 1 / 3])
]


def written(path, rows, layers=()):
  """Writes rows in two portions; returns the path as a string."""
  with feature_files.open_writer(
    str(path), path.suffix[1:], layers
  ) as write:
    write(rows[:1])
    write(rows[1:])
  assert [file.name for file in path.parent.iterdir()] == [path.name]
  return str(path)


def read_lines(path):
  with open(path, encoding="utf-8") as stream:
    return [json.loads(line) for line in stream]


def test_json_lines_of_tokens(tmp_path):
  found = read_lines(written(tmp_path / "a.jsonl", TOKENS, LAYERS))
  assert found == [
    {
      "linex_index": row.index,
      "features": [
        {
          "token": token,
          "layers": [
            {
              "index": layer,
              "values": [round(float(x), 6) for x in row.values[i, place]],
            }
            for i, layer in enumerate(LAYERS)
          ],
        }
        for place, token in enumerate(row.tokens)
      ],
    }
    for row in TOKENS
  ]


def test_json_lines_of_vectors_and_similarities(tmp_path):
  found = read_lines(written(tmp_path / "a.jsonl", VECTORS))
  assert [line["linex_index"] for line in found] == [0, 1, 2, 3]
  np.testing.assert_allclose(
    [line["vector"] for line in found],
    [row.vector for row in VECTORS],
    atol=5.1e-7,
  )
  (tmp_path / "a.jsonl").unlink()
  assert read_lines(written(tmp_path / "b.jsonl", SIMILARITIES)) == [
    {"linex_index": 0, "similarity": 0.25},
    {"linex_index": 1, "similarity": -1.0},
    {"linex_index": 2, "similarity": 0.333333},
  ]


def test_numpy_archive_of_tokens(tmp_path):
  found = np.load(written(tmp_path / "a.npz", TOKENS, LAYERS))
  assert sorted(found) == ["input_ids", "layers", "lengths", "values"]
  np.testing.assert_array_equal(found["layers"], LAYERS)
  np.testing.assert_array_equal(found["lengths"], [3, 2])
  np.testing.assert_array_equal(found["input_ids"], [0, 1, 2, 0, 1])
  first, second = np.split(found["values"], [3])
  np.testing.assert_array_equal(first.transpose(1, 0, 2), TOKENS[0].values)
  np.testing.assert_array_equal(second.transpose(1, 0, 2), TOKENS[1].values)


def test_numpy_archive_of_vectors_and_similarities(tmp_path):
  found = np.load(written(tmp_path / "a.npz", VECTORS))
  assert list(found) == ["vectors"]
  np.testing.assert_array_equal(found["vectors"], [r.vector for r in VECTORS])
  (tmp_path / "a.npz").unlink()
  found = np.load(written(tmp_path / "b.npz", SIMILARITIES))
  assert list(found) == ["similarities"]
  np.testing.assert_array_equal(
    found["similarities"], np.float32([0.25, -1, 1 / 3])
  )


@pytest.mark.parametrize("output_format", ["jsonl", "npz"])
def test_a_run_that_fails_leaves_nothing(tmp_path, output_format):
  with pytest.raises(ZeroDivisionError):
    with feature_files.open_writer(
      str(tmp_path / "a"), output_format
    ) as write:
      write(VECTORS)
      write([1 / 0])
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("output_format", feature_files.FORMATS)
def test_what_a_killed_run_left_goes_with_the_next(tmp_path, output_format):
  path = tmp_path / f"a.{output_format}"
  if not (child := os.fork()):
    with feature_files.open_writer(str(path), output_format) as write:
      write(VECTORS)
      os._exit(0)
  os.waitpid(child, 0)
  assert [name for name in os.listdir(tmp_path) if ".tmp-" in name]
  written(path, VECTORS)


def test_a_file_that_cannot_be_written_is_named(tmp_path):
  (tmp_path / "file").write_text("")
  with pytest.raises(errors.InputError, match="cannot write .*file/a.jsonl"):
    with feature_files.open_writer(str(tmp_path / "file" / "a.jsonl"), "jsonl"):
      pass


def test_a_remote_file_is_copied_when_it_is_whole(tmp_path):
  path = f"file://{tmp_path}/a.npz"
  with feature_files.open_writer(path, "npz") as write:
    write(VECTORS)
  assert [file.name for file in tmp_path.iterdir()] == ["a.npz"]
  with tf.io.gfile.GFile(path, "rb") as stream:
    assert stream.read(2) == b"PK"
