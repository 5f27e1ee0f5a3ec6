"""Lowers this project's steps to XLA programs, and runs them with JAX alone.

  python benchmarks/xla_program.py lower programs/ --methods train pretrain
  python benchmarks/xla_program.py run programs/
  python benchmarks/xla_program.py compile --target=v5p --methods train

TensorFlow lowers a step to StableHLO, which JAX's runtime compiles for its
device. So the step can run on the GPU or TPU of a machine without TensorFlow. A
training program is the whole step: forward and backward pass with dropout,
gradient clipping, and update. `lower` also computes the step and stores samples
of all results. `run` draws the same weights, compares the results, and prints
the time per step and the share of the device's measured peak. Each training
step continues from the previous one. `compile` needs TensorFlow, JAX and `pip
install libtpu`, but no TPU. It prints the memory, bytes accessed and FLOP of
the programs on a TPU, and of a plain JAX BERT.
"""

import argparse
import dataclasses
import datetime
import functools
import itertools
import json
import os
import pathlib
import re
import statistics
import time

import numpy as np

import step_speed
from markdown_table import header, row


def _network(layers: int, heads: int, width: int, words: int = 30522) -> dict:
  return {
    **step_speed.BASE,
    "num_hidden_layers": layers,
    "num_attention_heads": heads,
    "hidden_size": width,
    "intermediate_size": 4 * width,
    "vocab_size": words,
  }


SIZES = {
  "tiny": _network(2, 2, 32, 100),
  # For xla_counts.py: the width does not change the number of operations.
  "narrow": _network(12, 2, 32, 100),
  "base": _network(12, 12, 768),
  "large": _network(24, 16, 1024),
}
METHODS = ("train", "predict", "pretrain")
# The number of values to store per result, because whole results are too large.
_SAMPLES = 512


def draw(index: int, name: str, shape: list[int]) -> np.ndarray:
  """Returns a variable's values, which are equal on all machines.

  The seed is `index`, the variable's number. Moments are 0; gammas are near 1.
  """
  if "adam_" in name:
    return np.zeros(shape, np.float32)
  values = np.random.default_rng(index).standard_normal(shape, np.float32)
  return values * np.float32(0.02) + np.float32(name.endswith("gamma"))


def sample(values: np.ndarray) -> np.ndarray:
  """Returns at most _SAMPLES values, evenly spaced, as float32."""
  flat = np.asarray(values).reshape(-1)
  indices = np.linspace(0, flat.size - 1, min(flat.size, _SAMPLES))
  return flat[indices.astype(np.int64)].astype(np.float32)


# Functions that need TensorFlow.


def work_of(method: str, options, size: int) -> step_speed.Work:
  """Returns the Work of a method; `options` are of `add_program_flags`."""
  words = options.predictions if method == "pretrain" else 0
  return step_speed.Work(
    method, options.dtype, size, options.length, words, SIZES[options.network]
  )


def make_step(work: step_speed.Work, optimizer: str, model_options=None):
  """Returns a step, its inputs, and its variables."""
  import tensorflow as tf

  import our_steps

  is_pretraining = work.method == "pretrain"
  make = our_steps.Pretraining if is_pretraining else our_steps.Classifier
  steps = make(
    work.values,
    dtype=work.dtype,
    optimizer=optimizer,
    compiled=True,
    model_options=model_options,
  )
  if is_pretraining:
    tensors = [steps.tensors(work.batch())]
  else:
    tensors = [*map(tf.constant, work.batch())]
  if work.method == "predict":
    return steps.predict_step, tensors[:3], steps.variables()
  return steps.train_step, [tf.constant(1), *tensors], steps.variables()


def program_text(step, tensors) -> str:
  """Returns a step's StableHLO without computing the step."""
  text = step.experimental_get_compiler_ir(*tensors)(stage="stablehlo")
  # Only CPUs accept mhlo.copy; this reshape is equivalent.
  return re.sub(
    r"mhlo\.copy (%\S+) : (\S+)", r"stablehlo.reshape \1 : (\2) -> \2", text
  )


