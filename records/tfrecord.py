"""Writes TFRecord files atomically, and counts, checks and reads their records.

Serialization is deterministic, unlike protobuf's default: equal features give
equal bytes, so equal records give equal files. Writing an uncompressed local
file does not need TensorFlow; the functions that need it import it themselves.
"""

import contextlib
import functools
import gzip
import os
import re
import struct
import typing
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import google_crc32c
import numpy as np

from common import errors, file_io, json_files

if typing.TYPE_CHECKING:
  import tensorflow as tf

# A TFRecord is: length (8 bytes), CRC of the length (4), data, CRC (4).
_HEADER_BYTES, _FOOTER_BYTES = 12, 4
_CRC_MASK = 0xA282EAD8
_WRITTEN_TOGETHER = 1 << 20  # Bytes.
_GZIP_MAGIC = b"\x1f\x8b\x08"
_MANIFEST = ".manifest.json"  # Lists the shards of an output.

# Protocol buffer tags of tf.train.Example: field number * 8 + 2, where 2 stands
# for a length-delimited field. An Example has a map of features. The value in
# an entry of this map is a list of floats or integers.
_FEATURES, _ENTRY, _KEY, _VALUE = b"\x0a", b"\x0a", b"\x0a", b"\x12"
_FLOAT_LIST, _INT64_LIST, _NUMBERS = b"\x12", b"\x1a", b"\x0a"


class RecordWriter:
  """Writes a TFRecord file completely or not at all.

  with RecordWriter("a.tfrecord") as writer:
    writer.write(serialize_example({"input_ids": [101, 102]}))

  If the path ends in ".gz", the file is compressed. If the block raises an
  exception, an existing file at this path does not change.
  """

  def __init__(self, path: str):
    self.path = path
    self._faults: tuple = (OSError,)

  def __enter__(self) -> "RecordWriter":
    with contextlib.ExitStack() as stack:
      temporary = stack.enter_context(file_io.atomic_write(self.path))
      compression = "GZIP" if self.path.endswith(".gz") else None
      with self._errors_named():
        if compression or file_io.is_remote(self.path):
          from common import lean_tensorflow

          tf = lean_tensorflow.tensorflow
          self._faults += (tf.errors.OpError,)
          self._writer = tf.io.TFRecordWriter(temporary, compression)
        else:
          self._writer = _LocalWriter(temporary)
      # Close the file before `atomic_write` renames it, because closing may
      # report a full disk.
      stack.callback(self._close)
      self._stack = stack.pop_all()
    return self

  def write(self, serialized: bytes) -> None:
    """Appends one record."""
    self.write_all([serialized])

  def write_all(self, records: Iterable[bytes]) -> None:
    """Appends records."""
    with self._errors_named():
      for record in records:
        self._writer.write(record)

  def __exit__(self, *exception: Any) -> bool | None:
    return self._stack.__exit__(*exception)

  def _close(self) -> None:
    with self._errors_named():
      self._writer.close()

  @contextlib.contextmanager
  def _errors_named(self) -> Iterator[None]:
    try:
      yield
    except self._faults as error:
      raise errors.unwritable(self.path, error) from error


class _LocalWriter:
  """Writes the same bytes as TensorFlow without importing it."""

  def __init__(self, path: str):
    self._stream = open(path, "wb", buffering=_WRITTEN_TOGETHER)
    self.flush, self.close = self._stream.flush, self._stream.close

  def write(self, record) -> None:
    self._stream.write(_header(len(record)) + record + _masked_crc(record))


@functools.lru_cache(maxsize=1024)
def _header(length: int):
  data = struct.pack("<Q", length)
  return data + _masked_crc(data)


def _masked_crc(data: bytes) -> bytes:
  """Returns 4 bytes: the CRC-32C, rotated by 15 bits, plus a constant.

  Without this masking, data that end with their own CRC have a constant CRC.
  """
  crc = google_crc32c.value(data)
  rotated = crc >> 15 | crc << 17
  return struct.pack("<I", (rotated + _CRC_MASK) & 0xFFFFFFFF)


def output_of(path: str) -> str:
  """Returns the output of a shard: a.gz of a-00000-of-00003.gz; else `path`."""
  return re.sub(r"-\d{5}-of-\d{5}(?=(\.gz)?$)", "", path)


def manifest_name(output: str) -> str:
  """Returns the name of the manifest next to the shards of `output`."""
  return f"{output.removesuffix('.gz')}{_MANIFEST}"


