"""Finds, reads and writes files, local or remote; writing is atomic.

Files are written under temporary names and renamed when they are complete, so a
run that dies leaves no half-written output. Paths with "://" (gs://...) go
through TensorFlow, others (except in `names_and_sizes`) through the operating
system. TensorFlow is imported when it is first needed.
"""

import atexit
import codecs
import contextlib
import functools
import glob
import hashlib
import io
import os
import re
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

from absl import logging

from common import errors

_BLOCK_BYTES = 1 << 20
_POINTER, _POINTER_BYTES = b"version https://git-lfs.github.com/spec", 1024
_IS_WINDOWS = os.name == "nt"
_SECONDS_PER_DAY = 24 * 3600.0
_TEMPORARY = re.compile(
  r"\.tmp-(?P<machine>[\w-]+)-[0-9a-f]{8}-(?P<pid>\d+)(\.[^/]*)?"
)


def _gfile() -> Any:
  """Returns tf.io.gfile."""
  try:
    from common import lean_tensorflow
  except ImportError as error:
    raise errors.InputError(
      "a path with :// needs TensorFlow; install it, or copy the file to this "
      "machine"
    ) from error
  return lean_tensorflow.tensorflow.io.gfile


def is_remote(path: str) -> bool:
  """Whether `path` is a URL such as gs://bucket/file, not a local path."""
  return "://" in path


def exists(path: str) -> bool:
  """Whether a file or folder exists, local or remote."""
  return _gfile().exists(path) if is_remote(path) else os.path.exists(path)


def is_folder(path: str) -> bool:
  """Whether a folder exists, local or remote."""
  return _gfile().isdir(path) if is_remote(path) else os.path.isdir(path)


def names_in(folder: str) -> list[str]:
  """Returns the names of a folder's entries; [] if it does not exist."""
  if not is_remote(folder):
    return os.listdir(folder) if os.path.isdir(folder) else []
  # gs:// lists folders with a trailing slash.
  names = _gfile().listdir(folder) if is_folder(folder) else []
  return [name.rstrip("/") for name in names]


def make_folder(path: str) -> None:
  """Creates a folder and its missing parents.

  Raises InputError: the folder or a parent exists as a file.
  """
  if is_remote(path):
    _gfile().makedirs(path)
    return
  _make_folder(os.path.join(path, ""))


def size(path: str) -> int:
  """Returns the size of a local or remote file in bytes.

  Raises InputError: it is missing, or is a folder, pipe, device or LFS pointer.
  """
  check_regular(path)
  with open_for_reading(path) as stream:
    return stream.seek(0, os.SEEK_END)


def check_regular(path: str) -> None:
  """Raises InputError for a local folder, pipe or device."""
  if not is_remote(path) and os.path.exists(path) and not os.path.isfile(path):
    raise errors.InputError(
      f"{path} is not a regular file, and cannot be read in parts: write its "
      "content to a file, and give that file"
    )


def expand_file_patterns(patterns: str) -> list[str]:
  """Returns the files that a flag's value names.

  Raises InputError: a pattern matches no file.

  Args:
    patterns: comma-separated file names or glob patterns, in which * and ?
      match no dot at the start of a local name, as in a shell. A pattern that
      is the exact name of a file or folder matches only that.

  Returns:
    File names; the matches of each pattern are sorted. Unlike the original:
    their order does not depend on the file system.
  """
  files = []
  for pattern in [patterns] if exists(patterns) else patterns.split(","):
    matches = _matches(pattern.strip())
    if not matches:
      raise errors.InputError(f"no file matches {pattern.strip()!r}")
    files.extend(matches)
  return files


def _matches(pattern: str) -> list:
  if exists(pattern):
    return [pattern]
  if is_remote(pattern):
    return sorted(_gfile().glob(pattern))
  folder, name = os.path.split(pattern)
  if os.path.isdir(folder):
    pattern = os.path.join(glob.escape(folder), name)
  return sorted(glob.glob(pattern))