def lower(method: str, options: argparse.Namespace, size: int) -> None:
  """Writes an .npz with a step's program, inputs, and samples of results."""
  import tensorflow as tf

  work = work_of(method, options, size)
  step, tensors, variables = make_step(work, options.optimizer)
  text = program_text(step, tensors)
  pattern = (
    r"parameter_number = (\d+) : i64\}, output_index = array<i64: (\d+)>"
  )
  # {number of a result: number of the argument that it replaces}
  replaces = {int(result): int(a) for a, result in re.findall(pattern, text)}
  # The function's arguments come first, then the variables that it reads.
  by_handle = {id(variable.handle): variable for variable in variables}
  concrete = step.get_concrete_function(*tensors)
  read = [by_handle[id(handle)] for handle in concrete.captured_inputs]
  inputs = [tensor.numpy() for tensor in tf.nest.flatten(tensors)]
  shapes = [[v.name, v.shape.as_list()] for v in read]
  for index, variable in enumerate(read):
    variable.assign(draw(index, *shapes[index]))
  results = [r.numpy() for r in tf.nest.flatten(step(*tensors))]
  # After the step's results, the program returns the updated variables.
  results += [
    read[replaces[result] - len(inputs)].numpy() for result in sorted(replaces)
  ]
  note = {
    **vars(options),
    "method": method,
    "size": size,
    "flop": work.flop(),
    "replaces": replaces,
    "variables": shapes,
    "results": [[r.shape, str(r.dtype)] for r in results],
  }
  names = options.network, method, options.optimizer, options.dtype
  path = options.folder / f"{'_'.join(names)}_{size}x{options.length}.npz"
  np.savez_compressed(
    path,
    program=np.array(text),
    note=json.dumps(note, default=str),
    **{f"given{i}": values for i, values in enumerate(inputs)},
    **{f"result{i}": sample(values) for i, values in enumerate(results)},
  )
  print(f"{path}: {len(text)} characters of StableHLO", flush=True)


def lower_all(options: argparse.Namespace) -> None:
  """Writes the programs of all methods and batch sizes."""
  options.folder.mkdir(parents=True, exist_ok=True)
  for method, size in itertools.product(options.methods, options.batch_sizes):
    lower(method, options, size)


# Functions that need TensorFlow and JAX, and compile for an absent TPU.


def compile_all(options: argparse.Namespace) -> None:
  """Prints a Markdown table of the programs for a TPU, and of plain JAX's."""
  import jax_bert

  names = "GFLOP", "GB", "cycles, 10^6", "ms"
  sizes = "arguments, temporary, results, GB"
  print(header("step", "batch × length", "program", *names, sizes))
  device = tpu(options.target)
  for method, size in itertools.product(options.methods, options.batch_sizes):
    work = work_of(method, options, size)
    for name in ("here", "plain JAX"):
      try:
        if name == "here":
          program = compile_here(work, options.optimizer, device)
        else:
          program = jax_bert.compiled(work, device)
        cells = costs(program)
      except RuntimeError as error:  # The program does not fit in memory.
        cells = [str(error).partition("\n")[0][:120]]
      step, shape = f"{options.network}, {method}", f"{size} × {options.length}"
      print(row(step, shape, name, *cells), flush=True)


def tpu(target: str):
  """Returns a TPU device for which the client can only compile."""
  os.environ.update(
    JAX_PLATFORMS="cpu",
    TPU_SKIP_MDS_QUERY="1",
    TPU_WORKER_HOSTNAMES="localhost",
    ALLOW_MULTIPLE_LIBTPU_LOAD="1",
  )
  from jax.experimental import topologies

  # A host has four chips; v4 and v5p have a third dimension.
  chips = "2x2" if target in ("v5e", "v6e") else "2x2x1"
  return topologies.get_topology_desc(
    platform="tpu",
    topology_name=f"{target}:{chips}",
    chips_per_host_bounds=(2, 2, 1),
  ).devices[0]


def compile_here(work: step_speed.Work, optimizer: str, device):
  """Returns the executable of this project's step for a device from `tpu`."""
  from jax._src.interpreters import mlir
  from jax._src.lib import xla_client
  from jaxlib.mlir import ir

  # training/run_setup.py chooses these options for a TPU.
  model_options = {"use_one_hot_embeddings": True, "is_for_tpu": True}
  step, tensors, _ = make_step(work, optimizer, model_options)
  text = for_tpu(program_text(step, tensors))
  with mlir.make_ir_context():
    return device.client.compile(
      ir.Module.parse(text),
      xla_client.DeviceList((device,)),
      xla_client.CompileOptions(),
    )