def find_files(patterns: str) -> list[str]:
  """Returns the record files that a flag names.

  Args:
    patterns: comma-separated file names, glob patterns, manifests of shards, or
      names of sharded outputs (a.tfrecord for a.tfrecord-00000-of-00003, ...).

  Raises:
    InputError: no file matches, or shards of a manifest are missing.
  """
  files = []
  # The name of a single file may contain commas.
  is_file = file_io.exists(patterns)
  for pattern in [patterns] if is_file else map(str.strip, patterns.split(",")):
    manifest = pattern
    if not pattern.endswith(_MANIFEST) and not file_io.exists(pattern):
      manifest = manifest_name(pattern)
    if manifest.endswith(_MANIFEST) and file_io.exists(manifest):
      shard_paths = _shards_of(manifest)
    else:
      # A pattern may also match the manifest next to the shards.
      matches = file_io.expand_file_patterns(pattern)
      shard_paths = [path for path in matches if not path.endswith(_MANIFEST)]
      if not shard_paths:
        raise errors.InputError(f"no record file matches {pattern!r}")
    files += shard_paths
  return files


def _shards_of(manifest) -> list:
  shards = json_files.field(
    json_files.read(manifest), "shards", dict[str, dict], manifest, {}
  )
  if not file_io.are_all_shards(shards):
    raise errors.InputError(
      f"{manifest}: some of its shards are missing; repeat the command that "
      "created it, to write the missing shards"
    )
  folder = os.path.dirname(manifest)
  return [
    os.path.join(folder, name)
    for name, shard in sorted(shards.items())
    if json_files.field(shard, "records", int, manifest)
  ]


def serialize_example(features: Mapping[str, Sequence | np.ndarray]) -> bytes:
  """Returns the bytes of a tf.train.Example with lists of ints or floats."""
  rows = {name: np.asarray(values)[None] for name, values in features.items()}
  return serialize_examples(rows)[0]


def serialize_examples(features: dict[str, np.ndarray]) -> list[bytes]:
  """Returns the bytes of B tf.train.Examples.

  They equal `Example.SerializeToString(deterministic=True)`: they depend only
  on the values, and the features are sorted by name.
  Unlike the original: there, the order of features varies from run to run.
  The features are arrays [B, n]; n may differ between features. Integers become
  an int64_list, floats a float_list.
  """
  columns: list[list[bytes]] = []
  for name in sorted(features):
    values = np.asarray(features[name])
    if values.dtype.kind == "f":
      tag, rows = _FLOAT_LIST, _bytes_of_rows(values.astype("<f4"))
    else:
      tag, rows = _INT64_LIST, _varints(values)
    columns += [_entry_start(name, tag, len(row)) for row in rows], rows
  examples = map(b"".join, zip(*columns))
  return [_delimited(_FEATURES, example) for example in examples]


@functools.lru_cache(maxsize=1 << 14)
def _entry_start(name: str, list_tag, length: int):
  """Returns a feature's bytes before the `length` bytes of its numbers."""
  numbers = bytes(length)
  # As in protobuf, an empty list has no numbers field.
  content = _delimited(_NUMBERS, numbers) if length else b""
  value = _delimited(_VALUE, _delimited(list_tag, content))
  key = _delimited(_KEY, name.encode("utf-8"))
  entry = _delimited(_ENTRY, key + value)
  return entry.removesuffix(numbers)


def _bytes_of_rows(values: np.ndarray) -> list[bytes]:
  size = values.shape[1] * values.itemsize
  if not size:
    return [b""] * len(values)
  # In a view with one item per row, `tolist` returns each row as bytes.
  return np.ascontiguousarray(values).view(f"V{size}")[:, 0].tolist()


def _delimited(tag: bytes, data: bytes) -> bytes:
  return tag + _length_bytes(len(data)) + data


@functools.lru_cache(maxsize=1 << 14)
def _length_bytes(length: int):
  return _varints(np.array([[length]]))[0]


