"""Archives of friends and of enemies."""

import contextlib
import io
import os
import stat
import tarfile
import zipfile

import pytest

from common import errors
from reproduction import archives


def write_zip(path, names, kind=0):
  with zipfile.ZipFile(path, "w") as archive:
    for name in names:
      info = zipfile.ZipInfo(name)
      info.external_attr = kind << 16
      archive.writestr(info, f"text of {name}")
  return str(path)


def write_tar(path, names, **attributes):
  with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
    for name in names:
      data = f"text of {name}".encode()
      info = tarfile.TarInfo(name)
      info.size = len(data)
      for key, value in attributes.items():
        setattr(info, key, value)
      archive.addfile(info, io.BytesIO(data))
  return str(path)


def unpacked(path, tmp_path):
  folder = tmp_path / "out"
  folder.mkdir()
  archives.unpack(path, str(folder))
  return sorted(
    str(file.relative_to(folder)) for file in folder.rglob("*")
    if file.is_file()
  )


@pytest.mark.parametrize("write, name", [
  (write_zip, "a.zip"), (write_tar, "a.tar"), (write_tar, "a.tar.gz"),
])
def test_a_single_top_folder_is_left_out(tmp_path, write, name):
  path = write(tmp_path / name, ["top/a.txt", "top/top/b.txt", "__MACOSX/x"])
  assert archives.is_archive(path)
  assert unpacked(path, tmp_path) == ["a.txt", "top/b.txt"]
  assert (tmp_path / "out" / "a.txt").read_text() == "text of top/a.txt"


def test_several_names_at_the_top_stay(tmp_path):
  path = write_zip(tmp_path / "a.zip", ["a/b.txt", "c.txt"])
  assert unpacked(path, tmp_path) == ["a/b.txt", "c.txt"]
  assert not archives.is_archive("a.txt")


@pytest.mark.parametrize("write, ending", [
  (write_zip, ".zip"), (write_tar, ".tar.gz"),
])
@pytest.mark.parametrize("name", ["../out.txt", "a/../../out.txt", "/out.txt"])
def test_nothing_outside_the_folder(tmp_path, write, ending, name):
  path = write(tmp_path / f"a{ending}", ["fine.txt", name])
  # Refused, or put into the folder.
  with contextlib.suppress(errors.InputError):
    unpacked(path, tmp_path)
  assert not list(tmp_path.parent.glob("out.txt"))
  assert {file.name for file in tmp_path.iterdir()} == {f"a{ending}", "out"}
  assert not os.path.exists("/out.txt")


@pytest.mark.parametrize("type_", [
  tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE,
])
def test_no_links_to_outside_or_devices_in_tar(tmp_path, type_):
  path = write_tar(
    tmp_path / "a.tar", ["x"], type=type_, linkname="/etc/passwd"
  )
  with pytest.raises(errors.InputError, match="be unpacked .*download it"):
    unpacked(path, tmp_path)
  assert os.listdir(tmp_path / "out") == []


def test_no_links_in_zip(tmp_path):
  path = write_zip(tmp_path / "a.zip", ["x"], kind=stat.S_IFLNK | 0o777)
  assert unpacked(path, tmp_path) == ["x"]
  assert not (tmp_path / "out" / "x").is_symlink()


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_damaged_archives(tmp_path, name):
  (tmp_path / name).write_bytes(b"no archive")
  with pytest.raises(errors.InputError, match="be unpacked .*download it"):
    unpacked(str(tmp_path / name), tmp_path)