def for_tpu(text: str) -> str:
  """Converts a program that was lowered for a CPU to a program for a TPU."""
  # Use the TPU's default random generator, whose state has two uint64.
  three, two = "tensor<3xui64>", "tensor<2xui64>"
  return re.sub(
    rf"(%\S+), (%\S+) = (stablehlo.rng_bit_generator) (%\S+), algorithm =  "
    rf"PHILOX : \({three}\) -> \({three}, (\S+)\)",
    rf"\1_two = stablehlo.slice \4 [0:2] : ({three}) -> {two}\n"
    rf"\1_next, \2 = \3 \1_two, algorithm = DEFAULT : ({two}) -> ({two}, \5)\n"
    rf"\1 = stablehlo.reshape \4 : ({three}) -> {three}",
    text,
  )


def costs(program) -> list[str]:
  """Returns the cells of an executable in the table of `compile_all`."""
  analysis = program.cost_analysis()
  memory = program.get_compiled_memory_stats()
  try:
    text = program.hlo_modules()[0].to_string()
  except RuntimeError:  # JAX cannot parse some programs (v5p).
    text = ""
  # Operations of ENTRY run in sequence, so their cycles add up. A very large
  # number means that the compiler has no estimate.
  entry = text.partition("\nENTRY")[2]
  cycles = map(int, re.findall(r'"estimated_cycles":"(\d+)"', entry))
  cycles = sum(x for x in cycles if x < 1e9) / 1e6
  millis = 1000 * analysis["optimal_seconds"]
  names = "argument", "temp", "output"
  sizes = (getattr(memory, f"{name}_size_in_bytes") for name in names)
  return [
    f"{analysis['flops'] / 1e9:.4g}",
    f"{analysis['bytes accessed'] / 1e9:.3g}",
    f"{cycles:.3g}" if text else "–",
    # The estimate is negative for some programs and targets.
    f"{millis:.3g}" if millis > 0 else "–",
    ", ".join(f"{size / 1e9:.3g}" for size in sizes),
  ]


# Functions that need only JAX.


def compile_program(text: str, arguments: list, results: list, donated: list):
  """Returns a program as a jitted function of its arguments.

  JAX calls a jitted function with little work on the host. The function updates
  the arguments with the indices `donated` in place. `results` has the shape and
  the dtype of each result.
  """
  import jax
  from jax import export
  from jax._src.export import _export
  from jax._src.interpreters import mlir
  from jaxlib.mlir import ir

  with mlir.make_ir_context():
    code = _export._module_to_bytecode(ir.Module.parse(text))

  # JAX exports only its own functions, so export this one and swap its code.
  @functools.partial(jax.jit, keep_unused=True)
  def zeros(*arguments):
    del arguments
    return [jax.numpy.zeros(shape, dtype) for shape, dtype in results]

  exported = export.export(zeros)(*arguments)
  exported = dataclasses.replace(exported, mlir_module_serialized=code)
  return jax.jit(exported.call, donate_argnums=donated)


def differences(saved, results: list) -> list[float]:
  """Returns the largest differences from TensorFlow's samples.

  They are relative to the largest sample: the difference of the first result
  (loss or logits), and the median and the maximum of all results.
  """
  shares = []
  for index, result in enumerate(results):
    expected = saved[f"result{index}"]
    largest = np.abs(sample(np.asarray(result)) - expected).max(initial=0)
    shares.append(largest / max(np.abs(expected).max(initial=0), 1e-12))
  return [shares[0], float(np.median(shares)), max(shares)]


def seconds_of(step, rounds: int, steps: int) -> float:
  """Returns the seconds per step, in the median round of `steps` steps."""
  taken = []
  for _ in range(rounds):
    start = time.perf_counter()
    for _ in range(steps):
      result = step()
    result.block_until_ready()
    taken.append((time.perf_counter() - start) / steps)
  return statistics.median(taken)


def measure(path: pathlib.Path, rounds: int, steps: int) -> dict:
  """Returns a program's note, with differences and the seconds per step."""
  import jax

  # Name the device: for an array without one, JAX compiles a second time.
  device, saved = jax.devices()[0], np.load(path)
  note = json.loads(str(saved["note"]))
  # First the batch (in training after the step number), then the weights.
  count = sum(name.startswith("given") for name in saved.files)
  batch = [saved[f"given{i}"] for i in range(count)]
  weights = [draw(i, *entry) for i, entry in enumerate(note["variables"])]
  weights = jax.device_put(weights, device)
  compute = compile_program(
    str(saved["program"]),
    [*batch, *weights],
    note["results"],
    list(note["replaces"].values()),
  )

  def step():
    # As in training, each step transfers its batch to the device.
    results = compute(*jax.device_put(batch, device), *weights)
    for result, argument in note["replaces"].items():
      weights[argument - count] = results[int(result)]
    return results

  note["differences"] = differences(saved, step())
  seconds = seconds_of(lambda: step()[0], rounds, steps)
  return {**note, "seconds": seconds}


