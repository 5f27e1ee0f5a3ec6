"""A lock on a folder: one process writes there, and others learn which.

The lock is a file, `run.lock`, that names its process. flock alone would not
do: some shared file systems ignore it or keep it to one machine. The file is
created atomically (a hard link, which NFS supports), and its process touches
it every few seconds. A lock whose process was killed is stale and is taken
over by the next one:

  same machine     its process id is free, or of a process that started later
  another machine  nobody touched the file for `STALE_SECONDS`, by the clock of
                   the file system; a new process waits that long to find out

On remote file systems (gs://...), which have neither links nor an atomic
"create if absent" here, the file is written, and read again: two processes
that start within the same moments may both win. All else is as above.
"""

import contextlib
import json
import multiprocessing.util
import os
import threading
import time

import tensorflow as tf
from absl import logging

from common import errors, file_io, json_files, process_identity

FILE = "run.lock"
STALE_SECONDS = 60.0
_TOUCH_SECONDS = 10.0
_POLL_SECONDS = 1.0

# Path of a lock that this process holds -> its content. The locks are those
# of a process, not of an object: they end with it.
_held = {}
_changing = threading.Lock()


def acquire(folder):
  """Locks a folder for this process until it ends or calls `release`.

  Does nothing if this process holds the lock already.

  Args:
    folder: it must exist.

  Raises:
    InputError: a live process holds the lock; it is named.
  """
  path = os.path.join(folder, FILE)
  # Creating and removing may each lose to another process: look again.
  while not _is_ours(path):
    owner = _read(path)
    if owner is None:
      _create(path)
    elif _is_live(path, owner):
      raise errors.InputError(
        f"{folder} is in use by process {owner['pid']} on {owner['host']}, "
        f"which started {owner['since']}; wait until it has ended, stop it, or "
        "give another --output_dir"
      )
    else:
      logging.warning(
        "%s: its process %s on %s (since %s) has ended without removing it; "
        "taking the lock over", path, owner["pid"], owner["host"],
        owner["since"],
      )
      _remove_stale(path, owner)
  _hold(path)


def check(folder):
  """Makes sure that the lock was not taken over, say while this slept.

  Args:
    folder: any; one that this process has not locked is not looked at.

  Raises:
    InputError: another process has the lock of this one.
  """
  path = os.path.join(folder, FILE)
  if path not in _held:
    return
  owner = _read(path)
  if owner is not None and owner != _held[path]:
    raise errors.InputError(
      f"process {owner['pid']} on {owner['host']} has taken {folder} over, "
      f"since this one did not answer for {STALE_SECONDS:.0f} s; it goes on "
      "with the run"
    )


def is_held(folder):
  """Returns whether this process holds the lock of a folder."""
  return os.path.join(folder, FILE) in _held


def is_in_use(folder):
  """Returns whether another process, perhaps live, holds the lock."""
  path = os.path.join(folder, FILE)
  owner = _read(path)
  return (
    owner is not None
    and not _is_ours(path)
    and not (_is_same_machine(owner) and not _runs(owner))
  )


def release(folder):
  """Gives the lock back, if this process holds it."""
  path = os.path.join(folder, FILE)
  with _changing:
    mine = _held.pop(path, None)
  with contextlib.suppress(OSError, tf.errors.OpError, errors.InputError):
    # A child that was forked has the list, but not the lock.
    if mine and mine["pid"] == os.getpid() and _read(path) == mine:
      tf.io.gfile.remove(path)


def _release_all():
  for path in list(_held):
    release(os.path.dirname(path))


def _identity():
  pid = os.getpid()
  return {
    "host": process_identity.machine(),
    "boot": process_identity.boot_id(),
    "pid": pid,
    "process_start": process_identity.start_time(pid),
  }


def _is_ours(path):
  owner = _read(path)
  # All that identifies this process, in it; "since" may be anything.
  return owner is not None and {**owner, **_identity()} == owner


def _read(path):
  """Returns the content of a lock, None if there is none."""
  if not tf.io.gfile.exists(path):
    return None
  try:
    owner = json_files.read(path)
  except (errors.InputError, OSError, tf.errors.OpError):
    if not tf.io.gfile.exists(path):  # It was released in between.
      return None
    # Damaged, or written without a rename: an owner that nobody knows, whose
    # lock goes stale like any other.
    owner = {}
  unknown = dict.fromkeys(("host", "boot", "pid", "process_start", "since"))
  return {**unknown, **owner}


