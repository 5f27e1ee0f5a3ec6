"""Which process wrote a file, and whether it still runs.

A process id alone does not tell: two containers number their processes
independently, and a number is given again after its process has ended. So a
process is known by its machine, its id and the moment it started.
"""

import functools
import os
import re
import socket


@functools.cache
def machine():
  """Returns a name of letters, digits, _ and - for where process ids are valid.

  That is the host's name and, on Linux, the number of the namespace of process
  ids: containers may share the host's name, but not that.
  """
  host = re.sub(r"[^\w-]", "_", socket.gethostname())
  namespace = _read_link("/proc/self/ns/pid")
  number = re.search(r"\d+", namespace)
  return f"{host}-{number.group()}" if number else host


def _read_link(path):
  try:
    return os.readlink(path)
  except OSError:
    return ""


def boot_id():
  """Returns what differs after each start of the machine; "" if unknown."""
  return _read("/proc/sys/kernel/random/boot_id").strip()


def start_time(pid):
  """Returns when a process started, in ticks since the boot; None if unknown.

  Args:
    pid: of a process of this machine.
  """
  fields = _status_fields(pid)
  return int(fields[19]) if fields else None


def is_running(pid, started=None):
  """Returns whether a process of this machine runs.

  Args:
    pid: its id.
    started: its `start_time`; None accepts any process with that id.
  """
  try:
    os.kill(pid, 0)  # Only asks whether there is one.
  except ProcessLookupError:
    return False
  except PermissionError:  # There is one, of another user.
    pass
  fields = _status_fields(pid)
  # A zombie has ended; only its parent has not asked for its exit code yet.
  if fields and fields[0] == "Z":
    return False
  # Another start time: the number was given to a later process.
  return not (fields and started) or int(fields[19]) == started


def _status_fields(pid):
  """Fields of /proc/PID/stat from the state on; [] where there is none."""
  # The second field is the program's name, which may hold any character.
  return _read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def _read(path):
  try:
    with open(path, encoding="utf-8", errors="replace") as stream:
      return stream.read()
  except OSError:
    return ""
