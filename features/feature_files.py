"""Writes features as JSON lines or .npz, in bounded memory."""

import contextlib
import json
import os
import shutil
import tempfile
import types
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from checkpoints import sentence_pooling
from common import errors, file_io
from features import text_vectors
from variants import vocabularies


class Row(NamedTuple):
  """The result for a line.

  Attributes:
    line: number of the line, from 0.
    content: "features" of its T tokens, or its "vector", or the "weights" of
      words, or the "similarity" of its two texts.
    values: floats [L, T, H], layers in the order of --layers; or [D]; or {word:
      weight}; or one.
    tokens, input_ids: T tokens and ids, only for features.
  """

  line: int
  content: str
  values: Any
  tokens: Sequence[str] = ()
  input_ids: Sequence[int] = ()


def rows_of(settings, tokenizer, results) -> list[Row]:
  """Returns the rows for a list of (text_batches.Example, its vectors)."""
  if settings.similarity:
    # a, b, a, b, ...: the two texts of a line follow each other.
    vectors = [vector for _, vector in results]
    cosines = text_vectors.cosines(vectors[::2], vectors[1::2])
    return [
      Row(example.line, "similarity", cosine)
      for (example, _), cosine in zip(results[::2], cosines)
    ]
  if settings.sparse:
    words = vocabularies.lines(tokenizer)
    return [
      Row(example.line, "weights", sentence_pooling.by_word(vector, words))
      for example, vector in results
    ]
  if settings.pooling:
    return [Row(example.line, "vector", vector) for example, vector in results]
  return [
    Row(
      line, "features", values[:, : len(ids)],  # Without its batch's padding.
      tokenizer.convert_ids_to_tokens(ids), ids,
    )
    for (line, ids, _), values in results
  ]


def json_line(row: Row, layers: Sequence[int] = ()) -> str:
  r"""Returns a line of JSON, without its end, in the original's form.

  {"linex_index": 0, "features": [{"token": "[CLS]", "layers":
    [{"index": -1, "values": [...]}, ...]}, ...]}
  {"linex_index": 0, "vector": [...]}
  {"linex_index": 0, "weights": {"guitar": 2.5, ...}}
  {"linex_index": 0, "similarity": 0.5}
  """
  if row.content == "weights":
    weights = {word: round(value, 6) for word, value in row.values.items()}
    return json.dumps({"linex_index": row.line, "weights": weights})
  # As in the original: the key has this spelling, and numbers are rounded like
  # round(float(x), 6): a float32 times 10^6 is exact in float64.
  values = np.round(np.asarray(row.values, np.float64), 6).tolist()
  if row.content == "features":
    values = [
      {
        "token": token,
        "layers": [
          {"index": layer, "values": states[place]}
          for layer, states in zip(layers, values)
        ],
      }
      for place, token in enumerate(row.tokens)
    ]
  return json.dumps({"linex_index": row.line, row.content: values})


@contextlib.contextmanager
def open_writer(
  path: str, output_format: str, layers: Sequence[int] = ()
) -> Iterator[Callable[[list[Row]], None]]:
  """Provides a function that writes lists of rows of one kind.

  The file may be local or remote; it is complete or does not appear. Raises
  InputError: the file cannot be written.
  """
  try:
    with (
      file_io.open_for_writing(path) as stream,
      FORMATS[output_format](stream, layers) as write,
    ):
      yield write
  except (OSError, tf.errors.OpError) as error:
    reason = getattr(error, "message", None) or error
    raise errors.InputError(f"cannot write {path}: {reason}") from error


@contextlib.contextmanager
def _json_lines(stream, layers):
  """Writes a `json_line` for each row."""
  yield lambda rows: stream.write(
    "".join(f"{json_line(row, layers)}\n" for row in rows).encode("utf-8")
  )


@contextlib.contextmanager
def _numpy_archive(stream, layers):
  """Writes an uncompressed .npz file for np.load.

  features: `layers` int64 [L]; `lengths` int64 [lines], the tokens of each
    line; `input_ids` int32 [all tokens] and `values` float32 [all tokens, L,
    H], the tokens of all lines one after another.
  vectors: `vectors` float32 [lines, D].
  similarities: `similarities` float32 [lines].
  """
  columns = {}
  folder = os.path.dirname(os.path.abspath(stream.name))
  # A remote file has no folder on this disk.
  folder = folder if os.path.isdir(folder) else None
  # Entries of a zip cannot grow in turns, so each column is written to a file
  # first, which has no name, so that a killed run leaves nothing.
  with contextlib.ExitStack() as stack:

    def write(rows):
      for name, values in _columns(rows).items():
        if name not in columns:
          file = stack.enter_context(tempfile.TemporaryFile(dir=folder))
          columns[name] = file, values.dtype, values.shape[1:]
        columns[name][0].write(np.ascontiguousarray(values).tobytes())

    def append(data):
      stream.write(data)
      return len(data)

    yield write
    # TensorFlow's files can neither seek back nor tell how much they wrote.
    target = types.SimpleNamespace(write=append, flush=stream.flush)
    with zipfile.ZipFile(target, "w") as archive:
      if layers:
        with archive.open("layers.npy", "w") as member:
          np.lib.format.write_array(member, np.array(layers, np.int64))
      for name, column in columns.items():
        with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
          _write_column(member, *column)


def _columns(rows):
  """Returns a dict from name to array; the arrays stack the rows."""
  if rows[0].content != "features":
    name = {"vector": "vectors", "similarity": "similarities"}[rows[0].content]
    return {name: np.array([row.values for row in rows], np.float32)}
  return {
    "lengths": np.array([len(row.input_ids) for row in rows], np.int64),
    "input_ids": np.concatenate([np.int32(row.input_ids) for row in rows]),
    # [L, T, H] -> [T, L, H], so that tokens of all rows can be joined.
    "values": np.concatenate([row.values.swapaxes(0, 1) for row in rows]),
  }


def _write_column(member, file, dtype, shape):
  """Writes an .npy file whose rows of a shape are in another file."""
  count = file.tell() // (dtype.itemsize * int(np.prod(shape)))
  np.lib.format.write_array_header_1_0(member, {
    "descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False,
    "shape": (count, *shape),
  })
  file.seek(0)
  shutil.copyfileobj(file, member)


# name of --output_format -> context manager of (stream, layers)
FORMATS = {"jsonl": _json_lines, "npz": _numpy_archive}
