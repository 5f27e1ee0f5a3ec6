"""What the experiments share: commands that run once, scores, short tasks."""

import itertools
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

# Run as a script, this folder is on the path and its parent is not.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import measured_runs

from common import errors, file_io

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(script, *flags, done):
  """Runs a script of this project, unless it has run already.

  Args:
    script: its file name.
    *flags: strings.
    done: path of a file that the script writes at its end.

  Raises:
    InputError: it failed; its output is kept next to `done`.
  """
  if done.exists():
    return
  command = [sys.executable, str(ROOT / script), *flags]
  print(" ".join(["python", script, *flags]), flush=True)
  log = done.parent / f"{done.name}.log"
  log.parent.mkdir(parents=True, exist_ok=True)
  with open(log, "w", encoding="utf-8") as stream:
    returned = subprocess.run(
      command, env=measured_runs.environment(), stdout=stream, stderr=stream
    )
  if returned.returncode:
    raise errors.InputError(f"{script} failed: see {log}")
  log.unlink()


def read_results(path):
  """Returns a dict from the names of a file of `name = value` to numbers."""
  lines = path.read_text(encoding="utf-8").splitlines()
  pairs = [line.split(" = ") for line in lines]
  return {name: float(value) for name, value in pairs}


def first_rows(source, rows, made):
  """Makes a task's folder with the first rows of its train.tsv.

  Args:
    source: a folder of GLUE with a line of column names in train.tsv.
    rows: how many; None: all, and `source` is returned.
    made: the new folder; its dev.tsv is whole.

  Returns:
    The folder to train on.
  """
  if rows is None:
    return source
  made.mkdir(parents=True, exist_ok=True)
  shutil.copy(source / "dev.tsv", made)
  with open(source / "train.tsv", encoding="utf-8") as stream:
    kept = "".join(itertools.islice(stream, rows + 1))
  file_io.write_text(str(made / "train.tsv"), kept)
  return made


def spread(values):
  """Returns `median ± standard deviation` of shares, in points of 100."""
  deviation = statistics.stdev(values) if len(values) > 1 else 0.0
  return f"{100 * statistics.median(values):.1f} ± {100 * deviation:.1f}"


def write_into(page, name, text):
  """Writes text between the markers of a page; does nothing without a page."""
  import table_rows

  if page is not None:
    old = page.read_text(encoding="utf-8")
    file_io.write_text(str(page), table_rows.replace_table(old, text, name))
