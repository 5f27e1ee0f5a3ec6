"""Measures words per second and memory of create_pretraining_data.py.

  python benchmarks/pretraining_data_speed.py --text=TEXT --vocab=VOCAB_TXT \
    --original=CHECKOUT_OF_GOOGLE_RESEARCH_BERT

It runs the script on the whole text, and in shards with one and two processes.
With --original, it also runs google-research/bert's script, for which
TensorFlow 2 emulates TensorFlow 1. The columns "start" show the cost for a text
of two lines. For google-research/bert, this is mostly TensorFlow's import.
"""

import argparse
import os
import pathlib
import sys
import tempfile

import measured_runs
from common import errors
from markdown_table import header, row

_SCRIPT = "create_pretraining_data.py"
_TINY_TEXT = "one sentence\nand another one\n"
_RUN_ORIGINAL = """
import runpy, sys
import tensorflow.compat.v1
sys.modules["tensorflow"] = tensorflow.compat.v1
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def commands(arguments, folder):
  """Yields (contender, commands for a text of two lines and for --text)."""
  tiny = pathlib.Path(folder, "tiny.txt")
  tiny.write_text(_TINY_TEXT)
  contenders = {"here": measured_runs.ours(_SCRIPT)}
  for count in (1, 2) if arguments.shards else ():
    name = f"here, shards, --num_processes={count}"
    contenders[name] = measured_runs.ours(_SCRIPT, num_processes=count)
  if arguments.original:
    path = os.path.join(arguments.original, _SCRIPT)
    contenders["the original"] = [sys.executable, "-c", _RUN_ORIGINAL, path]
  for number, (name, command) in enumerate(contenders.items()):
    both = []
    for text in (tiny, arguments.text):
      flags = [f"--output_file={folder}/{number}_{len(both)}"]
      if "shards" in name:
        # Round up, so that the last few bytes do not become another shard.
        size = 1.001 * os.path.getsize(text) / 1e6 / arguments.shards
        flags.append(f"--shard_size_mb={size}")
      flags += [f"--input_file={text}", f"--vocab_file={arguments.vocab}"]
      # Hide the GPU: the script does not use it, but finding it takes time.
      hidden = ["env", "CUDA_VISIBLE_DEVICES=-1"]
      both.append([*hidden, *command, "--dupe_factor=5", *flags])
    yield name, both


def measure(both):
  """Returns the costs of a contender's whole text, and without the start."""
  start, cost = (
    measured_runs.run(command, watches_memory=True)[1] for command in both
  )
  return {
    **cost._asdict(),
    "added_wall": cost.wall - start.wall,
    "added": cost.processor - start.processor,
    "added_megabytes": cost.megabytes - start.megabytes,
  }


def cells(measures, num_words):
  """Yields the cells of a contender's row."""
  for name, added in (("wall", "added_wall"), ("processor", "added")):
    yield f"{measures[name]:.1f}"
    yield f"{measures[name] - measures[added]:.1f}"
    # The rate excludes the start.
    yield f"{num_words / max(measures[added], 1e-3):,.0f}"
  total, added = measures["megabytes"], measures["added_megabytes"]
  yield from (f"{x:.0f}" for x in (total, total - added, added))


def parse_arguments(argv=None):
  """Returns an argparse.Namespace; argv=None reads the command line."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  add = parser.add_argument
  add("--text", required=True, help="UTF-8, one sentence per line")
  add("--vocab", required=True, help="vocabulary file")
  add("--original", help="checkout of google-research/bert")
  add("--shards", type=int, default=8, help="number of shards; 0: no sharding")
  return parser.parse_args(argv)


def main():
  arguments = parse_arguments()
  measured_runs.set_environment()
  text = pathlib.Path(arguments.text).read_text(encoding="utf-8")
  num_words = len(text.split())
  print(f"{arguments.text}: {num_words:,} words\n")
  speeds = ["start", "words/s"]
  memory = ["peak MB", "start", "added"]
  print(header("", "seconds", *speeds, "CPU s", *speeds, *memory))
  with tempfile.TemporaryDirectory() as folder:
    for name, both in commands(arguments, folder):
      print(row(name, *cells(measure(both), num_words)), flush=True)


if __name__ == "__main__":
  errors.report_input_errors(lambda argv: main())(sys.argv)
