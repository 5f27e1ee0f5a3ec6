"""The XLA programs of our steps, computed and timed where only JAX is.

  python benchmarks/xla_program.py lower programs/ --methods train pretrain
  python benchmarks/xla_program.py run programs/

TensorFlow lowers a step to StableHLO, which JAX's runtime compiles for its own
device: so the step runs on a GPU or TPU of a machine without TensorFlow. A
program is the whole step: forward and backward pass with dropout, clipping,
optimizer. `lower` computes it here, too, and stores samples of all results;
`run` draws the same weights, compares, and prints a Markdown table: steps that
feed one another, as in training, and their share of the device's measured
matrix products. Of several --batch_sizes, the largest that fits is found.
"""

import argparse
import datetime
import json
import pathlib
import re
import statistics
import sys
import time

import numpy as np

import step_batches
import step_speed

SIZES = {
  "tiny": {
    **step_speed.VALUES, "vocab_size": 100, "hidden_size": 32,
    "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
  },
  "base": step_speed.VALUES,
  "large": {
    **step_speed.VALUES, "hidden_size": 1024, "num_hidden_layers": 24,
    "num_attention_heads": 16, "intermediate_size": 4096,
  },
}
METHODS = ("train", "predict", "pretrain", "pretrain_packed")
# Compared of each result; all of them, were it all, would not travel.
_SAMPLES = 512


def draw(index: int, name: str, shape: list[int]) -> np.ndarray:
  """Returns the values of a variable, the same ones on every machine.

  Args:
    index: number of the argument; the seed.
    name: of the variable: moments are 0, gains near 1.
    shape: of the variable.
  """
  if "adam_" in name:
    return np.zeros(shape, np.float32)
  values = np.random.default_rng(index).standard_normal(shape, np.float32)
  return values * np.float32(0.02) + np.float32(name.endswith("gamma"))


def sample(values: np.ndarray) -> np.ndarray:
  """Returns at most _SAMPLES values, evenly spaced, as float32."""
  flat = np.asarray(values).reshape(-1)
  places = np.linspace(0, flat.size - 1, min(flat.size, _SAMPLES))
  return flat[places.astype(np.int64)].astype(np.float32)


# Where TensorFlow is


def make_step(method: str, options: argparse.Namespace, size: int):
  """Returns a step, its tensors, the variables, FLOP of one example."""
  import tensorflow as tf

  import our_steps

  values, length = SIZES[options.network], options.length
  of_steps = dict(
    dtype=options.dtype, optimizer=options.optimizer, compiled=True
  )
  words = values["vocab_size"]
  if method.startswith("pretrain"):
    predictions, row = options.predictions, None
    if method == "pretrain_packed":
      # Two sequences of half the length in each row.
      length, row = length // 2, length
    steps = our_steps.Pretraining(values, **of_steps)
    batch = step_batches.of_pretraining(words, size, length, predictions)
    tensors = [steps.tensors(batch, row)]
  else:
    predictions = 0
    steps = our_steps.Classifier(values, **of_steps)
    tensors = [*map(tf.constant, step_batches.of_classifier(
      words, size, length
    ))]
  flop = step_batches.flop(values, length, predictions)
  if method == "predict":
    return steps.predict_step, tensors[:3], steps.variables(), flop
  # The backward pass has two products for each of the forward pass.
  tensors = [tf.constant(1), *tensors]
  return steps.train_step, tensors, steps.variables(), 3 * flop


