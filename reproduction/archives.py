"""Archives are unpacked safely: nothing outside the folder, no links."""

import os
import pathlib
import shutil
import stat
import tarfile
import zipfile

from common import errors

_DATA_FILTER = getattr(tarfile, "data_filter", None)
# What packing on a Mac leaves in an archive.
_JUNK = {"__MACOSX", ".DS_Store"}


def is_archive(path: str) -> bool:
  """Whether a file is one that `unpack` takes, by its name."""
  return path.endswith((".zip", ".tar.gz", ".tgz", ".tar"))


def unpack(path: str, folder: str) -> None:
  """Unpacks an archive into an existing folder.

  A single folder at the top of the archive is left out: its files come right
  into `folder`, which is left empty if the archive is refused.

  Raises:
    InputError: the archive is damaged, too large for the disk, or has a file
      with a path outside the folder, a link or a device in it.
  """
  read = zipfile.ZipFile if path.endswith(".zip") else tarfile.open
  try:
    with read(path) as archive:
      # Drops owners and unusual permissions; the oldest releases of Python 3.10
      # and 3.11 have no filters.
      archive.extraction_filter = _DATA_FILTER  # type: ignore[union-attr]
      for member in _checked(path, archive, folder):
        archive.extract(member, folder)
  except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError) as error:
    reason = " ".join(str(error).split())  # tarfile's has several lines.
    raise errors.InputError(
      f"{path} cannot be unpacked ({reason}); remove it and download it again"
    ) from error
  _lift(folder)


def _members(archive):
  """Yields (member, name, bytes, whether it is a file or a folder)."""
  if isinstance(archive, tarfile.TarFile):
    for member in archive:
      is_plain = member.isreg() or member.isdir()
      yield member, member.name, member.size, is_plain
    return
  for member in archive.infolist():
    # The upper half of the attributes are those of Unix, where it was made.
    kind = stat.S_IFMT(member.external_attr >> 16)
    is_plain = kind in (0, stat.S_IFREG, stat.S_IFDIR)
    yield member, member.filename, member.file_size, is_plain


def _checked(path, archive, folder):
  """Returns the members; InputError if one must not be written."""
  found, needed = [], 0
  for member, name, size, is_plain in _members(archive):
    # As on any system: "C:" and backslashes, too, lead out of a folder.
    inside = pathlib.PureWindowsPath(name)
    is_outside = inside.anchor or inside.drive or ".." in inside.parts
    if is_outside or not is_plain:
      why = "is outside the folder" if is_outside else "is a link or a device"
      raise errors.InputError(
        f"{path}: {name!r} in it {why}; nothing is unpacked: this is not the "
        "published archive"
      )
    if not _JUNK & {*inside.parts}:
      found.append(member)
      # By the archive's own words: what unpacks to more fails later.
      needed += size
  free = shutil.disk_usage(folder).free
  if needed > free:
    raise errors.InputError(
      f"{path} needs {needed:,} bytes unpacked, and {folder} has {free:,}; "
      "make room, or choose another --dir"
    )
  return found


def _lift(folder):
  """Moves the files of a single top folder up into `folder`."""
  entries = os.listdir(folder)
  # Archives of the original have one folder, those of GLUE too.
  if len(entries) != 1 or not os.path.isdir(os.path.join(folder, entries[0])):
    return
  # Another name first: the folder may hold one of its own name.
  inner = os.path.join(folder, ".unpacked")
  os.rename(os.path.join(folder, entries[0]), inner)
  for name in os.listdir(inner):
    os.rename(os.path.join(inner, name), os.path.join(folder, name))
  os.rmdir(inner)
