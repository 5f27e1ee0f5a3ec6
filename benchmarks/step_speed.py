"""Training steps and inference of BERT-base, here and in other programs.

  python benchmarks/step_speed.py --peer_python=peer/bin/python \
      --page=docs/performance.md

Random weights, full sequences. Each program computes each work in a process of
its own: first steps until it has compiled, then the median of --rounds times
--steps steps, which follow one another without waiting, as in training. The
share is that of the largest square matrix products of the same device and dtype
(float32 means TF32 on a GPU, for all). Prints a Markdown table and writes it to
--page between two markers. table.py takes its rows of steps from here, too.
"""

import argparse
import datetime
import importlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from typing import NamedTuple

import step_batches

VALUES = {
  "vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12,
  "num_attention_heads": 12, "intermediate_size": 3072, "type_vocab_size": 2,
}


class Work(NamedTuple):
  """What is computed: a method of a contender on a batch.

  Attributes:
    method: "train", "predict" or "pretrain".
    dtype: "float32" or "bfloat16".
    size, length: of the batch.
    predictions: masked words of a sequence, 0 without masked-LM head.
  """

  method: str
  dtype: str
  size: int
  length: int
  predictions: int = 0

  @property
  def title(self) -> str:
    """What a table calls it."""
    kind = {
      "train": "classifier, training step", "predict": "classifier, inference",
      "pretrain": "pre-training step",
    }[self.method]
    return f"{kind}, {self.size} × {self.length}, {self.dtype}"

  def flop(self, layers: int) -> float:
    """Floating-point operations of one example."""
    values = {**VALUES, "num_hidden_layers": layers}
    # The backward pass has two products for each of the forward pass.
    passes = 1 if self.method == "predict" else 3
    return passes * step_batches.flop(values, self.length, self.predictions)


# Of a GPU's table.
WORKS = (
  Work("train", "bfloat16", 32, 128),
  Work("pretrain", "bfloat16", 256, 128, 20),
  Work("pretrain", "bfloat16", 64, 512, 76),
  Work("predict", "bfloat16", 32, 128), Work("train", "float32", 32, 128),
)

_ALL = ("train", "predict", "pretrain")


class Contender(NamedTuple):
  """Who computes works.

  Attributes:
    module: of its steps.
    options: of their classes: how they compute.
    methods, dtypes: of the works in which it takes part.
    only_on_request: those of the methods in which it takes part only with
      --compiled_peers: compiling takes minutes.
  """

  module: str
  options: dict
  methods: tuple = _ALL
  dtypes: tuple = ("float32", "bfloat16")
  only_on_request: tuple = ()


_XLA = {"compiled": True}
CONTENDERS = {
  "here": Contender("our_steps", {}),
  "here, XLA": Contender("our_steps", _XLA, only_on_request=_ALL),
  "Hugging Face, sdpa": Contender("huggingface_steps", {}),
  "Hugging Face, eager attention": Contender(
    "huggingface_steps", {"attention": "eager"}
  ),
  "Hugging Face, torch.compile": Contender(
    "huggingface_steps", _XLA, only_on_request=("train", "pretrain")
  ),
  "Hugging Face, oneDNN": Contender(
    "huggingface_steps", {"onednn": True}, ("predict",), ("float32",)
  ),
  # Its CPU provider has no products in bfloat16.
  "ONNX Runtime": Contender(
    "engine_steps", {"engine": "OnnxRuntime"}, ("predict",), ("float32",)
  ),
  "OpenVINO": Contender("engine_steps", {"engine": "OpenVino"}, ("predict",)),
  # These two have no classifier of their own here.
  "Model Garden, graph": Contender("model_garden_steps", {}, ("pretrain",)),
  "Model Garden, XLA": Contender(
    "model_garden_steps", _XLA, ("pretrain",), only_on_request=_ALL
  ),
  "keras-hub, graph": Contender("keras_hub_steps", {}, ("pretrain",)),
  "keras-hub, XLA": Contender(
    "keras_hub_steps", _XLA, ("pretrain",), only_on_request=_ALL
  ),
}
_WITHOUT_TENSORFLOW = ("huggingface_steps", "engine_steps")
_OF_A_GPU = (
  "here, XLA", "here", "Hugging Face, torch.compile", "Hugging Face, sdpa"
)


def contenders(work: Work, compiled: bool) -> list[str]:
  """Returns who takes part in a work, ours first; `compiled`: and XLA's."""
  return [
    name
    for name, contender in CONTENDERS.items()
    if work.method in contender.methods and work.dtype in contender.dtypes
    and (compiled or work.method not in contender.only_on_request)
  ]


def make_steps(work: Work, contender: str, layers: int):
  """Returns an object with the work's method and `wait()`, and its batch."""
  values = {**VALUES, "num_hidden_layers": layers}
  sizes = values["vocab_size"], work.size, work.length
  module, options, *_ = CONTENDERS[contender]
  if work.method == "pretrain":
    name = "Pretraining"
    batch = step_batches.of_pretraining(*sizes, work.predictions)
  else:
    name, batch = "Classifier", step_batches.of_classifier(*sizes)
  # Imported here: no process loads two programs.
  steps = getattr(importlib.import_module(module), name)
  return steps(values, dtype=work.dtype, **options), batch