def lower(method: str, options: argparse.Namespace, size: int, path) -> None:
  """Writes an .npz with a step's program, its arguments and its results."""
  import tensorflow as tf

  step, tensors, variables, flop = make_step(method, options, size)
  text = step.experimental_get_compiler_ir(*tensors)(stage="stablehlo")
  # Arguments are those of the function, then the variables that it reads.
  by_handle = {id(variable.handle): variable for variable in variables}
  concrete = step.get_concrete_function(*tensors)
  read = [by_handle[id(handle)] for handle in concrete.captured_inputs]
  given = [tensor.numpy() for tensor in tf.nest.flatten(tensors)]
  note = {
    **vars(options), "method": method, "size": size, "flop": flop,
    "variables": [[v.name, v.shape.as_list()] for v in read],
    "replaces": replaced_arguments(text),
  }
  for index, (variable, of) in enumerate(
    zip(read, note["variables"], strict=True)
  ):
    variable.assign(draw(index, *of))
  results = [r.numpy() for r in tf.nest.flatten(step(*tensors))]
  # After these, the program returns the variables that it writes.
  written = sorted(note["replaces"].items(), key=lambda pair: int(pair[0]))
  results += [read[place - len(given)].numpy() for _, place in written]
  np.savez_compressed(
    path, program=np.array(text), note=json.dumps(note, default=str),
    **{f"given{i}": values for i, values in enumerate(given)},
    **{f"result{i}": sample(values) for i, values in enumerate(results)},
  )
  print(f"{path}: {len(text)} characters of StableHLO", flush=True)


def replaced_arguments(text: str) -> dict[int, int]:
  """Returns {number of a result: the argument whose next value it is}."""
  found = re.findall(
    r"parameter_number = (\d+) : i64\}, output_index = array<i64: (\d+)>", text
  )
  return {int(result): int(argument) for argument, result in found}


# Where JAX is


class Program:
  """A step on JAX's first device.

  Attributes:
    note: dict of what `lower` wrote down.
  """

  def __init__(self, path: pathlib.Path):
    """Compiles a file's program."""
    import jax
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jaxlib.mlir import ir

    self._saved = np.load(path)
    self.note = json.loads(str(self._saved["note"]))
    self._device = jax.devices()[0]
    with mlir.make_ir_context():
      module = ir.Module.parse(str(self._saved["program"]))
      code = mlir.module_to_bytecode(module)
    self._program = self._device.client.compile_and_load(
      code, xla_client.DeviceList((self._device,)), xla_client.CompileOptions()
    )
    self._replaces = {
      int(result): place for result, place in self.note["replaces"].items()
    }

  def arguments(self) -> list:
    """Returns the arguments that the stored results are of, on the device."""
    import jax

    names = [n for n in self._saved.files if n.startswith("given")]
    # The number of the step and the like, then the weights.
    values = [self._saved[f"given{i}"] for i in range(len(names))]
    values += [draw(i, *of) for i, of in enumerate(self.note["variables"])]
    return [jax.device_put(x, self._device) for x in values]

  def step(self, arguments: list) -> list:
    """Computes the results, and gives the variables their next values."""
    shards = self._program.execute_sharded(arguments)
    results = [
      x[0] for x in shards.disassemble_into_single_device_arrays()
    ]
    for result, place in self._replaces.items():
      arguments[place] = results[result]
    return results

  def differences(self, results: list) -> dict[str, float]:
    """Returns how far samples of the results are from TensorFlow's.

    Of the first result, loss or logits, and the furthest of all moments (or of
    all results): the largest difference, as a share of the largest value.
    """
    shares = []
    for index, result in enumerate(results):
      ours = self._saved[f"result{index}"]
      far = np.abs(sample(np.asarray(result)) - ours).max(initial=0)
      shares.append(far / max(np.abs(ours).max(initial=0), 1e-12))
    return {"first": shares[0], "median": float(np.median(shares)),
            "largest": max(shares)}


def measure(path: pathlib.Path, rounds: int, steps: int) -> dict:
  """Returns a program's note with differences and seconds of a step."""
  program = Program(path)
  arguments = program.arguments()
  results = program.step(arguments)
  found = {**program.note, "differences": program.differences(results)}
  taken = []
  for _ in range(rounds):
    start = time.perf_counter()
    for _ in range(steps):
      results = program.step(arguments)
    results[0].block_until_ready()
    taken.append((time.perf_counter() - start) / steps)
  return {**found, "seconds": statistics.median(taken)}