def measure_plain(note: dict, rounds: int, steps: int) -> dict:
  """Returns a program's note, with the seconds per step of jax_bert."""
  import jax_bert

  work = work_of(note["method"], argparse.Namespace(**note), note["size"])
  step = jax_bert.step_of(work)
  step().block_until_ready()
  seconds = seconds_of(step, rounds, steps)
  plain = {"optimizer": "plain JAX", "differences": []}
  return {**note, **plain, "seconds": seconds}


def measure_peak(dtype: str) -> float:
  """Returns the device's FLOP per second in products of square matrices."""
  import jax

  is_cpu = jax.default_backend() == "cpu"
  size, count = (2048, 4) if is_cpu else (8192, 32)
  product = jax.jit(lambda x: (x @ x) * (1 / size))
  best = float("inf")
  for _ in range(6):
    start = time.perf_counter()
    x = jax.random.normal(jax.random.key(0), [size, size], dtype)
    for _ in range(count):
      x = product(x)
    x.block_until_ready()
    best = min(best, (time.perf_counter() - start) / count)
  return 2 * size**3 / best


def run_all(options: argparse.Namespace) -> None:
  """Runs all programs of a folder; prints a Markdown table.

  With --plain_jax, each AdamW program is followed by jax_bert's step.
  """
  import jax

  names = "ms", "examples/s", "share of the peak"
  differences = "first result, median, largest difference"
  print(header("step", "batch × length", "dtype", *names, differences))
  peaks: dict[str, float] = {}

  def print_row(note):
    dtype, rate = note["dtype"], note["size"] / note["seconds"]
    if dtype not in peaks:
      peaks[dtype] = measure_peak(dtype)
    cells = [
      ", ".join(note[name] for name in ("network", "method", "optimizer")),
      f"{note['size']} × {note['length']}",
      dtype,
      f"{1000 * note['seconds']:.1f}",
      f"{rate:.1f}",
      f"{rate * note['flop'] / peaks[dtype]:.0%}",
      ", ".join(f"{x:.1e}" for x in note["differences"]),
    ]
    print(row(*cells), flush=True)

  steps = options.rounds, options.steps
  for path in sorted(options.folder.glob("*.npz")):
    try:
      note = measure(path, *steps)
      print_row(note)
      if options.plain_jax and note["optimizer"] == "adamw":
        print_row(measure_plain(note, *steps))
    except jax.errors.JaxRuntimeError as error:
      # For example, the batch does not fit in memory.
      print(row(path.stem, "", "", str(error)[:60], "", "", ""), flush=True)
  rates = ", ".join(f"{v / 1e12:.2f} TFLOP/s {k}" for k, v in peaks.items())
  device = jax.devices()[0].device_kind
  date = datetime.date.today().isoformat()
  print(f"\nDevice: {device}; products: {rates}; {date}.")


def add_program_flags(parser: argparse.ArgumentParser, network: str) -> None:
  """Adds the flags that determine a program; `network` is the default."""
  add = parser.add_argument
  add("--network", choices=SIZES, default=network)
  add("--methods", nargs="+", choices=METHODS, default=METHODS)
  add("--dtype", choices=("float32", "bfloat16"), default="bfloat16")
  add("--optimizer", choices=("bertadam", "adamw", "lamb"), default="adamw")
  add("--length", type=int, default=128, help="tokens per sequence")
  add("--predictions", type=int, default=20, help="masked words per sequence")


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  add = parser.add_argument
  commands = {"lower": lower_all, "run": run_all, "compile": compile_all}
  add("command", choices=commands)
  add("folder", type=pathlib.Path, nargs="?", help="for .npz files")
  add_program_flags(parser, "base")
  add("--batch_sizes", type=int, nargs="+", default=[32])
  add("--target", choices=("v4", "v5e", "v5p", "v6e"), help="for compile")
  add("--rounds", type=int, default=5, help="for run; the median is printed")
  add("--steps", type=int, default=20, help="for run: steps per round")
  add("--plain_jax", action="store_true", help="for run: also jax_bert.py")
  options = parser.parse_args()
  needed = "target" if options.command == "compile" else "folder"
  if not getattr(options, needed):
    parser.error(f"{options.command} needs {needed}")
  commands[options.command](options)


if __name__ == "__main__":
  main()
