"""Words per second and memory of create_pretraining_data.py.

  python benchmarks/pretraining_data_speed.py --text=TEXT --vocab=VOCAB_TXT \
    --original=CHECKOUT_OF_GOOGLE_RESEARCH_BERT

Runs the script as a user does, on the whole text and in shards over one and
two processes, and the original's where a checkout is given: on this Python,
where TensorFlow 2 plays TensorFlow 1, and on --original_python if that is
given, one with TensorFlow 1.15. What each needs for a text of two lines, which
is mostly importing TensorFlow, is shown separately from what the text adds.
"""

import argparse
import os
import pathlib
import sys
import tempfile

import measured_runs
from common import errors

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What a run on this text costs is the start: mostly importing TensorFlow.
TINY_TEXT = "one sentence\nand another one\n"

# The original as it is, with whichever TensorFlow there is as version 1.
_RUN_ORIGINAL = """
import runpy, sys
import tensorflow.compat.v1
sys.modules["tensorflow"] = tensorflow.compat.v1
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def ours(flags):
  """Returns the command of create_pretraining_data.py with flags."""
  return [sys.executable, ROOT / "create_pretraining_data.py", *flags]


def original(checkout, flags, python=sys.executable):
  """Returns the command of the original's script.

  Args:
    checkout: folder of google-research/bert.
    flags: list of str.
    python: an interpreter with TensorFlow, 1.15 or 2.
  """
  script = pathlib.Path(checkout) / "create_pretraining_data.py"
  return [python, "-c", _RUN_ORIGINAL, script, *flags]


def commands(arguments, text, folder):
  """Yields (name, command) of all runs on a text."""
  flags = [
    f"--input_file={text}", f"--vocab_file={arguments.vocab}",
    f"--dupe_factor={arguments.dupe_factor}",
    *(f"--{flag}" for flag in arguments.extra.split(",") if flag),
  ]
  yield "ours", ours([*flags, f"--output_file={folder}/whole"])
  # A little more, so that rounding makes no shard of the last few bytes.
  size = 1.001 * os.path.getsize(text) / 1e6 / arguments.shards
  for processes in (1, 2):
    yield f"ours, shards, {processes} process(es)", ours([
      *flags, f"--output_file={folder}/{processes}",
      f"--shard_size_mb={size}", f"--num_processes={processes}",
    ])
  pythons = {"original, this Python": sys.executable}
  if arguments.original_python:
    pythons["original, its Python"] = arguments.original_python
  for name, python in pythons.items() if arguments.original else ():
    flags_of_original = [*flags, f"--output_file={folder}/original"]
    yield name, original(arguments.original, flags_of_original, python)


def parse_arguments():
  """Returns the flags, an argparse.Namespace."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  add = parser.add_argument
  add("--text", required=True, help="UTF-8, one sentence a line")
  add("--vocab", required=True, help="vocabulary file")
  add("--original", help="checkout of google-research/bert")
  add("--original_python", help="a Python with TensorFlow 1.15 for it")
  add("--dupe_factor", type=int, default=5, help="passes through the text")
  add("--extra", default="", help="more flags, without --: do_lower_case=False")
  add("--shards", type=int, default=8, help="of the runs in shards")
  return parser.parse_args()


def main():
  arguments = parse_arguments()
  text = pathlib.Path(arguments.text).read_text(encoding="utf-8")
  num_words = len(text.split())
  print(f"{arguments.text}: {num_words:,} words")
  print(
    f"{'':26}{'seconds':>9}{'start':>9}{'words/s':>11}{'CPU s':>9}"
    f"{'start':>9}{'words/s':>11}{'peak MB':>9}{'start':>9}{'added':>9}"
  )
  # All of it is work of the processor: starting a GPU would only add noise.
  env = measured_runs.environment(CUDA_VISIBLE_DEVICES="-1")
  with tempfile.TemporaryDirectory() as folder:
    tiny = pathlib.Path(folder, "tiny.txt")
    tiny.write_text(TINY_TEXT)
    os.mkdir(os.path.join(folder, "tiny"))
    # The same commands, so that each one's own start is taken off.
    starts = dict(commands(arguments, tiny, os.path.join(folder, "tiny")))
    for name, command in commands(arguments, arguments.text, folder):
      start, cost = (
        measured_runs.measure(each, env=env) for each in (starts[name], command)
      )
      print(table_row(name, num_words, start, cost), flush=True)


def table_row(name, num_words, start, cost):
  """Returns a contender's row; `start` is what the start of it alone costs."""
  cells = [f"{name:26}"]
  for before, all_of_it in zip(start[:2], cost[:2], strict=True):
    # Of what the text adds to the start.
    rate = num_words / max(all_of_it - before, 1e-3)
    cells += [f"{all_of_it:9.1f}{before:9.1f}{rate:11,.0f}"]
  added = cost.megabytes - start.megabytes
  cells += [f"{cost.megabytes:9.0f}{start.megabytes:9.0f}{added:9.0f}"]
  return "".join(cells)


if __name__ == "__main__":
  errors.report_input_errors(lambda argv: main())(sys.argv)