def measure_peak(dtype: str) -> float:
  """Returns the device's FLOP per second in a product of square matrices."""
  import jax
  import jax.numpy as jnp

  is_cpu = jax.default_backend() == "cpu"
  size, count = (2048, 4) if is_cpu else (8192, 32)
  x = jnp.ones([size, size], dtype)
  product = jax.jit(lambda x: (x @ x) * (1 / size))
  best = float("inf")
  for _ in range(6):
    start = time.perf_counter()
    y = x
    for _ in range(count):
      y = product(y)
    y.block_until_ready()
    best = min(best, (time.perf_counter() - start) / count)
  return 2 * size**3 / best


def run(folder: pathlib.Path, rounds: int, steps: int) -> list[str]:
  """Computes all programs of a folder; returns a Markdown table's lines."""
  import jax

  peaks, lines = {}, [
    "| step | batch × length | dtype | ms | examples/s | share of the peak "
    "| first result, median, largest difference |",
    "|---|---|---|---|---|---|---|",
  ]
  for path in sorted(folder.glob("*.npz")):
    try:
      found = measure(path, rounds, steps)
    except jax.errors.JaxRuntimeError as error:
      # Of the largest batches, that is the answer.
      lines.append(f"| {path.stem} | | | {str(error)[:60]} | | | |")
      continue
    dtype, rate = found["dtype"], found["size"] / found["seconds"]
    if dtype not in peaks:
      peaks[dtype] = measure_peak(dtype)
    title = f"{found['network']}, {found['method']}, {found['optimizer']}"
    far = ", ".join(f"{x:.1e}" for x in found["differences"].values())
    lines.append(
      f"| {title} | {found['size']} × {found['length']} | {dtype} "
      f"| {1000 * found['seconds']:.1f} | {rate:.1f} "
      f"| {rate * found['flop'] / peaks[dtype]:.0%} | {far} |"
    )
    print(lines[-1], file=sys.stderr, flush=True)
  of_peaks = ", ".join(f"{v / 1e12:.2f} TFLOP/s {k}" for k, v in peaks.items())
  device = jax.devices()[0].device_kind
  date = datetime.date.today().isoformat()
  return [*lines, "", f"Device: {device}; products: {of_peaks}; {date}."]


def parse_arguments() -> argparse.Namespace:
  """Returns the command's arguments."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  kinds = parser.add_subparsers(dest="kind", required=True)
  add = kinds.add_parser("lower", help="where TensorFlow is").add_argument
  add("folder", type=pathlib.Path, help="new .npz files, one a program")
  add("--network", choices=SIZES, default="base")
  add("--methods", nargs="+", choices=METHODS, default=METHODS)
  add("--dtype", choices=("float32", "bfloat16"), default="bfloat16")
  add("--optimizer", choices=("adamw", "lamb"), default="adamw")
  add("--length", type=int, default=128, help="of a sequence")
  add("--predictions", type=int, default=20, help="masked words of a sequence")
  add("--batch_sizes", type=int, nargs="+", default=[32])
  add = kinds.add_parser("run", help="where JAX is").add_argument
  add("folder", type=pathlib.Path, help="with the .npz files")
  add("--rounds", type=int, default=5, help="the median counts")
  add("--steps", type=int, default=20, help="of a round")
  add("--page", type=pathlib.Path, help="page with the two markers")
  return parser.parse_args()


def main():
  arguments = parse_arguments()
  if arguments.kind == "run":
    lines = run(arguments.folder, arguments.rounds, arguments.steps)
    print("\n".join(lines))
    if arguments.page:
      # Imported here: where JAX is, this project need not be installed.
      import table_rows

      table_rows.write_into(arguments.page, "xla program", "\n".join(lines))
    return
  arguments.folder.mkdir(parents=True, exist_ok=True)
  for method in arguments.methods:
    for size in arguments.batch_sizes:
      name = (f"{arguments.network}_{method}_{arguments.optimizer}_"
              f"{arguments.dtype}_{size}x{arguments.length}.npz")
      lower(method, arguments, size, arguments.folder / name)


if __name__ == "__main__":
  main()
