"""Tests that written features and vectors can be read back."""

import itertools
import json
import os

import numpy as np
import pytest
import tensorflow as tf

from common import errors, run_settings
from features import feature_files, text_batches

_RNG = np.random.RandomState(0)
LAYERS = [-1, 2]
TOKENS = [
  feature_files.Row(
    index,
    "features",
    _RNG.randn(2, len(tokens), 3).astype(np.float32),
    tokens,
    list(range(len(tokens))),
  )
  for index, tokens in enumerate([["[CLS]", "Zürich", "[SEP]"], ['a"b', "c"]])
]
VECTORS = [
  feature_files.Row(index, "vector", _RNG.randn(3).astype(np.float32))
  for index in range(4)
]
SIMILARITIES = [
  feature_files.Row(index, "similarity", value)
  for index, value in enumerate([0.25, -1.0, 1 / 3])
]


def written(path, rows, layers=()):
  """Writes rows in two parts; returns the path as a string."""
  with feature_files.open_writer(str(path), path.suffix[1:], layers) as write:
    write(rows[:1])
    write(rows[1:])
  assert [file.name for file in path.parent.iterdir()] == [path.name]
  return str(path)


def read_lines(path):
  with open(path, encoding="utf-8") as stream:
    return [json.loads(line) for line in stream]


def test_json_lines(tmp_path):
  records = read_lines(written(tmp_path / "tokens" / "a.jsonl", TOKENS, LAYERS))
  for record, row in zip(records, TOKENS, strict=True):
    assert record["linex_index"] == row.line
    tokens = record["features"]
    assert [token["token"] for token in tokens] == row.tokens
    for position, layer in itertools.product(range(len(tokens)), range(2)):
      assert tokens[position]["layers"][layer] == {
        "index": LAYERS[layer],
        "values": [round(float(x), 6) for x in row.values[layer, position]],
      }
  assert read_lines(written(tmp_path / "vectors" / "a.jsonl", VECTORS)) == [
    {"linex_index": n, "vector": [round(float(x), 6) for x in row.values]}
    for n, row in enumerate(VECTORS)
  ]
  assert read_lines(written(tmp_path / "one" / "a.jsonl", SIMILARITIES)) == [
    {"linex_index": 0, "similarity": 0.25},
    {"linex_index": 1, "similarity": -1.0},
    {"linex_index": 2, "similarity": 0.333333},
  ]


def test_numpy_archives(tmp_path):
  tokens = dict(np.load(written(tmp_path / "tokens" / "a.npz", TOKENS, LAYERS)))
  first, second = np.split(tokens.pop("values"), [3])
  np.testing.assert_array_equal(first.transpose(1, 0, 2), TOKENS[0].values)
  np.testing.assert_array_equal(second.transpose(1, 0, 2), TOKENS[1].values)
  assert {name: values.tolist() for name, values in tokens.items()} == {
    "layers": LAYERS,
    "lengths": [3, 2],
    "input_ids": [0, 1, 2, 0, 1],
  }
  archive = np.load(written(tmp_path / "vectors" / "a.npz", VECTORS))
  assert [*archive] == ["vectors", "checksums"]
  assert archive["vectors"].dtype == np.float32
  np.testing.assert_array_equal(archive["vectors"], [r.values for r in VECTORS])
  archive = np.load(written(tmp_path / "one" / "a.npz", SIMILARITIES))
  assert list(archive) == ["similarities"]
  np.testing.assert_array_equal(
    archive["similarities"], np.float32([0.25, -1, 1 / 3])
  )


@pytest.mark.parametrize("output_format", feature_files.FORMATS)
def test_a_run_that_fails_or_is_killed_leaves_no_output(
  tmp_path, output_format
):
  path = tmp_path / f"a.{output_format}"
  with pytest.raises(ZeroDivisionError):
    with feature_files.open_writer(str(path), output_format) as write:
      write(VECTORS)
      write([1 / 0])
  assert not list(tmp_path.iterdir())
  if not (child := os.fork()):
    with feature_files.open_writer(str(path), output_format) as write:
      write(VECTORS)
      os._exit(0)
  os.waitpid(child, 0)
  assert [name for name in os.listdir(tmp_path) if ".tmp-" in name]
  # The next run removes the temporary file.
  written(path, VECTORS)


def test_a_file_that_cannot_be_written_is_named(tmp_path):
  (tmp_path / "file").write_text("")
  with pytest.raises(errors.InputError, match="cannot write .*file/a.jsonl"):
    with feature_files.open_writer(str(tmp_path / "file" / "a.jsonl"), "jsonl"):
      pass


@pytest.mark.parametrize("output_format", feature_files.FORMATS)
def test_a_remote_file_has_the_same_bytes(tmp_path, output_format):
  local = written(tmp_path / "local" / f"a.{output_format}", VECTORS)
  path = f"file://{tmp_path}/a"
  with feature_files.open_writer(path, output_format) as write:
    write(VECTORS)
  with tf.io.gfile.GFile(path, "rb") as stream, open(local, "rb") as expected:
    assert stream.read() == expected.read()
  assert {file.name for file in tmp_path.iterdir()} == {"a", "local"}


class Tokenizer:
  """Turns an id into a token."""

  inv_vocab = {0: "a", 1: "b", 3: "d"}

  def convert_ids_to_tokens(self, ids):
    return [f"t{token_id}" for token_id in ids]


def rows(results, **kinds):
  flags = {"similarity": False, "sparse": False, "pooling": None, **kinds}
  settings = run_settings.Settings(flags)
  return feature_files.rows_of(settings, Tokenizer(), results)


def example(line, *ids):
  return text_batches.Example(line, list(ids), [0] * len(ids))


def test_the_texts_of_a_line_are_compared():
  vectors = [[1.0, 0.0], [3.0, 4.0], [0.0, 2.0], [0.0, -1.0]]
  results = [(example(n // 2), v) for n, v in enumerate(vectors)]
  similar = rows(results, similarity=True, pooling="mean")
  assert [row[:2] for row in similar] == [(0, "similarity"), (1, "similarity")]
  assert [row.values for row in similar] == pytest.approx([0.6, -1.0])


def test_a_sparse_vector_has_the_tokens_of_its_weights():
  vector = np.array([0.5, 0.0, 0.0, 2.0, 9.0])  # The last row is padding.
  (row,) = rows([(example(4), vector)], sparse=True)
  assert row[:2] == (4, "weights")
  assert [*row.values.items()] == [("d", 2.0), ("a", 0.5)]


def test_a_vector_has_the_ids_of_its_text():
  (row,) = rows([(example(2, 7, 8), np.ones(3))], pooling="mean")
  assert row[:2] == (2, "vector") and row.input_ids == [7, 8]
  assert row.values.tolist() == [1, 1, 1]


def test_features_have_no_padding():
  values = np.arange(12.0).reshape(2, 3, 2)
  (row,) = rows([(example(5, 7, 8), values)])
  assert row[:2] == (5, "features")
  assert (row.tokens, row.input_ids) == (["t7", "t8"], [7, 8])
  np.testing.assert_array_equal(row.values, values[:, :2])
