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
_JUNK = ("__MACOSX", ".DS_Store")


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
      members = {
        name: member
        for name, member in _members(archive)
        if not set(pathlib.PurePosixPath(name).parts) & set(_JUNK)
      }
      _check(path, members, folder)
      for member in members.values():
        archive.extract(member, folder)
  except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError) as error:
    reason = " ".join(str(error).split())  # tarfile's has several lines.
    raise errors.InputError(
      f"{path} cannot be unpacked ({reason}); remove it and download it again"
    ) from error
  _lift(folder)


def _members(archive):
  """Returns [(name, member)] of either kind of archive."""
  if isinstance(archive, zipfile.ZipFile):
    return [(member.filename, member) for member in archive.infolist()]
  return [(member.name, member) for member in archive]


def _check(path, members, folder):
  """Raises InputError if something of an archive must not be written."""
  for name, member in members.items():
    if isinstance(member, zipfile.ZipInfo):
      # The upper half of the attributes are those of Unix, where it was made.
      kind = stat.S_IFMT(member.external_attr >> 16)
      is_plain = kind in (0, stat.S_IFREG, stat.S_IFDIR)
    else:
      is_plain = member.isreg() or member.isdir()
    why = "" if is_plain else "is a link or a device"
    # On any system.
    inside = pathlib.PureWindowsPath(name)
    if inside.anchor or inside.drive or ".." in inside.parts:
      why = "is outside the folder"
    if why:
      raise errors.InputError(
        f"{path}: {name!r} in it {why}; nothing is unpacked: this is not the "
        "published archive"
      )
  # By the archive's own words: what unpacks to more than it says fails later.
  needed = sum(
    getattr(member, "file_size", getattr(member, "size", 0))
    for member in members.values()
  )
  free = shutil.disk_usage(folder).free
  if needed > free:
    raise errors.InputError(
      f"{path} needs {needed:,} bytes unpacked, and {folder} has {free:,}; "
      "make room, or choose another --dir"
    )


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
