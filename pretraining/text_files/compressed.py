"""Decompresses .gz, .bz2, .xz and .zst files, also of several members."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from common import errors
from pretraining import text_files

_OPENERS: dict[bytes, Callable] = {
  b"\x1f\x8b": gzip.open,
  b"BZh": bz2.open,
  b"\xfd7zXZ\0": lzma.open,
}
_ZSTANDARD = b"\x28\xb5\x2f\xfd"


def matches(head: bytes) -> bool:
  """Whether a file starts as one of the formats does."""
  return head.startswith((*_OPENERS, _ZSTANDARD))


def blocks(path: str, stream: BinaryIO) -> Iterator[bytes]:
  """Yields the decompressed bytes.

  Raises InputError: the file is damaged or ends too early, or it is a .zst and
  pyarrow, which decompresses it, is not installed.
  """
  head = stream.peek(len(_ZSTANDARD))  # type: ignore[attr-defined]
  for mark, opener in _OPENERS.items():
    if head.startswith(mark):
      faults: tuple = (OSError, EOFError, zlib.error, lzma.LZMAError)
      decompressed = opener(stream)
      break
  else:
    with errors.needs_extra("parquet"):
      import pyarrow
    faults = (OSError, EOFError, pyarrow.ArrowException)
    # The file stays open for a later start from its first byte.
    source = pyarrow.PythonFile(_KeptOpen(stream), mode="r")
    decompressed = pyarrow.CompressedInputStream(source, "zstd")
  try:
    yield from text_files.read_blocks(decompressed)
  except faults as error:
    raise errors.InputError(
      f"{path} cannot be decompressed ({error}): it is damaged or incomplete; "
      "copy or download it again"
    ) from error


class _KeptOpen:
  """Hands a stream's reads on, without its close."""

  closed = False

  def __init__(self, stream: BinaryIO) -> None:
    self.read = stream.read

  def close(self) -> None:
    """Does nothing; the owner of the stream closes it."""
