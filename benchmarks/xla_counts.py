"""Counts the operations of a training step before XLA fuses them.

  python benchmarks/xla_counts.py --methods train pretrain

On a GPU, many small operations cost time that does not depend on the batch.
Needs TensorFlow (and JAX for --plain_jax), but no GPU.
"""

import argparse
import collections
import re

import xla_program
from markdown_table import header, row

_COLUMNS = {
  "all": "operations",
  "scalar": "on scalars",
  "convert": "converts",
  "transpose": "transposes",
  "select": "selects",
  "one row": "products with one row",
  "rng_bit_generator": "random numbers",
  "reduce": "reductions",
  "no change": "without effect",
}


def count(text: str) -> collections.Counter:
  """Counts the operations of a StableHLO program: {name: number}.

  Calls count as the operations of the called function. "no change" has the
  operations that return their input: TensorFlow emits them, and the compiler
  removes them first. "all" leaves them out, and constants.
  """
  pattern = r"^ *func\.func (?:\w+ )?@([\w.]+)(.*?)(?=^ *func\.func|\Z)"
  functions = dict(re.findall(pattern, text, re.M | re.S))

  def counted(function: str) -> collections.Counter:
    counts: collections.Counter = collections.Counter()
    for line in functions[function].split("\n"):
      if called := re.search(r"\bcall @([\w.]+)", line):
        counts += counted(called[1])
      found = re.match(
        r'\s*%[\w:, %]+ = "?(?:stablehlo|mhlo|chlo)\.(\w+)', line
      )
      if found and _returns_its_input(found[1], line):
        counts["no change"] += 1
      elif found and found[1] != "constant":
        counts.update(_kinds(found[1], re.split("->| : ", line)[-1]))
    return counts

  return counted("main")


def _returns_its_input(operation: str, line: str) -> bool:
  """Returns whether a line converts to the same type, or keeps the order."""
  if operation == "convert":
    return "->" not in line
  axes = re.search(r"dims = \[([\d, ]*)\]", line)
  if operation != "transpose" or not axes:
    return False
  return axes[1].split(", ") == sorted(axes[1].split(", "))


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
  xla_program.add_program_flags(parser, "narrow")
  parser.add_argument(
    "--plain_jax", action="store_true", help="also jax_bert.py"
  )
  return parser.parse_args(argv)


def main():
  options = parse_arguments()
  print(header("step", *_COLUMNS.values()))
  for method in options.methods:
    work = xla_program.work_of(method, options, 8)
    step, tensors, _ = xla_program.make_step(work, options.optimizer)
    texts = {method: xla_program.program_text(step, tensors)}
    if options.plain_jax:
      import jax_bert

      texts[f"{method}, plain JAX"] = jax_bert.lowered(work).as_text()
    for name, text in texts.items():
      counts = count(text)
      cells = (f"{counts[column]:,}" for column in _COLUMNS)
      print(row(name, *cells), flush=True)


if __name__ == "__main__":
  main()