def _create(path):
  """Writes the lock, unless another process is faster."""
  content = {**_identity(), "since": time.strftime("%Y-%m-%d %H:%M:%S %z")}
  text = json.dumps(content, sort_keys=True) + "\n"
  if file_io.is_remote(path):
    file_io.write_text(path, text)
    time.sleep(_POLL_SECONDS)  # Whoever wrote last has it.
    return
  temporary = file_io.temporary_path(path)
  try:
    with open(temporary, "w", encoding="utf-8") as stream:
      stream.write(text)
      stream.flush()
      # Whole before it has its name: a reader finds all of it or nothing.
      os.fsync(stream.fileno())
    with contextlib.suppress(FileExistsError):
      _link(temporary, path)
  finally:
    os.remove(temporary)


def _link(source, target):
  """Gives a file a second name; fails if there is a file of that name."""
  try:
    os.link(source, target)
  except FileExistsError:
    raise
  except OSError:  # The file system has no hard links, as FAT and some FUSE.
    descriptor = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    with open(descriptor, "wb") as copy, open(source, "rb") as stream:
      copy.write(stream.read())


def _is_live(path, owner):
  """Whether the process of a lock runs; waits where only time can tell."""
  if _is_same_machine(owner):
    return _runs(owner)
  return _is_touched(path, owner)


def _is_same_machine(owner):
  return owner["host"] == process_identity.machine()


def _runs(owner):
  if owner["boot"] != process_identity.boot_id():
    return False
  return process_identity.is_running(owner["pid"], owner["process_start"])


def _is_touched(path, owner):
  """Waits until a lock of another machine is touched or stale."""
  # By the file system's clock, which all machines share.
  age, first = _age(path), _modified(path)
  if age < STALE_SECONDS:
    logging.warning(
      "%s is of process %s on %s: waiting up to %.0f s for a sign of life",
      path, owner["pid"], owner["host"], STALE_SECONDS - age,
    )
  until = time.monotonic() + STALE_SECONDS - age
  while time.monotonic() < until:
    time.sleep(_POLL_SECONDS)
    if _modified(path) != first:
      # Touched, or released: then the next look at it finds no lock.
      return tf.io.gfile.exists(path)
  return False


def _modified(path):
  """Returns when a file was last written, in seconds; None if it is gone."""
  try:
    return tf.io.gfile.stat(path).mtime_nsec / 1e9
  except tf.errors.OpError:
    return None


def _age(path):
  """Seconds since a lock was touched, by the clock of its file system.

  The clock of this machine may differ from that of the other one.
  """
  probe, modified = file_io.temporary_path(path), _modified(path)
  with tf.io.gfile.GFile(probe, "w") as stream:
    stream.write("x")
  now = _modified(probe)
  tf.io.gfile.remove(probe)
  return max(0.0, now - modified) if modified else STALE_SECONDS


def _remove_stale(path, owner):
  """Removes a lock, but not that of a process that was faster."""
  if file_io.is_remote(path):
    tf.io.gfile.remove(path)
    return
  temporary = file_io.temporary_path(path)
  with contextlib.suppress(FileNotFoundError):
    os.rename(path, temporary)
    # Between the look at it and the renaming, another process may have
    # removed the stale lock and made its own: give that back.
    if _read(temporary) != owner:
      with contextlib.suppress(FileExistsError):
        _link(temporary, path)
    os.remove(temporary)


def _hold(path):
  with _changing:
    # One thread touches all locks.
    is_first, content = not _held, _read(path)
    if path in _held:
      return
    _held[path] = content
  if is_first:
    # Unlike atexit, it is called in children of `multiprocessing`, too.
    multiprocessing.util.Finalize(None, _release_all, exitpriority=0)
    threading.Thread(target=_touch_all, daemon=True).start()


def _touch_all():
  """Shows other machines that this process lives, as long as it has locks."""
  while True:
    time.sleep(_TOUCH_SECONDS)
    with _changing:
      if not _held:
        return
      for path, content in _held.items():
        _touch(path, content)


def _touch(path, content):
  # A file system that fails for a moment must not end the run.
  with contextlib.suppress(OSError, tf.errors.OpError, errors.InputError):
    # Taken over by another process: touching it would keep that one alive.
    if _read(path) != content:
      return
    if file_io.is_remote(path):
      file_io.write_text(path, json.dumps(content, sort_keys=True) + "\n")
    else:
      # The content stays: a reader never sees half a file.
      os.utime(path)
