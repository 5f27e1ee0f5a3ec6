"""Opens text files of any format as streams of UTF-8 lines. No TensorFlow.

Each module of this folder reads one family of formats and defines

  matches(head)         whether `head`, a file's first bytes, shows its format
  blocks(path, stream)  yields the content as bytes of UTF-8 text, in bounded
                        memory; raises errors.InputError for a damaged file

A module whose format holds documents, not lines, yields a line of JSON with a
"text" for each of them, which data.text_lines turns into a document. A format
may contain another one, such as a JSON list in a .gz file.
"""

import functools
import io
import json
import os
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, BinaryIO

from common import extensions, file_io

_HEAD_BYTES = 256
_BLOCK_BYTES = 1 << 20
_MOST_LAYERS = 3  # Formats inside each other.


@functools.cache
def _formats() -> list[ModuleType]:
  """Returns the modules of this folder, in the order of their names."""
  return extensions.load_all(__name__)


def open_text(path: str) -> io.BufferedReader:
  """Returns a stream of a file's text as bytes, in any format of this folder.

  A file in no such format is returned unchanged. `seek` is cheap for these;
  otherwise it reads forwards, or again from the start.

  Raises:
    InputError: there is no such file, it is damaged (also raised while it is
      read), or a package that reads its format is not installed.
  """
  stream = file_io.open_for_reading(path)
  for _ in range(_MOST_LAYERS):
    head = stream.peek(_HEAD_BYTES)[:_HEAD_BYTES]
    reader = next((f for f in _formats() if f.matches(head)), None)
    if not reader:
      break
    decoded = _DecodedStream(path, stream, reader.blocks)
    stream = io.BufferedReader(decoded, _BLOCK_BYTES)
  return stream


def size(path: str) -> int:
  """Returns the number of bytes in the stream of `open_text`.

  A file in a format of this folder is read through once.

  Raises InputError: as `open_text`, and for a pipe or a folder.
  """
  stored = file_io.size(path)
  with open_text(path) as stream:
    if isinstance(stream.raw, _DecodedStream):
      return stream.seek(0, os.SEEK_END)
  return stored


def document_line(text: str) -> bytes:
  """Returns the line of JSON for a document, with its line end."""
  return json.dumps({"text": text}, ensure_ascii=False).encode() + b"\n"


class _DecodedStream(io.RawIOBase):
  """Makes a stream of bytes of an iterator of blocks."""

  def __init__(
    self, path: str, source: io.BufferedReader, blocks: Callable
  ) -> None:
    """Reads blocks(path, source); `seek` may rewind `source` and start anew."""
    self._path, self._source, self._blocks = path, source, blocks
    self._start()

  def _start(self) -> None:
    self._source.seek(0)
    self._iterator: Iterator[bytes] = self._blocks(self._path, self._source)
    self._rest = memoryview(b"")
    self._position = 0

  def readable(self) -> bool:
    return True

  def seekable(self) -> bool:
    return True

  def readinto(self, buffer: Any) -> int:
    while not self._rest:
      block = next(self._iterator, None)
      if block is None:
        return 0
      self._rest = memoryview(block)
    count = min(len(buffer), len(self._rest))
    buffer[:count] = self._rest[:count]
    self._rest = self._rest[count:]
    self._position += count
    return count

  def tell(self) -> int:
    return self._position

  def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
    if whence == os.SEEK_CUR:
      offset += self._position
    elif whence == os.SEEK_END:
      # Only the end itself can be found; it ends the loop below.
      offset = self._position + (1 << 62) if offset == 0 else -1
    if offset < 0:
      raise ValueError(f"{self._path}: cannot seek relative to the end")
    if offset < self._position:
      self._start()
    scratch = bytearray(_BLOCK_BYTES)
    while left := min(offset - self._position, _BLOCK_BYTES):
      if not self.readinto(memoryview(scratch)[:left]):
        break
    return self._position

  def close(self) -> None:
    self._source.close()
    super().close()


def read_blocks(stream: BinaryIO) -> Iterator[bytes]:
  """Yields the rest of a stream in blocks of a megabyte."""
  return iter(functools.partial(stream.read, _BLOCK_BYTES), b"")
