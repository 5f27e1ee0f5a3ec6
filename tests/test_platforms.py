"""Simulates Windows and macOS, which lack some functions of Linux.

These tests have never run on Windows: each simulates one known difference.
"""

import builtins
import os
import sys
import time

import pytest

from common import errors, file_io, folder_lock, process_pool
from web import connections


@pytest.fixture
def windows(monkeypatch):
  """Folders cannot be opened, and only files open for writing can be synced."""
  os_open, os_fsync, writable = os.open, os.fsync, set()

  def open_file(path, flags, *mode, **options):
    if os.path.isdir(path):
      raise PermissionError(path)
    descriptor = os_open(path, flags, *mode, **options)
    if flags & os.O_RDWR:
      writable.add(descriptor)
    return descriptor

  def fsync(descriptor):
    if descriptor not in writable:
      raise OSError("bad file descriptor")
    writable.remove(descriptor)
    os_fsync(descriptor)

  def kill(pid, number):
    raise AssertionError(f"signal {number} sent to {pid}")

  monkeypatch.setattr(file_io, "_IS_WINDOWS", True)
  monkeypatch.setattr(os, "open", open_file)
  monkeypatch.setattr(os, "fsync", fsync)
  monkeypatch.setattr(os, "kill", kill)


def test_files_are_written_whole_on_windows(windows, tmp_path):
  file_io.write_text(str(tmp_path / "new" / "a.txt"), "one")
  assert os.listdir(tmp_path / "new") == ["a.txt"]


def test_temporary_files_are_removed_after_a_day_on_windows(windows, tmp_path):
  young, old = (file_io.temporary_path(str(tmp_path / "a")) for _ in "ab")
  for path in (young, old):
    open(path, "w").close()
  yesterday = time.time() - 90_000
  os.utime(old, (yesterday, yesterday))
  file_io.write_text(str(tmp_path / "a"), "one")
  assert sorted(os.listdir(tmp_path)) == ["a", os.path.basename(young)]


def test_a_backslash_in_a_path_is_kept_on_windows(windows):
  assert file_io.literal_name(r"C:\models\bert") == r"C:\models\bert"


def test_a_locked_file_cannot_be_read_on_windows(tmp_path, monkeypatch):
  """The lock works, but the error cannot name the process that holds it."""
  folder = str(tmp_path)
  builtin_open = builtins.open

  def refuse(path, *arguments, **options):
    if str(path).endswith(folder_lock.FILE):
      raise PermissionError(path)
    return builtin_open(path, *arguments, **options)

  monkeypatch.setattr(builtins, "open", refuse)
  monkeypatch.setattr(folder_lock, "WAIT_SECONDS", 0.1)
  folder_lock.acquire(folder)
  lock = folder_lock._held.pop(os.path.realpath(folder))
  with pytest.raises(errors.InputError, match="in use by another process"):
    folder_lock.acquire(folder)
  lock.release()


def test_connections_and_processors_are_counted_without_posix(monkeypatch):
  monkeypatch.setitem(sys.modules, "resource", None)
  monkeypatch.delattr(os, "sched_getaffinity", raising=False)
  assert connections.most_by_default() > 100_000
  assert process_pool.default_processes() == os.cpu_count()
