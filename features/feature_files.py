"""What extract_features.py finds, as JSON lines, .npz or Parquet.

Rows are written as they arrive, in bounded memory, into a temporary file that
is renamed when it is complete. There are three kinds of rows:

  TokenRow         one vector for each token and layer
  VectorRow        one vector for the text
  SimilarityRow    one number for a pair of texts

The docstring of each writer gives the content of its file.
"""

import contextlib
import json
import os
import shutil
import tempfile
import zipfile
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from common import errors, file_io, number_text
from features import sentence_vectors


class TokenRow(NamedTuple):
  """Vectors of the tokens of a line.

  Attributes:
    index: number of the line, from 0.
    tokens: list of T strings.
    input_ids: list of T integers.
    values: float32 [L, T, H], the layers as they were asked for.
  """

  index: int
  tokens: list
  input_ids: list
  values: np.ndarray


class VectorRow(NamedTuple):
  """The vector [D] of a line; `index` is its number from 0."""

  index: int
  vector: np.ndarray


class SimilarityRow(NamedTuple):
  """The cosine between both texts of a line; `index` is its number from 0."""

  index: int
  similarity: float


def token_rows(results, tokenizer):
  """Returns TokenRows of a block's (Example, values)."""
  return [
    TokenRow(
      index=example.index,
      tokens=tokenizer.convert_ids_to_tokens(example.input_ids),
      input_ids=example.input_ids,
      # Without the padding of its batch.
      values=values[:, : len(example.input_ids)],
    )
    for example, values in results
  ]


def vector_rows(results):
  """Returns VectorRows of a block's (Example, vector)."""
  return [
    VectorRow(example.index, vector)
    for example, vector in results
  ]


def similarity_rows(results):
  """Returns SimilarityRows; two results make a pair."""
  # a, b, a, b, ...: the two texts of a line follow each other.
  vectors = [vector for _, vector in results]
  similarities = sentence_vectors.cosines(vectors[::2], vectors[1::2])
  return [
    SimilarityRow(example.index, similarity)
    for (example, _), similarity in zip(results[::2], similarities)
  ]


@contextlib.contextmanager
def open_writer(path, output_format, layers=()):
  """Gives a function that takes lists of rows of one kind.

  Args:
    path: the file to write, whole or not at all.
    output_format: a key of FORMATS.
    layers: the layers of a TokenRow, as the user named them.

  Raises:
    InputError: the format needs a package that is not installed, or the file
      cannot be written.
  """
  try:
    with (
      file_io.atomic_write(path) as temporary,
      _local_file(temporary) as local,
      FORMATS[output_format](local, layers) as writer,
    ):
      yield writer.write
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


class JsonLine:
  r"""Makes a line of JSON of a row, in the original's form.

  tokens: {"linex_index": 0, "features": [{"token": "[CLS]", "layers":
    [{"index": -1, "values": [...]}, ...]}, ...]}
  a vector: {"linex_index": 0, "vector": [...]}
  a similarity: {"linex_index": 0, "similarity": 0.5}
  """

  def __init__(self, layers=()):
    """Takes the layers of a TokenRow, as the user named them."""
    self._layers = [
      f'{{"index": {index}, "values": ' for index in layers
    ]

  def text(self, row):
    """Returns the line, without its end."""
    # As in the original: the key is spelled "linex_index".
    start = f'{{"linex_index": {row.index}, '
    if isinstance(row, SimilarityRow):
      # Six decimals, as many as the original gives of vectors.
      return f'{start}"similarity": {round(float(row.similarity), 6)}}}'
    if isinstance(row, VectorRow):
      return f'{start}"vector": {number_text.json_list(row.vector)}}}'
    features = ", ".join(
      self._token(token, row.values[:, place])
      for place, token in enumerate(row.tokens)
    )
    return f'{start}"features": [{features}]}}'

  def _token(self, token, values):
    """Returns the JSON of one token, whose values are [L, H]."""
    layers = ", ".join(
      f"{start}{number_text.json_list(vector)}}}"
      for start, vector in zip(self._layers, values)
    )
    return f'{{"token": {json.dumps(token)}, "layers": [{layers}]}}'


class JsonLines(contextlib.ExitStack):
  """A JsonLine for each row."""

  def __init__(self, path, layers):
    super().__init__()
    self._stream = self.enter_context(open(path, "wb"))
    self._line = JsonLine(layers)

  def write(self, rows):
    """Appends rows."""
    lines = [f"{self._line.text(row)}\n" for row in rows]
    self._stream.write("".join(lines).encode("utf-8"))


def _columns(rows):
  """Returns the rows as a dict from name to array, the rows side by side.

  tokens: "lengths" int64 [rows], "input_ids" int32 [all tokens], "values"
  float32 [all tokens, L, H]. Others: "vectors" [rows, D], "similarities".
  """
  if isinstance(rows[0], SimilarityRow):
    return {"similarities": np.array([r.similarity for r in rows], np.float32)}
  if isinstance(rows[0], VectorRow):
    return {"vectors": np.stack([row.vector for row in rows])}
  # [L, T, H] -> [T, L, H], so that tokens of all rows can be joined.
  values = [row.values.transpose(1, 0, 2) for row in rows]
  ids = [np.array(row.input_ids, np.int32) for row in rows]
  return {
    "lengths": np.array([len(row.input_ids) for row in rows], np.int64),
    "input_ids": np.concatenate(ids),
    "values": np.concatenate(values),
  }


