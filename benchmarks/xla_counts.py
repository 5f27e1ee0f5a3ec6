"""Counts the operations of a training step before XLA fuses them.

  python benchmarks/xla_counts.py --methods train pretrain

On a GPU, many small operations cost time that does not depend on the batch. The
width of the network does not change the numbers, so the network is narrow.
Needs TensorFlow, but no GPU.
"""

import argparse
import collections
import re

import xla_program

_COLUMNS = {
  "all": "operations",
  "scalar": "on scalars",
  "convert": "converts",
  "transpose": "transposes",
  "select": "selects",
  "one row": "products with one row",
  "rng_bit_generator": "random numbers",
  "reduce": "reductions",
}


def count(text: str) -> collections.Counter:
  """Counts the operations of a StableHLO program: {name: number}.

  Calls count as the operations of the called function. "all" leaves out
  constants, "scalar" has the operations whose result is a scalar, and "one row"
  the matrix products whose result is one row.
  """
  functions: dict[str, list[str]] = {}
  lines: list[str] = []
  for line in text.split("\n"):
    if start := re.match(r"\s*func\.func (?:\w+ )?@([\w.]+)", line):
      lines = functions.setdefault(start[1], [])
    lines.append(line)

  def counted(function: str) -> collections.Counter:
    counts: collections.Counter = collections.Counter()
    for line in functions[function]:
      if called := re.search(r"\bcall @([\w.]+)", line):
        counts += counted(called[1])
      found = re.match(
        r'\s*%[\w:, %]+ = "?(?:stablehlo|mhlo|chlo)\.(\w+)', line
      )
      if found and found[1] != "constant":
        counts.update(_kinds(found[1], re.split("->| : ", line)[-1]))
    return counts

  return counted("main")


def _kinds(operation: str, result: str):
  """Yields the names under which an operation counts."""
  yield "all"
  yield operation
  if re.search(r"tensor<[a-z]", result) and operation != "reshape":
    yield "scalar"
  if operation.startswith("dot") and "tensor<1x" in result:
    yield "one row"


def parse_arguments(argv=None):
  """Returns an argparse.Namespace; argv=None reads the command line."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  add = parser.add_argument
  methods = xla_program.METHODS
  add("--methods", nargs="+", default=["train"], choices=methods)
  add("--layers", type=int, default=12)
  add("--dtype", default="bfloat16", choices=("float32", "bfloat16"))
  add("--optimizer", default="adamw", choices=("bertadam", "adamw", "lamb"))
  add("--length", type=int, default=128)
  add("--predictions", type=int, default=20)
  return parser.parse_args(argv)


def main():
  options = parse_arguments()
  options.network = f"{options.layers} layers"
  sizes = {**xla_program.SIZES["tiny"], "num_hidden_layers": options.layers}
  xla_program.SIZES[options.network] = sizes
  print("| step |", " | ".join(_COLUMNS.values()), end=" |\n")
  print("|---" * (len(_COLUMNS) + 1), end="|\n")
  for method in options.methods:
    step, tensors, *_ = xla_program.make_step(method, options, 8)
    counts = count(xla_program.program_text(step, tensors))
    cells = [f"{counts[name]:,}" for name in _COLUMNS]
    print("|", " | ".join([method, *cells]), end=" |\n", flush=True)


if __name__ == "__main__":
  main()