def literal_name(path: str) -> str:
  r"""Returns a name that TensorFlow's readers do not expand as a pattern.

  `path` is a file, a folder or the prefix of a checkpoint. If it contains [ or
  (not on Windows) \, this function links its files in a temporary folder until
  the process ends, and returns the links' path. Otherwise, it returns `path`.
  """
  special = r"\[" if _IS_WINDOWS else r"[\[\\]"
  if is_remote(path) or not re.search(special, path):
    return path
  folder, name = os.path.split(os.path.abspath(path))
  links = tempfile.mkdtemp()
  atexit.register(shutil.rmtree, links, ignore_errors=True)
  for entry in os.listdir(folder):
    if entry.startswith(name):
      link = os.path.join(links, "path" + entry[len(name) :])
      os.symlink(os.path.join(folder, entry), link)
  return os.path.join(links, "path")


def listed(names: list[str]) -> str:
  """Joins names with commas; abridges more than four as "a, b, ..., z"."""
  return ", ".join(names if len(names) <= 4 else [*names[:2], "...", names[-1]])


def are_all_shards(names: Collection[str]) -> bool:
  """Whether `names` (NAME-00000-of-00003 ...) are a complete set of shards."""
  totals = {name.removesuffix(".gz")[-5:] for name in names}
  return totals == {f"{len(names):05}"}


def names_and_sizes(paths: list[str]) -> str:
  """Summarizes names and sizes, to detect changes without reading the files.

  It includes the files of folders, but not of subfolders. Example: "3 files,
  4096 bytes, checksum of names and sizes 0d4c...".
  """
  gfile, files = _gfile(), []
  for path in paths:
    inside = gfile.listdir(path) if gfile.isdir(path) else [""]
    files += [os.path.join(path, name) if name else path for name in inside]
  # Sorted, because the order within a folder depends on the file system.
  sizes = sorted(
    (os.path.basename(name), gfile.stat(name).length)
    for name in files
    if not gfile.isdir(name)
  )
  listed = "".join(f"{name} {size}\n" for name, size in sizes)
  return (
    f"{len(sizes)} files, {sum(size for _, size in sizes)} bytes, checksum of "
    f"names and sizes {hashlib.sha256(listed.encode('utf-8')).hexdigest()[:16]}"
  )


def open_for_reading(path: str) -> io.BufferedReader:
  """Returns a stream of bytes; InputError: no such file, or an LFS pointer."""
  if not exists(path):
    raise errors.InputError(f"no such file: {path}")
  if is_remote(path):
    # Each request is a round trip; a large buffer keeps requests few.
    return io.BufferedReader(_RemoteFile(path), _BLOCK_BYTES)
  stream: io.BufferedReader = io.BufferedReader(_LocalFile(path), _BLOCK_BYTES)
  try:
    # Only a small file can be a pointer. Others may be pipes, whose first
    # bytes may not be there yet.
    if _is_small(path) and stream.peek().startswith(_POINTER):
      raise _pointer(path)
  except BaseException:
    stream.close()
    raise
  return stream


def open_for_appending(path: str) -> Any:
  """Returns a stream that appends bytes to a local or remote file.

  If the disk is full, a local stream keeps what it could not write, and writes
  it with the next flush.
  """
  return _gfile().GFile(path, "ab") if is_remote(path) else open(path, "ab")


def refuse_pointer(path: str) -> None:
  """Raises InputError for a pointer file of Git LFS."""
  if _is_small(path):
    open_for_reading(path).close()


def _is_small(path: str) -> bool:
  return os.path.isfile(path) and os.path.getsize(path) < _POINTER_BYTES


def _pointer(path: str) -> errors.InputError:
  return errors.InputError(
    f"{path} is a Git LFS pointer, not the file itself; run git lfs pull, or "
    "download the file"
  )


def refuse_packed(path: str, head: bytes) -> None:
  """Raises InputError if `head`, a file's first bytes, shows compression."""
  formats = ((b"\x1f\x8b", "gzip"), (b"PK\3\4", "zip, like Excel's .xlsx"))
  for mark, name in formats:
    if head.startswith(mark):
      raise packed(path, name)


def packed(path: str, name: str) -> errors.InputError:
  """Returns the InputError for a text compressed in the format `name`."""
  return errors.InputError(
    f"{path} is compressed ({name}); decompress it, or save it as text"
  )


