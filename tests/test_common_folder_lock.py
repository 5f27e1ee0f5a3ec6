"""A folder's lock names its owner, and is released when the owner ends."""

import os
import subprocess
import sys
import threading

import pytest

from common import errors, folder_lock

HOLDER = """
import sys
import threading
from common import folder_lock
folder_lock.acquire(sys.argv[1])
print("locked", flush=True)
sys.stdin.read()
"""


def start_holder(folder):
  """Starts another process that locks a folder."""
  process = subprocess.Popen(
    [sys.executable, "-c", HOLDER, folder],
    text=True,
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
  )
  assert process.stdout.readline() == "locked\n"
  return process


def test_a_lock_holds_while_its_process_lives(tmp_path):
  folder = str(tmp_path)
  with start_holder(folder) as holder:
    owner = rf"process {holder.pid} on \S+, since 2\d{{3}}-\d\d-\d\d .*; wait"
    with pytest.raises(errors.InputError, match=f"is in use by {owner}"):
      folder_lock.acquire(folder)
    holder.kill()
  folder_lock.acquire(folder)
  folder_lock.acquire(f"{folder}/../{tmp_path.name}")  # The same folder.
  line = (tmp_path / folder_lock.FILE).read_text()
  assert line.startswith(f"process {os.getpid()} on ")
  folder_lock.release(folder)
  with start_holder(folder) as holder:
    holder.kill()


@pytest.mark.parametrize("content", [b"", b"\xff", b'{"host": "x"}'])
def test_the_content_of_a_lock_file_locks_nothing(tmp_path, content):
  path = tmp_path / folder_lock.FILE
  path.write_bytes(content)
  folder_lock.acquire(str(tmp_path))
  assert path.read_text().startswith(f"process {os.getpid()} on ")
  folder_lock.release(str(tmp_path))
  with start_holder(str(tmp_path)) as holder:
    path.write_bytes(content)
    with pytest.raises(errors.InputError, match="is in use by "):
      folder_lock.acquire(str(tmp_path))
    holder.kill()


def test_what_is_not_locked_may_be_released(tmp_path):
  folder_lock.release(str(tmp_path))
  folder_lock.acquire(str(tmp_path))
  for _ in range(2):
    folder_lock.release(str(tmp_path))
  with start_holder(str(tmp_path)) as holder:
    holder.kill()


def test_folders_that_cannot_be_locked(tmp_path, monkeypatch, caplog):
  folder_lock.acquire("ram://folder")
  assert not caplog.records

  def fail(*args):
    raise OSError("no locks here")

  monkeypatch.setattr("fcntl.flock", fail)
  folder_lock.acquire(str(tmp_path))
  assert "cannot be locked (no locks here): make sure that" in caplog.text


def test_acquire_waits_for_a_lock_to_be_released(tmp_path, monkeypatch, caplog):
  monkeypatch.setattr(folder_lock, "WAIT_SECONDS", 30)
  with start_holder(str(tmp_path)) as holder:
    threading.Timer(0.5, holder.kill).start()
    folder_lock.acquire(str(tmp_path))
  assert f"is in use by process {holder.pid}" in caplog.text
  folder_lock.release(str(tmp_path))
