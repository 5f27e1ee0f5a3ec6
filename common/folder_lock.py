"""Locks a folder, to let only one process train in it, and names the owner.

The operating system releases the lock on `run.lock` (flock) when its process
ends, however it ends. The line in the file stays: it names the last owner.
Remote folders ("://") have no lock: the user must ensure that only one process
trains in them.
"""

import contextlib
import os
import socket
import time

import filelock
from absl import logging

from common import errors, file_io

FILE = "run.lock"
WAIT_SECONDS = 10
# Real path of a folder -> this process's lock.
_held: dict[str, filelock.BaseFileLock] = {}


def acquire(folder: str) -> None:
  """Locks a folder until this process ends; a second call does nothing.

  If another process has the lock, waits up to `WAIT_SECONDS` for that process
  to save and end. Raises InputError, which names the process: it has not ended.
  """
  name = os.path.realpath(folder)
  if file_io.is_remote(folder) or name in _held:
    return
  path = os.path.join(folder, FILE)
  # All threads share the lock, since it belongs to the process.
  lock = filelock.FileLock(path, thread_local=False, fallback_to_soft=False)
  try:
    try:
      lock.acquire(blocking=False)
    except filelock.Timeout:
      logging.warning(
        "%s is in use by %s: waiting up to %d seconds for it to end",
        folder,
        _owner(path),
        WAIT_SECONDS,
      )
      lock.acquire(timeout=WAIT_SECONDS)
  except filelock.Timeout as error:
    raise errors.InputError(
      f"{folder} is in use by {_owner(path)}; wait until it has ended, stop "
      "it, or give another --output_dir"
    ) from error
  except OSError as error:
    logging.warning(
      "%s cannot be locked (%s): make sure that no second process trains there",
      folder,
      error,
    )
    return
  _held[name] = lock
  since = time.strftime("%Y-%m-%d %H:%M:%S %z")
  # Windows forbids reading and writing a locked file: its owner stays unknown.
  with contextlib.suppress(PermissionError), errors.by_product(path):
    with open(path, "w", encoding="utf-8") as stream:
      stream.write(
        f"process {os.getpid()} on {socket.gethostname()}, since {since}\n"
      )


def _owner(path: str) -> str:
  line = ""
  with contextlib.suppress(PermissionError):
    with open(path, encoding="utf-8", errors="replace") as stream:
      line = stream.readline(200).strip()
  return line or "another process"


def release(folder: str) -> None:
  """Releases the lock of a folder, if this process has it."""
  if lock := _held.pop(os.path.realpath(folder), None):
    lock.release()
