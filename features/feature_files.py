"""Writes features to JSON lines or .npz, block by block."""

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

import tokenization
from checkpoints import sentence_pooling
from common import console, errors, file_io, run_settings
from features import vector_search
from variants import vocabularies


class Row(NamedTuple):
  """The result for a line of text.

  Attributes:
    line: line number, from 0.
    content: the kind of result, see `values`.
    values: for "features" float [L, T, H], with layers in the order of
      --layers; for "vector" float [D]; for "weights" (a sparse vector)
      {token: weight}; for "similarity" (the cosine of two texts) a float.
    tokens: T tokens, only for "features".
    input_ids: token ids, only for "features" (T of them) and "vector".
  """

  line: int
  content: str
  values: Any
  tokens: Sequence[str] = ()
  input_ids: Sequence[int] = ()


def rows_of(
  settings: run_settings.Settings,
  tokenizer: tokenization.FullTokenizer,
  results: list,
) -> list[Row]:
  """Converts a block's list of (text_batches.Example, values) to rows."""
  if settings.similarity:
    # The vectors of a line's two texts follow each other: a, b, a, b, ...
    vectors = [vector for _, vector in results]
    cosines = vector_search.cosines(vectors[::2], vectors[1::2])
    return [
      Row(example.line, "similarity", cosine)
      for (example, _), cosine in zip(results[::2], cosines)
    ]
  if settings.sparse:
    tokens = vocabularies.lines(tokenizer)
    return [
      Row(example.line, "weights", sentence_pooling.by_word(vector, tokens))
      for example, vector in results
    ]
  if settings.pooling:
    return [
      Row(example.line, "vector", vector, input_ids=example.input_ids)
      for example, vector in results
    ]
  return [
    Row(
      line,
      "features",
      values[:, : len(ids)],  # Without the batch's padding.
      tokenizer.convert_ids_to_tokens(ids),
      ids,
    )
    for (line, ids, _), values in results
  ]


def _json_line(row: Row, layers: Any) -> str:
  r"""Returns a row as a line of JSON, without a newline.

  {"linex_index": 0, "features": [{"token": "[CLS]", "layers":
    [{"index": -1, "values": [...]}, ...]}, ...]}
  {"linex_index": 0, "vector": [...]}
  {"linex_index": 0, "weights": {"guitar": 2.5, ...}}
  {"linex_index": 0, "similarity": 0.5}
  """
  if row.content == "weights":
    weights = {token: round(value, 6) for token, value in row.values.items()}
    return json.dumps({"linex_index": row.line, "weights": weights})
  # As in the original: the format of features, the spelling "linex_index", and
  # round(float(x), 6). np.round gives the same result, because a float32 times
  # 10^6 is exact in float64.
  values = np.round(np.asarray(row.values, np.float64), 6).tolist()
  if row.content == "features":
    values = [
      {
        "token": token,
        "layers": [
          {"index": layer, "values": states[position]}
          for layer, states in zip(layers, values)
        ],
      }
      for position, token in enumerate(row.tokens)
    ]
  return json.dumps({"linex_index": row.line, row.content: values})


@contextlib.contextmanager
def open_writer(
  path: str | None, output_format: str, layers: Sequence[int] = ()
) -> Iterator[Callable[[list[Row]], None]]:
  """Provides a function that writes lists of rows with the same `content`.

  The file may be local or remote. An existing file is replaced only when the
  new one is complete. None prints the rows, as lines of JSON. Raises
  InputError: the file cannot be written.
  """
  if path is None:

    def print_rows(rows: list[Row]) -> None:
      for row in rows:
        console.print_line(_json_line(row, layers))

    yield print_rows
    return
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
def _json_lines(stream: Any, layers: Any) -> Iterator[Callable]:
  """Provides a function that writes a `_json_line` for each row."""
  yield lambda rows: stream.write(
    "".join(f"{_json_line(row, layers)}\n" for row in rows).encode("utf-8")
  )


@contextlib.contextmanager
def _numpy_archive(stream: Any, layers: Any) -> Iterator[Callable]:
  """Provides a function that writes rows to an uncompressed .npz file.

  The arrays of the file depend on the rows' `content`:
    features: `layers` int64 [L]; `lengths` int64 [lines], the number of tokens
      per line; `input_ids` int32 [all tokens] and `values` float32 [all tokens,
      L, H], concatenated over all lines.
    vector: `vectors` float32 [lines, D]; `checksums` uint32 [lines], of the
      token ids.
    similarity: `similarities` float32 [lines].
  """
  columns = {}
  folder = os.path.dirname(os.path.abspath(stream.name))
  # A remote file has no local folder.
  folder = folder if os.path.isdir(folder) else None
  # A zip file's members are written one after the other, so write each array
  # to a temporary file first. It has no name, so a killed run leaves no file.
  with contextlib.ExitStack() as stack:

    def write(rows: list[Row]) -> None:
      for name, values in _columns(rows).items():
        if name not in columns:
          file = stack.enter_context(tempfile.TemporaryFile(dir=folder))
          columns[name] = file, values.dtype, values.shape[1:]
        columns[name][0].write(np.ascontiguousarray(values).tobytes())

    def append(data: Any) -> int:
      stream.write(data)
      return len(data)

    yield write
    # zipfile needs a `write` that returns a length, unlike TensorFlow's. If the
    # target has no `seek` and `tell`, zipfile writes without seeking.
    target = types.SimpleNamespace(write=append, flush=stream.flush)
    with zipfile.ZipFile(target, "w") as archive:
      if layers:
        with archive.open("layers.npy", "w") as member:
          np.lib.format.write_array(member, np.array(layers, np.int64))
      for name, column in columns.items():
        with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
          _write_column(member, *column)


def _columns(rows: list[Row]) -> dict[str, Any]:
  """Returns {name of an array of the .npz: values of all rows}."""
  if rows[0].content != "features":
    is_vector = rows[0].content == "vector"
    name = "vectors" if is_vector else "similarities"
    columns = {name: np.array([row.values for row in rows], np.float32)}
    if is_vector:
      ids = [row.input_ids for row in rows]
      columns["checksums"] = vector_search.checksums(ids)
    return columns
  return {
    "lengths": np.array([len(row.input_ids) for row in rows], np.int64),
    "input_ids": np.concatenate(
      [np.array(row.input_ids, np.int32) for row in rows]
    ),
    # [L, T, H] -> [T, L, H], to concatenate the tokens of all rows.
    "values": np.concatenate([row.values.swapaxes(0, 1) for row in rows]),
  }


def _write_column(
  member: Any, file: Any, dtype: np.dtype, shape: tuple
) -> None:
  """Copies a temporary file to an .npy member; a row has the shape `shape`."""
  count = file.tell() // (dtype.itemsize * int(np.prod(shape)))
  header = {
    "descr": np.lib.format.dtype_to_descr(dtype),
    "fortran_order": False,
    "shape": (count, *shape),
  }
  np.lib.format.write_array_header_1_0(member, header)
  file.seek(0)
  shutil.copyfileobj(file, member)


# {--output_format: context manager that takes a stream and --layers}
FORMATS = {"jsonl": _json_lines, "npz": _numpy_archive}
