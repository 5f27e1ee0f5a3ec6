"""What a command costs: wall and processor seconds, and memory."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

# Run as a script, this folder is on the path and its parent is not.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from common import errors

_SECONDS_BETWEEN_LOOKS = 0.05
# Linux walks through all pages of a process to say how much memory it has: at
# every look, that took a fifth of a core from BERT-base and its peers.
_SHARE_OF_LOOKS = 0.02


class Cost(NamedTuple):
  """Wall and processor seconds of a run, and the most memory that it had."""

  seconds: float
  processor: float
  megabytes: float


def environment(**more):
  """Returns the environment of a measured command.

  Its modules are compiled once and kept, as for any user: some tools set
  PYTHONDONTWRITEBYTECODE, with which importing TensorFlow takes three times as
  long.
  """
  kept = {
    name: value
    for name, value in os.environ.items()
    if name != "PYTHONDONTWRITEBYTECODE"
  }
  # Nothing is downloaded while a peer is measured.
  quiet = {"TF_CPP_MIN_LOG_LEVEL": "2", "HF_HUB_OFFLINE": "1"}
  return {**kept, **quiet, **more}


def run(command, *, env=None):
  """Runs a command; returns its standard output, and its Cost without memory.

  Unlike `measure`, it does not look at the command, which takes time from it.

  Args:
    command: list of strings and paths.
    env: its environment; None: `environment()`.

  Raises:
    InputError: the command failed; with the end of what it said.
  """
  start, reaped = time.monotonic(), _reaped_processor_seconds()
  ended = subprocess.run(
    list(map(str, command)), capture_output=True, text=True,
    env=env or environment(),
  )
  if ended.returncode:
    name = " ".join(map(str, command))
    raise errors.InputError(f"{name} failed: {ended.stderr[-2000:]}")
  # All children that have ended are counted: the difference is this one.
  processor = _reaped_processor_seconds() - reaped
  return ended.stdout, Cost(time.monotonic() - start, processor, 0.0)


def measure(command, *, env=None, until=None):
  """Runs a command; returns its Cost.

  Memory is what Linux calls Pss_Anon, of all processes of the command
  together: a page that two of them share counts once, libraries do not.

  Args:
    command: list of strings and paths.
    env: its environment; None: `environment()`.
    until: a function without arguments; the command is ended, and its cost
      until then returned, as soon as it returns True. None: it runs to its
      end.

  Raises:
    InputError: the command failed, or ended before `until`; with its last line.
  """
  start, reaped = time.monotonic(), _reaped_processor_seconds()
  with tempfile.TemporaryFile() as log:
    process = subprocess.Popen(
      list(map(str, command)), stdout=subprocess.DEVNULL, stderr=log,
      env=env or environment(),
    )
    most, processor, is_reached, next_look = 0.0, {}, False, start
    while process.poll() is None and not is_reached:
      is_reached = until is not None and until()
      # Data loaders and compilers of peers are processes of their own.
      family = descendants(process.pid)
      for pid in family:
        processor[pid] = processor_seconds(pid) or processor.get(pid, 0.0)
      # A peak between two looks is missed; allocations of a batch last longer.
      look = time.monotonic()
      if look >= next_look:
        most = max(most, sum(map(megabytes_of, family)))
        end = time.monotonic()
        next_look = end + (end - look) / _SHARE_OF_LOOKS
      time.sleep(_SECONDS_BETWEEN_LOOKS)
    seconds = time.monotonic() - start
    if is_reached:
      process.terminate()
      process.wait()
      return Cost(seconds, sum(processor.values()), most)
    if process.returncode or until:
      log.seek(0)
      tail = log.read().decode("utf-8", "replace").strip().split("\n")[-1]
      name = " ".join(map(str, command))
      raise errors.InputError(
        f"{name} ended with code {process.returncode}: {tail}"
      )
  # The last look may be a moment old; what the system counted is not, but it
  # leaves out processes whose parent did not wait for them.
  waited = _reaped_processor_seconds() - reaped
  return Cost(seconds, max(waited, sum(processor.values())), most)


def _reaped_processor_seconds():
  used = resource.getrusage(resource.RUSAGE_CHILDREN)
  return used.ru_utime + used.ru_stime


def descendants(pid):
  """Returns a process's number and those of all that came from it."""
  found = [pid]
  # The list grows while it is read: children of children come in too.
  for parent in found:
    try:
      tasks = os.listdir(f"/proc/{parent}/task")
      for task in tasks:
        with open(f"/proc/{parent}/task/{task}/children") as stream:
          found.extend(map(int, stream.read().split()))
    except OSError:  # It has ended.
      continue
  return found


def megabytes_of(pid):
  """Returns the memory, in MB, that a process alone holds; 0 if it ended."""
  try:
    with open(f"/proc/{pid}/smaps_rollup") as stream:
      lines = [line.split() for line in stream if "Pss_Anon" in line]
  except OSError:
    return 0.0
  return int(lines[0][1]) / 1024 if lines else 0.0


def processor_seconds(pid):
  """Returns what a process used so far, None if it has ended."""
  try:
    with open(f"/proc/{pid}/stat") as stream:
      # The second field is the program's name, which may hold any character.
      fields = stream.read().rpartition(")")[2].split()
  except OSError:
    return None
  # User and system time, in ticks.
  return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def import_code(script):
  """Returns Python code that imports what a script does when it is run.

  Args:
    script: pathlib.Path.
  """
  is_lazy = "imports_tensorflow=False" in script.read_text(encoding="utf-8")
  # As command.parse_flags does. Under another name than __main__ a script
  # imports and runs nothing.
  return (
    f"from common import command; command.begin_imports({not is_lazy}); "
    f"import runpy; runpy.run_path({str(script)!r})"
  )
