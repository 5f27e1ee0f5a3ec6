"""Words per second and memory of create_pretraining_data.py.

  python benchmarks/pretraining_data_speed.py --text=TEXT --vocab=VOCAB_TXT \
    --original=CHECKOUT_OF_GOOGLE_RESEARCH_BERT

Runs the script as a user does, on the whole text and in shards over one and
two processes, and the original's where a checkout is given: on this Python,
where TensorFlow 2 plays TensorFlow 1, and on --original_python if that is
given, one with TensorFlow 1.15. What each needs for a text of two lines, which
is mostly importing TensorFlow, is shown separately from what the text adds.
"""

import os
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from absl import app, flags

# Run as a script, this folder is on the path and its parent is not.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from common import errors

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

FLAGS = flags.FLAGS

flags.DEFINE_string("text", None, "UTF-8 text, one sentence a line.")
flags.DEFINE_string("vocab", None, "Vocabulary file.")
flags.DEFINE_string("original", None, "Checkout of google-research/bert.")
flags.DEFINE_string(
  "original_python", None, "A Python with TensorFlow 1.15 for the original."
)
flags.DEFINE_integer("dupe_factor", 5, "Passes through the text.")
flags.DEFINE_list(
  "extra", [], "More flags for every run, without --: do_lower_case=False."
)
flags.DEFINE_integer("shards", 8, "Shards of the runs in shards.")
flags.mark_flags_as_required(["text", "vocab"])

_SECONDS_BETWEEN_LOOKS = 0.05
_TINY_TEXT = "one sentence\nand another one\n"

# The original as it is, with whichever TensorFlow there is as version 1.
_RUN_ORIGINAL = """
import runpy, sys
import tensorflow.compat.v1
sys.modules["tensorflow"] = tensorflow.compat.v1
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


class Cost(NamedTuple):
  """Wall and processor seconds of a run, and the most memory that it had."""

  seconds: float
  processor: float
  megabytes: float


def measure(command):
  """Runs a command; returns its Cost.

  Memory is what Linux calls Pss_Anon, of all processes of the command
  together: a page that two of them share counts once, libraries do not.
  """
  start = time.monotonic()
  process = subprocess.Popen(
    command,
    stdout=subprocess.DEVNULL,
    stderr=subprocess.PIPE,
    env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"},
  )
  with tempfile.TemporaryFile() as log:
    os.set_blocking(process.stderr.fileno(), False)
    most, processor = 0.0, {}
    while process.poll() is None:
      family = descendants(process.pid)
      most = max(most, sum(map(megabytes_of, family)))
      for pid in family:
        processor[pid] = processor_seconds(pid) or processor.get(pid, 0.0)
      log.write(process.stderr.read() or b"")
      time.sleep(_SECONDS_BETWEEN_LOOKS)
    seconds = time.monotonic() - start
    if process.returncode:
      log.seek(0)
      tail = log.read().decode("utf-8", "replace").strip().split("\n")[-1]
      raise errors.InputError(f"{' '.join(command)} failed: {tail}")
  return Cost(seconds, sum(processor.values()), most)


def descendants(pid):
  """Returns a process's number and those of all that came from it."""
  found = [pid]
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
      fields = stream.read().rpartition(")")[2].split()
  except OSError:
    return None
  return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def commands(text, folder):
  """Yields (name, command) of all runs on a text."""
  flags_for_all = [
    f"--input_file={text}",
    f"--vocab_file={FLAGS.vocab}",
    f"--dupe_factor={FLAGS.dupe_factor}",
    *(f"--{flag}" for flag in FLAGS.extra),
  ]
  ours = [sys.executable, os.path.join(ROOT, "create_pretraining_data.py")]
  yield "ours", [*ours, *flags_for_all, f"--output_file={folder}/whole"]
  size = os.path.getsize(text) / 1e6 / FLAGS.shards
  for processes in (1, 2):
    yield f"ours, shards, {processes} process(es)", [
      *ours,
      *flags_for_all,
      f"--output_file={folder}/{processes}",
      f"--shard_size_mb={size * 1.001}",
      f"--num_processes={processes}",
    ]
  pythons = {"original, this Python": sys.executable}
  if FLAGS.original_python:
    pythons["original, its Python"] = FLAGS.original_python
  for name, python in pythons.items() if FLAGS.original else ():
    script = os.path.join(FLAGS.original, "create_pretraining_data.py")
    yield name, [
      python, "-c", _RUN_ORIGINAL, script, *flags_for_all,
      f"--output_file={folder}/original",
    ]


def main(_):
  with open(FLAGS.text, encoding="utf-8") as stream:
    num_words = sum(len(line.split()) for line in stream)
  print(f"{FLAGS.text}: {num_words:,} words, dupe_factor {FLAGS.dupe_factor}")
  print(
    f"{'':26}{'seconds':>9}{'start':>9}{'words/s':>11}{'CPU s':>9}"
    f"{'start':>9}{'words/s':>11}{'peak MB':>9}{'start':>9}{'added':>9}"
  )
  with tempfile.TemporaryDirectory() as folder:
    tiny = os.path.join(folder, "tiny.txt")
    with open(tiny, "w") as stream:
      stream.write(_TINY_TEXT)
    os.mkdir(os.path.join(folder, "tiny"))
    starts = dict(commands(tiny, os.path.join(folder, "tiny")))
    for name, command in commands(FLAGS.text, folder):
      start, cost = measure(starts[name]), measure(command)
      print(table_row(name, num_words, start, cost), flush=True)


def table_row(name, num_words, start, cost):
  """Returns a contender's row; `start` is what the start of it alone costs."""
  cells = [f"{name:26}"]
  for before, all_of_it in zip(start[:2], cost[:2]):
    rate = num_words / max(all_of_it - before, 1e-3)
    cells += [f"{all_of_it:9.1f}{before:9.1f}{rate:11,.0f}"]
  added = cost.megabytes - start.megabytes
  cells += [f"{cost.megabytes:9.0f}{start.megabytes:9.0f}{added:9.0f}"]
  return "".join(cells)


if __name__ == "__main__":
  app.run(errors.report_input_errors(main))
