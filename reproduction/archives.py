"""Unpacks archives, and refuses files outside the folder and devices."""

import os
import shutil
import tarfile
import zipfile

from common import errors


def is_archive(path: str) -> bool:
  """Returns whether `unpack` supports a file with this name."""
  return path.endswith((".zip", ".tar.gz", ".tgz", ".tar"))


def unpack(path: str, folder: str) -> None:
  """Unpacks an archive into an existing folder.

  If the archive has a single folder at the top, its files go directly into
  `folder`. Raises InputError: the archive is damaged, too large for the disk,
  or has a member that is a device or would be outside the folder.
  """
  if not hasattr(tarfile, "data_filter"):
    raise errors.InputError(
      "archives are unpacked safely by Python 3.10.12, 3.11.4 or later; use one"
    )
  try:
    if path.endswith(".zip"):
      with zipfile.ZipFile(path) as zipped:
        # zipfile writes only within the folder, and makes links plain files.
        zipped.extractall(folder)
    else:
      with tarfile.open(path) as archive:
        archive.extractall(folder, filter="data")
  except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError) as error:
    reason = " ".join(str(error).split())  # A TarError has several lines.
    raise errors.InputError(
      f"{path} cannot be unpacked ({reason}); remove it and download it again"
    ) from error
  _lift(folder)


def _lift(folder):
  """Moves the files of a single folder in `folder` up into it."""
  # macOS adds such files to archives.
  shutil.rmtree(os.path.join(folder, "__MACOSX"), ignore_errors=True)
  entries = [name for name in os.listdir(folder) if name != ".DS_Store"]
  # The archives of the original and of GLUE have one folder.
  if len(entries) != 1 or not os.path.isdir(os.path.join(folder, entries[0])):
    return
  # Rename the folder first, because it may contain an entry with its name.
  inner = os.path.join(folder, ".unpacked")
  os.rename(os.path.join(folder, entries[0]), inner)
  for name in os.listdir(inner):
    os.rename(os.path.join(inner, name), os.path.join(folder, name))
  os.rmdir(inner)