class _LocalFile(io.FileIO):
  """Reads a file; errors of a failing disk have its name."""

  def readinto(self, buffer: Any) -> int:
    with named(self.name):
      return super().readinto(buffer)

  def readall(self) -> bytes:
    with named(self.name):
      return super().readall()


@contextlib.contextmanager
def named(path: str, temporary: str | None = None) -> Iterator[None]:
  """Gives OSErrors of a block the name of a file.

  These are errors without a name, as for a full disk, and errors that name the
  file `temporary`.
  """
  try:
    yield
  except OSError as error:
    if error.errno is not None and error.filename in (None, temporary):
      error.filename, error.filename2 = path, None
    raise


class _RemoteFile(io.RawIOBase):
  r"""Reads the unchanged bytes of a file with TensorFlow.

  GFile removes each "\r" from the lines that it returns, so offsets in the file
  cannot be computed from the lengths of its lines.
  """

  def __init__(self, path: str):
    super().__init__()
    self._file = _gfile().GFile(path, "rb")

  def readable(self) -> bool:
    return True

  def seekable(self) -> bool:
    return True

  def readinto(self, buffer) -> int:
    data = self._file.read(len(buffer))
    buffer[: len(data)] = data
    return len(data)

  def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
    self._file.seek(offset, whence)
    return self._file.tell()

  def close(self) -> None:
    self._file.close()
    super().close()


def read_lines(
  path: str, opened: Callable[[str], io.BufferedReader] = open_for_reading
) -> Iterator[tuple[int, str]]:
  r"""Yields (line number from 1, line without its "\n") of a UTF-8 file.

  As in the original: lines end at "\n" alone; other line separators of
  Unicode stay in the line. Unlike the original: "\r" stays in the line, too, as
  white space. TensorFlow 1 dropped it everywhere, which joined the words on
  both sides ("top\rdown" -> "topdown").
  Unlike the original: a byte-order mark at the start is skipped.

  Args:
    path: the file.
    opened: function that returns the stream of bytes of `path`.

  Raises:
    InputError: the file is missing, compressed or an LFS pointer; a line is not
      UTF-8 (its number is named); or all lines end in "\r" alone.
  """
  with opened(path) as stream:
    for number, line in enumerate(stream, 1):
      if number == 1:
        line = _without_mark(path, line)
      try:
        yield number, line.decode("utf-8").removesuffix("\n")
      except UnicodeDecodeError as error:
        raise not_utf8(path, number, error) from error


def _without_mark(path: str, line: bytes):
  """Returns the first line, bytes, without a byte-order mark."""
  # Without "\n", `line` is the whole file, and a "\r" inside it ends a line.
  if not line.endswith(b"\n") and b"\r" in line.rstrip(b"\r"):
    raise errors.InputError(
      f"{path}: lines end in carriage returns alone, as in files of old Macs; "
      "convert them: tr '\\r' '\\n' < FILE > NEW"
    )
  if not line.startswith(codecs.BOM_UTF8):
    return line
  errors.warn_once(f"{path}: the byte-order mark at its start is skipped")
  return line.removeprefix(codecs.BOM_UTF8)


def size_and_sha256(path: str) -> tuple[int, str]:
  """Returns the size of a file in bytes, and its SHA-256 in hexadecimal."""
  size, digest = 0, hashlib.sha256()
  with open_for_reading(path) as stream:
    # Reads blocks, because a checkpoint may not fit into memory.
    while block := stream.read(_BLOCK_BYTES):
      size += len(block)
      digest.update(block)
  return size, digest.hexdigest()


def not_utf8(
  path: str, number: int, error: UnicodeDecodeError
) -> errors.InputError:
  """Returns the InputError for a UnicodeDecodeError in a line of a file.

  Raises InputError: the file is compressed.
  """
  if number == 1:
    refuse_packed(path, error.object)
  return errors.InputError(
    f"{path}:{number}: not UTF-8 (byte {error.start} of the line is "
    f"0x{error.object[error.start]:02x}); convert the file to UTF-8"
  )


