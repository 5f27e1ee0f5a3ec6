"""Files of text and of TFRecords: found, read line by line, written safely.

Every file that a script leaves behind is written under another name and
renamed when it is whole, so a run that dies leaves no half-written output.
"""

import contextlib
import glob
import os
import struct

import tensorflow as tf

import errors

# A TFRecord is: length (8 bytes), CRC of the length (4), data, CRC (4).
_HEADER_BYTES, _FOOTER_BYTES = 12, 4


def expand_file_patterns(patterns):
  """Returns the files that a flag names.

  Args:
    patterns: comma-separated file names or glob patterns.

  Returns:
    File names, the matches of each pattern sorted. Unlike the original: its
    glob came in the order of the directory, so results depended on the disk.

  Raises:
    InputError: a pattern matches no file.
  """
  files = []
  for pattern in patterns.split(","):
    matches = sorted(tf.io.gfile.glob(pattern.strip()))
    if not matches:
      raise errors.InputError(f"no file matches {pattern.strip()!r}")
    files.extend(matches)
  return files


def read_lines(path):
  r"""Yields (line number from 1, line without its "\n") of a UTF-8 file.

  Lines end at "\n" alone, as in the original: other line separators of
  Unicode stay in the line.

  Raises:
    InputError: the file is missing or a line is not UTF-8 (its number named).
  """
  try:
    with tf.io.gfile.GFile(path, "rb") as stream:
      for number, line in enumerate(stream, 1):
        try:
          yield number, line.rstrip(b"\n").decode("utf-8")
        except UnicodeDecodeError as error:
          raise errors.InputError(
            f"{path}:{number}: not UTF-8 (byte {error.start} of the line is "
            f"0x{line[error.start]:02x}); convert the file to UTF-8"
          ) from error
  except tf.errors.NotFoundError as error:
    raise errors.InputError(f"no such file: {path}") from error


@contextlib.contextmanager
def written_aside(path):
  """Gives a temporary path beside `path`; renames it to `path` at the end.

  If the block raises, the temporary file is removed and `path` stays as it
  was. The data are synced to the disk before the rename.
  """
  folder = os.path.dirname(path) or "."
  os.makedirs(folder, exist_ok=True)
  aside = f"{path}.tmp-{os.getpid()}"
  try:
    yield aside
    sync(aside)
    os.replace(aside, path)
    sync(folder)
  except BaseException:
    with contextlib.suppress(FileNotFoundError):
      os.remove(aside)
    raise


def sync(path):
  """Waits until a file, or a folder's list of names, is on the disk."""
  descriptor = os.open(path, os.O_RDONLY)
  try:
    os.fsync(descriptor)
  finally:
    os.close(descriptor)


def write_text(path, text):
  """Writes `text` to `path` in UTF-8, whole or not at all."""
  with written_aside(path) as aside:
    with open(aside, "w", encoding="utf-8", newline="") as stream:
      stream.write(text)
