"""The lock on a folder: held, refused, stale, taken over."""

import json
import os
import pathlib
import subprocess
import time

import pytest
import tensorflow as tf

from common import errors, folder_lock, process_identity


def write_lock(folder, **changes):
  """Writes the lock that this process would hold, but for some changes."""
  folder_lock.acquire(str(folder))
  path = pathlib.Path(folder, folder_lock.FILE)
  owner = json.loads(path.read_text())
  folder_lock.release(str(folder))
  path.write_text(json.dumps({**owner, **changes}))
  return path


def test_the_lock_of_a_live_process_holds_and_that_of_a_killed_one_does_not(
  tmp_path,
):
  holder = subprocess.Popen(["sleep", "1000"])
  started = process_identity.start_time(holder.pid)
  write_lock(tmp_path, pid=holder.pid, process_start=started)
  try:
    refusal = f"in use by process {holder.pid} on .*, which started 2"
    with pytest.raises(errors.InputError, match=refusal):
      folder_lock.acquire(str(tmp_path))
    assert folder_lock.is_in_use(str(tmp_path))
  finally:
    holder.kill()
  # Not waited for yet: a zombie holds nothing.
  os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
  assert not folder_lock.is_in_use(str(tmp_path))
  folder_lock.acquire(str(tmp_path))
  holder.wait()
  folder_lock.acquire(str(tmp_path))  # Held already.
  assert folder_lock.is_held(str(tmp_path))
  folder_lock.release(str(tmp_path))
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
  "changes",
  [
    {"process_start": 1},  # The process id was given again.
    {"boot": "another"},  # The machine was started again.
  ],
)
def test_the_same_process_id_is_not_the_same_process(tmp_path, changes):
  path = write_lock(tmp_path, **changes)
  folder_lock.acquire(str(tmp_path))
  owner = folder_lock._read(str(path))
  assert owner["pid"] == os.getpid()
  assert {key: owner[key] for key in changes} != changes
  folder_lock.release(str(tmp_path))
  assert not path.exists()


def test_a_lock_of_another_machine_holds_while_it_is_touched(
  tmp_path, monkeypatch
):
  monkeypatch.setattr(folder_lock, "STALE_SECONDS", 1.5)
  monkeypatch.setattr(folder_lock, "_POLL_SECONDS", 0.05)
  path, times = write_lock(tmp_path, host="elsewhere", pid=7), []
  modified = folder_lock._modified

  def touched(name):
    times.append(name)
    if len(times) == 5:
      os.utime(path, (time.time() + 5, time.time() + 5))
    return modified(name)

  with monkeypatch.context() as patch:
    patch.setattr(folder_lock, "_modified", touched)
    with pytest.raises(errors.InputError, match="process 7 on elsewhere"):
      folder_lock.acquire(str(tmp_path))
  os.utime(path)
  began = time.monotonic()
  folder_lock.acquire(str(tmp_path))
  assert 1.0 < time.monotonic() - began < 30.0
  folder_lock.release(str(tmp_path))


def test_held_locks_are_touched(tmp_path, monkeypatch):
  folder_lock.acquire(str(tmp_path))
  path = tmp_path / folder_lock.FILE
  os.utime(path, (0, 0))
  folder_lock._touch(str(path), json.loads(path.read_text()))
  assert time.time() - path.stat().st_mtime < 60
  # One that was taken over is not.
  os.utime(path, (0, 0))
  folder_lock._touch(str(path), {"pid": 1})
  assert path.stat().st_mtime == 0
  # What the end of the process calls.
  folder_lock._release_all()
  assert not path.exists()


def test_a_lock_that_cannot_be_read_counts_until_it_is_old(tmp_path):
  path = tmp_path / folder_lock.FILE
  path.write_text("")
  os.utime(path, (0, 0))
  folder_lock.acquire(str(tmp_path))
  assert folder_lock._read(str(path))["pid"] == os.getpid()
  folder_lock.release(str(tmp_path))


def test_a_new_lock_is_not_removed_as_a_stale_one(tmp_path):
  path = write_lock(tmp_path, pid=1)
  stale = {**folder_lock._read(str(path)), "pid": 2}
  before = path.read_text()
  folder_lock._remove_stale(str(path), stale)
  assert path.read_text() == before
  assert os.listdir(tmp_path) == [folder_lock.FILE]


def test_remote_folders(tmp_path, monkeypatch):
  monkeypatch.setattr(folder_lock, "_POLL_SECONDS", 0.0)
  folder = f"ram://{tmp_path.name}"
  tf.io.gfile.makedirs(folder)
  folder_lock.acquire(folder)
  path = f"{folder}/{folder_lock.FILE}"
  owner = folder_lock._read(path)
  folder_lock._touch(path, owner)
  assert folder_lock._read(path) == owner
  folder_lock.release(folder)
  assert not tf.io.gfile.exists(path)
  with tf.io.gfile.GFile(path, "w") as stream:
    stream.write(json.dumps({**owner, "pid": 1, "process_start": None}))
  with pytest.raises(errors.InputError, match="in use by process 1 "):
    folder_lock.acquire(folder)


def test_who_runs():
  pid = os.getpid()
  started = process_identity.start_time(pid)
  assert process_identity.is_running(pid)
  assert process_identity.is_running(pid, started)
  assert not started or not process_identity.is_running(pid, started + 1)
  ended = subprocess.Popen(["true"])
  ended.wait()
  assert not process_identity.is_running(ended.pid)