def measure(arguments: argparse.Namespace) -> dict:
  """Returns wall and processor seconds of a step, and of the first one."""
  work = Work(*json.loads(arguments.work))
  steps, batch = make_steps(
    work, arguments.contender, arguments.num_hidden_layers
  )

  def seconds_of(count):
    start = time.perf_counter(), time.process_time()
    for _ in range(count):
      getattr(steps, work.method)(batch)
    steps.wait()
    return time.perf_counter() - start[0], time.process_time() - start[1]

  first, _ = seconds_of(1)
  # Autotuning and allocations, after the first one.
  seconds_of(min(3, arguments.steps))
  rounds = [seconds_of(arguments.steps) for _ in range(arguments.rounds)]
  wall, processor = (
    statistics.median(taken) / arguments.steps
    for taken in zip(*rounds, strict=True)
  )
  return {"seconds": wall, "processor": processor, "first_seconds": first}


def measure_peak() -> dict:
  """Returns the device's name, and {dtype: FLOP per second} of products."""
  import tensorflow as tf

  gpus = tf.config.list_physical_devices("GPU")
  size, found = 8192 if gpus else 2048, {}
  for dtype in ("float32", "bfloat16"):
    x = tf.cast(tf.random.normal([size, size]), dtype)
    product = tf.function(lambda x: tf.reduce_max(tf.matmul(x, x)))
    seconds = []
    for _ in range(10):
      start = time.perf_counter()
      product(x).numpy()
      seconds.append(time.perf_counter() - start)
    # The best: other work can only make it slower.
    found[dtype] = 2 * size**3 / min(seconds)
  name = "a CPU"
  if gpus:
    name = tf.config.experimental.get_device_details(gpus[0])["device_name"]
  return {"device": name, "peak": found}


def run_self(python, *flags, env=None) -> dict | None:
  """Runs this script with a Python; returns its last line, as JSON.

  None if it failed, after the end of what it said is printed.
  """
  done = subprocess.run(
    [str(python), os.path.abspath(__file__), *flags],
    capture_output=True, text=True, env=env,
  )
  if done.returncode:
    print(*flags, "failed:", done.stderr[-600:], file=sys.stderr)
    return None
  return json.loads(done.stdout.strip().splitlines()[-1])


def measure_contender(work, contender, arguments, env=None) -> dict | None:
  """Measures a contender in a process of its own; None if it failed."""
  is_of_peers = CONTENDERS[contender].module in _WITHOUT_TENSORFLOW
  return run_self(
    arguments.peer_python if is_of_peers else sys.executable,
    f"--work={json.dumps(work)}", f"--contender={contender}",
    f"--rounds={arguments.rounds}", f"--steps={arguments.steps}",
    f"--num_hidden_layers={arguments.num_hidden_layers}", env=env,
  )


def table_row(work: Work, found: dict, peak: dict, layers: int) -> str:
  """Returns a line of the table: examples per second, share of the peak."""
  cells = []
  for contender in _OF_A_GPU:
    if found.get(contender):
      rate = work.size / found[contender]["seconds"]
      share = rate * work.flop(layers) / peak[work.dtype]
      cells.append(f"{rate:,.0f} ({100 * share:.0f} %)")
    else:
      cells.append("failed")
  return f"| {work.title} | {' | '.join(cells)} |"


def parse_arguments() -> argparse.Namespace:
  """Returns the command's arguments."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  add = parser.add_argument
  add("--peer_python", type=pathlib.Path, default=sys.executable,
      help="a Python that has torch and transformers")
  add("--rounds", type=int, default=5, help="the median counts")
  add("--steps", type=int, default=20, help="of a round")
  add("--num_hidden_layers", type=int, default=12, help="of BERT-base's width")
  add("--page", type=pathlib.Path, help="page with the two markers")
  add("--work", help="internal: measure this one only, in this process")
  add("--contender", help="internal: with this program")
  add("--peak", action="store_true", help="internal: measure the products")
  return parser.parse_args()


def main():
  arguments = parse_arguments()
  if arguments.work:
    print(json.dumps(measure(arguments)))
    return
  if arguments.peak:
    print(json.dumps(measure_peak()))
    return
  machine = run_self(sys.executable, "--peak")
  lines = [
    "| work | " + " | ".join(_OF_A_GPU) + " |",
    "|---|" + "---|" * len(_OF_A_GPU),
  ]
  for work in WORKS:
    found = {
      name: measure_contender(work, name, arguments) for name in _OF_A_GPU
    }
    lines.append(
      table_row(work, found, machine["peak"], arguments.num_hidden_layers)
    )
    print(lines[-1], file=sys.stderr, flush=True)
  peaks = ", ".join(
    f"{value / 1e12:.0f} TFLOP/s in {dtype}"
    for dtype, value in machine["peak"].items()
  )
  date = datetime.date.today().isoformat()
  lines += ["", f"{machine['device']}, products: {peaks}; {date}."]
  print("\n".join(lines))
  if arguments.page:
    # Imported here: the peer's Python, which runs this file too, may lack what
    # this project needs.
    import table_rows

    table_rows.write_into(arguments.page, "gpu speed", "\n".join(lines))


if __name__ == "__main__":
  main()