def temporary_path(path: str) -> str:
  """Returns a temporary name next to `path` that no other process uses.

  Even containers with equal process ids get different names. This function also
  removes temporary files of `path` that were left behind by killed processes.
  """
  _remove_stale_temporaries(path)
  # Example: model.ckpt-20.tmp-host-4026531836-1f0c9a7e-812, with the machine, a
  # random part and the process id.
  folder, name = os.path.split(path)
  end = f".tmp-{_machine()}-{secrets.token_hex(4)}-{os.getpid()}"
  return os.path.join(folder, _cut(name) + end)


def _cut(name: str) -> str:
  """Shortens a name so that a temporary name fits.

  A file system allows names of 255 bytes. 30 are reserved for the text around
  the machine's name, and 10 for an ending that a writer may append.
  """
  room = 255 - 40 - len(_machine())
  return os.fsencode(name)[:room].decode("utf-8", "ignore")


@functools.cache
def _machine() -> str:
  """Returns a name of the machine or container that process ids belong to.

  It is the host's name and, on Linux, the number of the PID namespace, because
  containers may share a host name. It has letters, digits, _ and -.
  """
  name = re.sub(r"[^\w-]", "_", socket.gethostname())
  with contextlib.suppress(OSError):
    name += "-" + re.sub(r"\D", "", os.readlink("/proc/self/ns/pid"))
  return name


def _remove_stale_temporaries(path: str) -> None:
  """Removes temporary files and folders of processes that were killed.

  The files of running processes of this machine stay. Processes of another
  machine, and on Windows all processes, cannot be checked: their files stay
  unless they are a day old.
  """
  folder, start = os.path.split(path)
  start = _cut(start)
  if is_remote(path) or not os.path.isdir(folder or "."):
    return
  for name in os.listdir(folder or "."):
    # Matches the whole rest, because another file's name may start with `path`.
    match = name.startswith(start) and _TEMPORARY.fullmatch(name[len(start) :])
    entry = os.path.join(folder, name)
    if match and _is_stale(match, entry):
      shutil.rmtree(entry, ignore_errors=True)
      with contextlib.suppress(OSError):
        os.remove(entry)


def _is_stale(match, path: str) -> bool:
  try:
    # Process ids are meaningless on another machine, and os.kill(pid, 0) sends
    # Ctrl-C on Windows.
    if match["machine"] != _machine() or _IS_WINDOWS:
      return time.time() - os.path.getmtime(path) > _SECONDS_PER_DAY
    os.kill(int(match["pid"]), 0)  # Only checks that the process exists.
  except (ProcessLookupError, OverflowError):
    return True
  # The process is another user's, or the file is gone.
  except (PermissionError, FileNotFoundError):
    pass
  return False


@contextlib.contextmanager
def atomic_write(path: str) -> Iterator[str]:
  """Yields a temporary path next to `path`; renames it to `path` at the end.

  If the block raises, the temporary file is removed and `path` stays unchanged.
  A local file is synced to the disk before it is renamed, and its folder is
  created if necessary. A symbolic link stays: its target is written. For a FIFO
  or a device, the path itself is yielded. Raises InputError: `path` is a
  folder, or a parent of it is a file.
  """
  commit: Callable = _commit_local
  if is_remote(path):
    commit = functools.partial(_gfile().rename, overwrite=True)
  elif _is_special(path):
    yield path
    return
  else:
    # Replaces the target of a link, not the link.
    path = os.path.realpath(path) if os.path.islink(path) else path
    _make_folder(path)
  temporary = temporary_path(path)
  try:
    with named(path, temporary):
      yield temporary
      commit(temporary, path)
  # BaseException, because Ctrl-C must not leave a half-written file either.
  except BaseException:
    with contextlib.suppress(OSError):  # On a disk that fails, also this may.
      remove(temporary)
    raise