def _varints(values: np.ndarray) -> list[bytes]:
  """Returns the bytes of each row of integers [B, n] as varints.

  Each byte has 7 bits of the number, the lowest bits first, and its top bit
  says whether more bytes follow: 300 = 0b10_0101100 -> 0b1_0101100,
  0b0_0000010. Negative numbers become unsigned 64-bit integers of ten bytes.
  """
  if values.min(initial=0) < 0:
    values = values.astype(np.int64).view(np.uint64)
  largest = int(values.max(initial=0))
  width = max(1, -(-largest.bit_length() // 7))
  # A shortcut for numbers of one byte, such as masks and segment ids.
  if width == 1:
    return _bytes_of_rows(values.astype(np.uint8))
  rest = values.astype(np.min_scalar_type(largest))
  data = np.empty((*values.shape, width), np.uint8)  # [B, n, width]
  valid = np.empty(data.shape, bool)
  for byte in range(width):
    data[..., byte] = (rest & 127) + (rest > 127) * np.uint8(128)
    # Zero takes one byte.
    valid[..., byte] = (rest > 0) if byte else True
    rest >>= 7
  joined = data[valid].tobytes()
  ends = np.cumsum(valid.sum((1, 2))).tolist()
  return [joined[start:end] for start, end in zip([0, *ends], ends)]


def is_gzip(path: str) -> bool:
  """Returns whether a file is gzip-compressed, judging by its first bytes."""
  with file_io.open_for_reading(path) as stream:
    return stream.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC


def num_records(path: str) -> int:
  """Returns the number of records in a file: its manifest's, or counted.

  A manifest counts if the file has the size that it states. Raises InputError:
  as `count_records`.
  """
  size = file_io.size(path)
  name = os.path.basename(path)
  output = output_of(path)
  entries = _shards_by_name(manifest_name(output)) if output != path else {}
  entry = entries.get(name, {})
  if isinstance(entry, dict) and entry.get("bytes") == size:
    count = entry.get("records")
    if isinstance(count, int):
      return count
  return count_records(path)


@functools.lru_cache(maxsize=16)
def _shards_by_name(manifest: str) -> dict:
  """Returns the entries of a manifest, {} if it is missing or damaged."""
  try:
    entries = json_files.read(manifest).get("shards")
  except errors.InputError:
    return {}
  return entries if isinstance(entries, dict) else {}


def count_records(path: str) -> int:
  """Returns the number of records in a TFRecord file, skipping their data.

  Raises InputError: the file is missing, ends within a record, or has damaged
  gzip data. The message has the record's number, from 1, and its byte offset.
  """
  size, compressed = file_io.size(path), is_gzip(path)
  reason = "end of gzip data" if compressed else f"the file has {size} bytes"
  count = offset = 0
  with file_io.open_for_reading(path) as stream:
    source = gzip.GzipFile(fileobj=stream) if compressed else stream
    try:
      while header := source.read(_HEADER_BYTES):
        length = int.from_bytes(header[:8], "little")
        end = offset + _HEADER_BYTES + length + _FOOTER_BYTES
        # Skip the data. A damaged length may point beyond the end of the file:
        # seeking in gzip data stops at the end, in a plain file it does not.
        if (
          len(header) < _HEADER_BYTES
          or source.seek(end) < end
          or not compressed
          and end > size
        ):
          raise EOFError(reason)
        offset = end
        count += 1
    except (EOFError, OSError, ValueError, OverflowError, zlib.error) as error:
      raise errors.InputError(
        f"{path}: record {count + 1}, which starts at byte {offset}, is cut "
        f"off or damaged ({error}); write the file again"
      ) from error
  return count


def read_records(path: str) -> Iterator[dict[str, np.ndarray]]:
  """Yields each record of a TFRecord file as a dict of feature arrays [n].

  The dtypes are int64, float32, and object for byte strings. This is for tests
  and checks; training uses tf.data. Raises InputError: the file is missing, or
  a record is damaged (CRC), cut off, or not a tf.train.Example.
  """
  import tensorflow as tf

  dtypes = {"int64_list": np.int64, "float_list": np.float32}
  for number, serialized in enumerate(read_serialized(path), 1):
    try:
      example = tf.train.Example.FromString(serialized)
    except Exception as error:  # protobuf's versions raise different types.
      raise errors.InputError(
        f"{path}: record {number} is not a tf.train.Example ({error}); the "
        "file was not written by this project's scripts"
      ) from error
    arrays = {}
    for name, feature in example.features.feature.items():
      list_name = feature.WhichOneof("kind")
      values = getattr(feature, list_name).value if list_name else []
      arrays[name] = np.array(values, dtypes.get(list_name, object))
    yield arrays


def read_serialized(path: str) -> Iterator[bytes]:
  """Yields the bytes of each record of a TFRecord file, and checks the CRCs.

  Raises InputError: the file is missing, or a record is damaged or cut off.
  """
  import tensorflow as tf

  number, compression = 0, "GZIP" if is_gzip(path) else ""
  records = without_autotune(tf.data.TFRecordDataset(path, compression))
  try:
    stored = records.as_numpy_iterator()
    for number, record in enumerate(stored, 1):  # noqa: B007
      yield record
  except tf.errors.DataLossError as error:
    # Remove the names of TensorFlow's graph nodes.
    reason = re.sub(r"\{\{.*?\}\}|\[Op:.*", "", error.message, flags=re.S)
    raise errors.InputError(
      f"{path}: record {number + 1} is damaged or cut off ({reason.strip()}); "
      f"number of intact records before it: {number}; write the file again"
    ) from error
  # Unlike TensorFlow, this also detects a file that ends within a header.
  count_records(path)


def without_autotune(dataset: "tf.data.Dataset") -> "tf.data.Dataset":
  """Returns the dataset without autotuning, which delays an iterator's end.

  The autotuning thread checks after 10, 20, 40, ... ms, up to a minute, whether
  to stop, and the iterator waits for this thread before it ends. So 20 seconds
  of training or prediction could take 40.
  """
  import tensorflow as tf

  options = tf.data.Options()
  options.autotune.enabled = False
  return dataset.with_options(options)
