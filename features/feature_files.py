"""What extract_features.py finds, as JSON lines or .npz.

Rows are written as they arrive, in bounded memory, into a temporary file that
is renamed when it is complete.
"""

import contextlib
import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from common import errors, file_io


class TokenRow(NamedTuple):
  """Vectors of the T tokens of a line.

  Attributes:
    index: number of the line, from 0.
    tokens, input_ids: T of each.
    values: float32 [L, T, H], the layers as they were asked for.
  """

  index: int
  tokens: list[str]
  input_ids: list[int]
  values: np.ndarray


class VectorRow(NamedTuple):
  """The vector [D] of a line; `index` is its number from 0."""

  index: int
  vector: np.ndarray


class SimilarityRow(NamedTuple):
  """The cosine between both texts of a line; `index` is its number from 0."""

  index: int
  similarity: float


Row = TokenRow | VectorRow | SimilarityRow


def json_line(row: Row, layers: Sequence[int] = ()) -> str:
  r"""Returns a line of JSON, without its end, in the original's form.

  tokens: {"linex_index": 0, "features": [{"token": "[CLS]", "layers":
    [{"index": -1, "values": [...]}, ...]}, ...]}
  a vector: {"linex_index": 0, "vector": [...]}
  a similarity: {"linex_index": 0, "similarity": 0.5}

  Args:
    layers: those of a TokenRow, as the user numbered them.
  """
  # As in the original: the key is spelled so, and numbers have six decimals.
  values = {"linex_index": row.index}
  if isinstance(row, SimilarityRow):
    values["similarity"] = round(float(row.similarity), 6)
  elif isinstance(row, VectorRow):
    values["vector"] = _rounded(row.vector)
  else:
    of_layers = [_rounded(states) for states in row.values]
    values["features"] = [
      {
        "token": token,
        "layers": [
          {"index": layer, "values": states[place]}
          for layer, states in zip(layers, of_layers)
        ],
      }
      for place, token in enumerate(row.tokens)
    ]
  return json.dumps(values)


def _rounded(values):
  # Those of round(float(x), 6): a float32 times 10^6 is exact in float64.
  return np.round(values.astype(np.float64), 6).tolist()


@contextlib.contextmanager
def open_writer(
  path: str, output_format: str, layers: Sequence[int] = ()
) -> Iterator[Callable[[list[Row]], None]]:
  """Gives a function that takes lists of rows of one kind.

  Args:
    path: the file to write, whole or not at all.
    output_format: a key of FORMATS.
    layers: those of a TokenRow, as the user numbered them.

  Raises:
    InputError: the file cannot be written.
  """
  try:
    with (
      file_io.atomic_write(path) as temporary,
      _local_file(temporary) as local,
      FORMATS[output_format](local, layers) as write,
    ):
      yield write
  except (OSError, tf.errors.OpError) as error:
    reason = getattr(error, "message", None) or error
    raise errors.InputError(f"cannot write {path}: {reason}") from error


@contextlib.contextmanager
def _local_file(path):
  """Gives `path`, or for a remote one a local file that is copied there."""
  if not file_io.is_remote(path):
    yield path
    return
  with tempfile.TemporaryDirectory() as folder:
    local = os.path.join(folder, "features")
    yield local
    tf.io.gfile.copy(local, path, overwrite=True)


@contextlib.contextmanager
def _json_lines(path, layers):
  """A `json_line` for each row."""
  with open(path, "w", encoding="utf-8", newline="\n") as stream:
    yield lambda rows: stream.writelines(
      f"{json_line(row, layers)}\n" for row in rows
    )


@contextlib.contextmanager
def _numpy_archive(path, layers):
  """An .npz file for np.load, uncompressed.

  tokens: `layers` int64 [L]; `lengths` int64 [lines], the tokens of each line;
    `input_ids` int32 [all tokens] and `values` float32 [all tokens, L, H], the
    tokens of all lines one after another.
  vectors: `vectors` float32 [lines, D].
  similarities: `similarities` float32 [lines].
  """
  columns = {}
  folder, name = os.path.split(path)
  with (
    # Entries of a zip cannot grow in turns: each column is a file first. Its
    # folder has the temporary name of the file, by which the next run knows it.
    tempfile.TemporaryDirectory(prefix=f"{name}.", dir=folder or ".") as folder,
    contextlib.ExitStack() as stack,
  ):

    def write(rows):
      for name, values in _columns(rows).items():
        if name not in columns:
          file = os.path.join(folder, f"{name}.npy")
          columns[name] = stack.enter_context(_Column(file, values))
        columns[name].append(values)

    yield write
    stack.close()
    with zipfile.ZipFile(path, "w") as archive:
      if layers:
        with archive.open("layers.npy", "w") as member:
          np.lib.format.write_array(member, np.array(layers, np.int64))
      for name in columns:
        archive.write(os.path.join(folder, f"{name}.npy"), f"{name}.npy")


def _columns(rows):
  """Returns a dict from name to array, the rows of a list side by side."""
  if isinstance(rows[0], SimilarityRow):
    return {"similarities": np.array([r.similarity for r in rows], np.float32)}
  if isinstance(rows[0], VectorRow):
    return {"vectors": np.stack([row.vector for row in rows])}
  ids = [np.array(row.input_ids, np.int32) for row in rows]
  # [L, T, H] -> [T, L, H], so that tokens of all rows can be joined.
  values = [row.values.transpose(1, 0, 2) for row in rows]
  return {
    "lengths": np.array([len(row.input_ids) for row in rows], np.int64),
    "input_ids": np.concatenate(ids),
    "values": np.concatenate(values),
  }


class _Column:
  """An array that grows in an .npy file, along its first axis."""

  def __init__(self, path, like):
    self._stream, self._like, self._rows = open(path, "wb"), like, 0
    self._write_header()

  def _write_header(self):
    self._stream.seek(0)
    # As long for any number of rows: the format leaves room for its digits.
    np.lib.format.write_array_header_1_0(self._stream, {
      "descr": np.lib.format.dtype_to_descr(self._like.dtype),
      "fortran_order": False,
      "shape": (self._rows, *self._like.shape[1:]),
    })

  def append(self, values):
    self._stream.write(np.ascontiguousarray(values).tobytes())
    self._rows += len(values)

  def __enter__(self):
    return self

  def __exit__(self, *exception):
    with self._stream:
      self._write_header()


# name of --output_format -> context manager of (path, layers)
FORMATS = {"jsonl": _json_lines, "npz": _numpy_archive}
