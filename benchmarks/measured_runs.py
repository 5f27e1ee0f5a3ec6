"""Runs commands, and measures wall and processor seconds, and memory."""

import contextlib
import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

# A script has only its own folder on the path, not the parent.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from common import errors

ROOT = pathlib.Path(__file__).resolve().parent.parent
_PAUSE = 0.05  # Seconds between two measurements of memory.


class Cost(NamedTuple):
  """Wall and processor seconds of a run, and its peak memory."""

  wall: float
  processor: float
  megabytes: float = 0.0


def set_environment(**more):
  """Sets the environment of this process and its children."""
  # As for any user, Python may write compiled modules: without them, importing
  # TensorFlow takes 3× longer.
  os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
  os.environ.update(TF_CPP_MIN_LOG_LEVEL="2", HF_HUB_OFFLINE="1", **more)


def table(name: str) -> list[dict]:
  """Returns the rows of a .csv file of this folder, as {column: text}."""
  path = ROOT / "benchmarks" / name
  with path.open(encoding="utf-8", newline="") as stream:
    return list(csv.DictReader(stream))


def ours(script: str, *switches: str, **flags) -> list:
  """Returns the command of a script of this project."""
  values = (f"--{name}={value}" for name, value in flags.items())
  return [sys.executable, ROOT / script, *switches, *values]


def run(command, *, until=None, watches_memory=False) -> tuple[str, Cost]:
  """Runs a command; returns its standard output, and its Cost.

  When the function `until` returns True, the command is killed. Measuring
  memory slows the command a little. Raises InputError: the command failed, or
  ended before `until`.
  """
  start, before = time.monotonic(), os.times()
  with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile() as log:
    process = subprocess.Popen(
      list(map(str, command)), stdout=output, stderr=log
    )
    peak, seconds, is_reached = 0.0, {}, False
    pause = _PAUSE if until or watches_memory else None
    while process.returncode is None and not is_reached:
      if watches_memory:
        check_start = time.monotonic()
        # This misses peaks within a pause, but a batch's peak lasts longer.
        seconds_now, megabytes = usage(process.pid)
        peak, seconds = max(peak, megabytes), seconds | seconds_now
        # For `usage`, Linux visits all pages of a process. Without longer
        # pauses, that would take a fifth of a core for BERT-base.
        pause = max(_PAUSE, 50 * (time.monotonic() - check_start))
      with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(pause)
      is_reached = until is not None and until()
    process.kill()
    process.wait()
    wall, after = time.monotonic() - start, os.times()
    if not is_reached and (process.returncode or until):
      log.seek(0)
      raise errors.InputError(
        f"{' '.join(map(str, command))} ended with code {process.returncode}: "
        f"{log.read().decode('utf-8', 'replace').strip()[-2000:]}"
      )
    output.seek(0)
    # os.times counts all children that have ended, so the difference is this
    # command's time, without descendants that no parent waited for.
    processor = sum(after[2:4]) - sum(before[2:4])
    processor = max(processor, sum(seconds.values()))
    return output.read(), Cost(wall, processor, peak)


def run_ours(script: str, *switches: str, **flags) -> tuple[str, Cost]:
  """Runs a script of this project; see `ours` and `run`."""
  return run(ours(script, *switches, **flags))


def answer(command):
  """Returns the JSON value in the last line that a command prints.

  If the command fails, its error is printed, and the result is None.
  """
  try:
    return json.loads(run(command)[0].splitlines()[-1])
  except errors.InputError as error:
    print(error, file=sys.stderr)
    return None


def usage(pid):
  """Returns {pid: processor seconds} of a process and its descendants, and MB.

  Memory is Linux's Pss_Anon: it counts a shared page once, without libraries.
  """
  seconds, kilobytes, waiting = {}, 0, [pid]
  while waiting:
    folder = pathlib.Path("/proc", str(waiting.pop()))
    with contextlib.suppress(OSError):  # The process may have ended.
      for path in folder.glob("task/*/children"):
        waiting += path.read_text().split()
      # The second field is the program's name, which may contain any character.
      fields = (folder / "stat").read_text().rpartition(")")[2].split()
      ticks = int(fields[11]) + int(fields[12])  # User and system time.
      seconds[folder.name] = ticks / os.sysconf("SC_CLK_TCK")
      text = (folder / "smaps_rollup").read_text()
      kilobytes += sum(map(int, re.findall(r"Pss_Anon: +(\d+)", text)))
  return seconds, kilobytes / 1024
