"""Archives are unpacked safely: nothing outside the folder, no links."""

import os
import pathlib
import shutil
import stat
import tarfile
import zipfile

from common import errors

# What packing on a Mac leaves in an archive.
_JUNK = ("__MACOSX", ".DS_Store")


def is_archive(path):
  """Whether a file is one that `unpack` takes, by its name."""
  return path.endswith((".zip", ".tar.gz", ".tgz", ".tar"))


def unpack(path, folder):
  """Unpacks an archive into an existing folder.

  A single folder at the top of the archive is left out: its files come right
  into `folder`.

  Args:
    path: .zip, .tar or .tar.gz.
    folder: existing folder; is left empty if the archive is refused.

  Raises:
    InputError: the archive is damaged, too large for the disk, or has a file
      with a path outside the folder, a link or a device in it.
  """
  try:
    if path.endswith(".zip"):
      with zipfile.ZipFile(path) as archive:
        _unpack_zip(archive, path, folder)
    else:
      with tarfile.open(path) as archive:
        _unpack_tar(archive, path, folder)
  except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError) as error:
    reason = " ".join(str(error).split())  # tarfile's has several lines.
    raise errors.InputError(
      f"{path} cannot be unpacked ({reason}); remove it and download it again"
    ) from error
  _lift(folder)


def _unpack_zip(archive, path, folder):
  members = [info for info in archive.infolist() if not _is_junk(info.filename)]
  for info in members:
    # The upper half of the attributes are those of Unix, where it was made.
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
      raise _refusal(path, info.filename, "is a link or a device")
    _check_name(path, info.filename)
  # By the archive's own words: what unpacks to more than it says fails later.
  _check_room(path, folder, sum(info.file_size for info in members))
  for info in members:
    archive.extract(info, folder)


def _unpack_tar(archive, path, folder):
  members = [member for member in archive if not _is_junk(member.name)]
  for member in members:
    if not (member.isreg() or member.isdir()):
      raise _refusal(path, member.name, "is a link or a device")
    _check_name(path, member.name)
  _check_room(path, folder, sum(member.size for member in members))
  # Drops owners and unusual permissions, and checks the paths once more; the
  # oldest releases of Python 3.10 and 3.11 have no filters.
  options = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
  archive.extractall(folder, members, **options)


def _is_junk(name):
  return any(part in _JUNK for part in pathlib.PurePosixPath(name).parts)


def _check_name(path, name):
  """Refuses a name that leaves the folder, on any system."""
  parts = pathlib.PurePosixPath(name.replace("\\", "/")).parts
  is_absolute = name.startswith(("/", "\\"))
  has_drive = pathlib.PureWindowsPath(name).drive
  if is_absolute or has_drive or ".." in parts:
    raise _refusal(path, name, "is outside the folder")


def _refusal(path, name, why):
  return errors.InputError(
    f"{path}: {name!r} in it {why}; nothing is unpacked: this is not the "
    "published archive"
  )


def _check_room(path, folder, needed):
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