@contextlib.contextmanager
def new_folder(path: str) -> Iterator[str]:
  """Yields a temporary folder next to `path`; renames it to `path` at the end.

  Its files are on the disk before they get their final names. If the block or a
  renaming fails, the temporary folder is removed, and `path` stays empty or
  missing. Raises InputError: `path` is remote, is neither new nor an empty
  folder, or is below a file.
  """
  path = path.rstrip(f"/{os.sep}") or path
  if is_remote(path):
    raise errors.InputError(
      f"{path} is not on a local disk; give a local folder, then copy it"
    )
  stays = _must_stay(path)
  # A folder that stays may be a mount point: rename within its file system.
  temporary = temporary_path(os.path.join(path, "new") if stays else path)
  if os.path.exists(path) and (not os.path.isdir(path) or os.listdir(path)):
    raise errors.InputError(f"{path} already exists; give a new folder")
  _make_folder(path)
  try:
    with named(path, temporary):
      os.mkdir(temporary)
      yield temporary
      for folder, _, names in os.walk(temporary, topdown=False):
        for name in [*names, ""]:
          sync(os.path.join(folder, name))
      if stays:
        _move_all(temporary, path)
      else:
        # Some systems cannot rename a folder to the name of an existing folder.
        with contextlib.suppress(FileNotFoundError):
          os.rmdir(path)
        os.rename(temporary, path)
  finally:
    shutil.rmtree(temporary, ignore_errors=True)
  try:
    sync(path if stays else os.path.dirname(path) or ".")
  except OSError as error:
    logging.warning(
      "%s is complete, but may be lost if the system stops now: %s",
      path,
      error.strerror,
    )


def _move_all(source: str, target) -> None:
  """Moves a folder's entries to an empty folder, all or none."""
  moved: list[str] = []
  try:
    for name in os.listdir(source):
      os.rename(os.path.join(source, name), os.path.join(target, name))
      moved.append(name)
  except BaseException:
    for name in moved:
      with contextlib.suppress(OSError):
        os.rename(os.path.join(target, name), os.path.join(source, name))
    raise


def _must_stay(path: str):
  """Whether a folder cannot be replaced by another of the same name."""
  return os.path.isdir(path) and (
    os.path.islink(path)
    or os.path.ismount(path)
    or os.path.samefile(path, ".")
    or not os.access(os.path.dirname(path) or ".", os.W_OK)
  )


def _is_special(path: str) -> bool:
  """Whether `path` is a FIFO or a device; InputError if it is a folder."""
  if os.path.isdir(path):
    raise errors.InputError(
      f"cannot write {path}: it is a folder; give the name of a file"
    )
  return os.path.exists(path) and not os.path.isfile(path)


def remove(path: str) -> None:
  """Removes a file, local or remote, if it exists."""
  if not is_remote(path):
    with contextlib.suppress(FileNotFoundError):
      os.remove(path)
    return
  import tensorflow as tf

  with contextlib.suppress(tf.errors.OpError):
    tf.io.gfile.remove(path)


def _make_folder(path: str) -> None:
  try:
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
  except (FileExistsError, NotADirectoryError) as error:
    raise errors.InputError(
      f"cannot write {path}: {error.filename} is not a folder"
    ) from error


def _commit_local(temporary: str, path: str) -> None:
  # Without this, the renamed file could be empty after a power cut.
  sync(temporary)
  os.replace(temporary, path)
  # Without this, the renaming itself could be lost.
  sync(os.path.dirname(path) or ".")


def sync(path: str) -> None:
  """Waits until a file, or a folder's list of names, is on the disk."""
  # Windows neither opens folders nor syncs files opened only for reading.
  if _IS_WINDOWS and os.path.isdir(path):
    return
  descriptor = os.open(path, os.O_RDWR if _IS_WINDOWS else os.O_RDONLY)
  try:
    os.fsync(descriptor)
  finally:
    os.close(descriptor)


def write_text(path: str, text: str) -> None:
  """Writes `text` to `path` in UTF-8, atomically."""
  write_bytes(path, text.encode("utf-8"))


def write_bytes(path: str, data: bytes) -> None:
  """Writes bytes to `path`, atomically."""
  with open_for_writing(path) as stream:
    stream.write(data)


@contextlib.contextmanager
def open_for_writing(path: str) -> Iterator[io.BufferedWriter]:
  """Yields a byte stream; its bytes are in `path` when the block has ended.

  Until then, and if the block raises, `path` stays unchanged.
  """
  with atomic_write(path) as temporary:
    opened = _gfile().GFile if is_remote(path) else open
    with opened(temporary, "wb") as stream:
      yield stream