class NumpyArchive(contextlib.ExitStack):
  """An .npz file for np.load, uncompressed.

  tokens: `layers` int64 [L]; `lengths` int64 [lines], the tokens of each line;
    `input_ids` int32 [all tokens] and `values` float32 [all tokens, L, H], the
    tokens of all lines one after another.
  vectors: `vectors` float32 [lines, D].
  similarities: `similarities` float32 [lines].
  """

  def __init__(self, path, layers):
    super().__init__()
    self._path = path
    self._layers = layers
    self._columns = {}
    # The .npy format has the length of an array before its values, but it is
    # known only after the last row: values are collected in temporary files.
    self._folder = file_io.temporary_path(path)
    os.mkdir(self._folder)
    self.callback(shutil.rmtree, self._folder)

  def write(self, rows):
    """Appends rows."""
    for name, values in _columns(rows).items():
      if name not in self._columns:
        path = os.path.join(self._folder, name)
        stream = self.enter_context(open(path, "wb"))
        self._columns[name] = _Column(stream, values.dtype, values.shape[1:])
      self._columns[name].append(values)

  def __exit__(self, *exception):
    if exception[0] is None:
      self._write_archive()
    return super().__exit__(*exception)

  def _write_archive(self):
    with zipfile.ZipFile(self._path, "w") as archive:
      if self._layers:
        layers = np.array(self._layers, np.int64)
        with archive.open("layers.npy", "w") as member:
          np.lib.format.write_array(member, layers)
      for name, column in self._columns.items():
        # The size is not known beforehand, and may be over 4 GB.
        with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
          column.copy_to(member)


class _Column:
  """An array that grows in a file."""

  def __init__(self, stream, dtype, row_shape):
    self._stream, self._dtype, self._row_shape = stream, dtype, row_shape
    self._rows = 0

  def append(self, values):
    self._stream.write(np.ascontiguousarray(values).tobytes())
    self._rows += len(values)

  def copy_to(self, member):
    """Writes the array in the .npy format."""
    np.lib.format.write_array_header_1_0(
      member,
      {
        "descr": np.lib.format.dtype_to_descr(self._dtype),
        "fortran_order": False,
        "shape": (self._rows, *self._row_shape),
      },
    )
    # The last rows are in Python's buffer still.
    self._stream.flush()
    with open(self._stream.name, "rb") as values:
      shutil.copyfileobj(values, member, 1 << 20)


class Parquet(contextlib.ExitStack):
  """A Parquet file, a row for each line.

  tokens: `tokens`, a list of strings, and for each layer such as -1 a column
    `layer_-1`, a list of vectors.
  a vector: `vector`. A similarity: `similarity`.
  All have the line's number as `linex_index`.
  """

  def __init__(self, path, layers):
    super().__init__()
    # Imported here: the package is optional, and no other format needs it.
    try:
      import pyarrow
      import pyarrow.parquet
    except ImportError as error:
      raise errors.InputError(
        "--output_format=parquet needs pyarrow; pip install pyarrow, or "
        "choose npz"
      ) from error
    self._arrow = pyarrow
    self._layers = layers
    self._stream = self.enter_context(open(path, "wb"))
    self._writer = None

  def write(self, rows):
    """Appends rows, as a row group."""
    table = self._table(rows)
    if self._writer is None:
      # The first rows say which columns there are and how wide vectors are.
      self._writer = self.enter_context(
        self._arrow.parquet.ParquetWriter(self._stream, table.schema)
      )
    self._writer.write_table(table)

  def _table(self, rows):
    columns = _columns(rows)
    table = {"linex_index": np.array([row.index for row in rows], np.int64)}
    if "similarities" in columns:
      table["similarity"] = columns["similarities"]
    elif "vectors" in columns:
      table["vector"] = self._vectors(columns["vectors"])
    else:
      table["tokens"] = [row.tokens for row in rows]
      # Arrow's offsets: list n is from ends[n] to ends[n + 1].
      ends = np.concatenate([[0], np.cumsum(columns["lengths"])])
      for place, layer in enumerate(self._layers):
        vectors = self._vectors(columns["values"][:, place])
        table[f"layer_{layer}"] = self._arrow.ListArray.from_arrays(
          self._arrow.array(ends, self._arrow.int32()), vectors
        )
    return self._arrow.table(table)

  def _vectors(self, values):
    """Turns [n, D] into n lists of the fixed size D."""
    flat = self._arrow.array(np.ascontiguousarray(values).ravel())
    return self._arrow.FixedSizeListArray.from_arrays(flat, values.shape[1])


# name of --output_format -> writer of (path, layers)
FORMATS = {"jsonl": JsonLines, "npz": NumpyArchive, "parquet": Parquet}
