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

_TINY_TEXT = "one sentence\nand another one\n"
_RUN_ORIGINAL = """
import runpy, sys
import tensorflow.compat.v1
sys.modules["tensorflow"] = tensorflow.compat.v1
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def commands(arguments, text, prefix):
  """Returns {name: command} for all runs; output names begin with `prefix`."""
  script = "create_pretraining_data.py"
  ours = [sys.executable, measured_runs.ROOT / script]
  scripts = {"here": ours}
  # Round up, so that the last few bytes do not become another shard.
  size = 1.001 * os.path.getsize(text) / 1e6 / max(arguments.shards, 1)
  for processes in (1, 2) if arguments.shards else ():
    scripts[f"here, shards, --num_processes={processes}"] = [
      *ours,
      f"--shard_size_mb={size}",
      f"--num_processes={processes}",
    ]
  if arguments.original:
    path = os.path.join(arguments.original, script)
    scripts["the original"] = [sys.executable, "-c", _RUN_ORIGINAL, path]
  return {
    name: [
      *command,
      f"--input_file={text}",
      f"--vocab_file={arguments.vocab}",
      "--dupe_factor=5",
      f"--output_file={prefix}{number}",
    ]
    for number, (name, command) in enumerate(scripts.items())
  }


def measure(arguments):
  """Yields (name, measured_runs.Cost of the start, Cost of the whole text)."""
  with tempfile.TemporaryDirectory() as folder:
    tiny = pathlib.Path(folder, "tiny.txt")
    tiny.write_text(_TINY_TEXT)
    # Run the same commands on a tiny text to measure the cost of each start.
    starts = commands(arguments, tiny, f"{folder}/tiny")
    runs = commands(arguments, arguments.text, f"{folder}/whole")
    for name, command in runs.items():
      yield (
        name,
        *(
          # Hide the GPU: the script does not use it, but finding it takes time.
          measured_runs.run(
            ["env", "CUDA_VISIBLE_DEVICES=-1", *each], watches_memory=True
          )[1]
          for each in (starts[name], command)
        ),
      )


def table_row(name, num_words, start, cost):
  """Returns a contender's row; `start` is the Cost of its start."""
  cells = []
  for before, total in zip(start[:2], cost[:2], strict=True):
    # The rate excludes the start.
    rate = num_words / max(total - before, 1e-3)
    cells += [f"{total:.1f}", f"{before:.1f}", f"{rate:,.0f}"]
  added = cost.megabytes - start.megabytes
  cells += [f"{x:.0f}" for x in (cost.megabytes, start.megabytes, added)]
  return f"| {name} | {' | '.join(cells)} |"


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
  print(
    "| | seconds | start | words/s | CPU s | start | words/s "
    "| peak MB | start | added |"
  )
  print("|---" * 10 + "|")
  for name, start, cost in measure(arguments):
    print(table_row(name, num_words, start, cost), flush=True)


if __name__ == "__main__":
  errors.report_input_errors(lambda argv: main())(sys.argv)
