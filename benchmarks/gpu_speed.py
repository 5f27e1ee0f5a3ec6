"""Training steps and inference on a GPU, here and with Hugging Face.

  python benchmarks/gpu_speed.py --peer_python=peer/bin/python \
      --page=docs/performance.md

BERT-base with random weights, full sequences. Each program computes each work
in a process of its own: first steps until it has compiled, then the median of
--rounds times --steps steps, which follow one another without waiting, as in
training. The share is that of the largest square matrix products, which torch
measures on the same GPU in the same dtype (float32 means TF32 products, for
all). Prints a Markdown table and writes it to --page between two markers.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from typing import NamedTuple

# Run as a script, this folder is on the path and its parent is not.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import step_batches

VALUES = {
  "vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12,
  "num_attention_heads": 12, "intermediate_size": 3072, "type_vocab_size": 2,
}
_PEAK_SIZE = 8192


class Work(NamedTuple):
  """What is computed: a method of contenders on a batch.

  Attributes:
    title: for readers.
    method: "train", "predict" or "pretrain".
    dtype: "float32" or "bfloat16".
    size, length: of the batch.
    predictions: masked words of a sequence, 0 without masked-LM head.
  """

  title: str
  method: str
  dtype: str
  size: int
  length: int
  predictions: int = 0


WORKS = {
  "train32/bfloat16": Work(
    "classifier, training step", "train", "bfloat16", 32, 128
  ),
  "pretrain128/bfloat16": Work(
    "pre-training step", "pretrain", "bfloat16", 256, 128, 20
  ),
  "pretrain512/bfloat16": Work(
    "pre-training step", "pretrain", "bfloat16", 64, 512, 76
  ),
  "predict32/bfloat16": Work(
    "classifier, inference", "predict", "bfloat16", 32, 128
  ),
  "train32/float32": Work(
    "classifier, training step", "train", "float32", 32, 128
  ),
}
# name -> whether it is ours, whether XLA or torch.compile compiles it
CONTENDERS = {
  "here, XLA": (True, True),
  "here, graph": (True, False),
  "Hugging Face, torch.compile": (False, True),
  "Hugging Face, eager": (False, False),
}


def make_contender(work, is_ours, compiled, layers):
  """Returns an object with the work's method and `wait()`, and its batch."""
  values = {**VALUES, "num_hidden_layers": layers}
  sizes = values["vocab_size"], work.size, work.length
  if work.method == "pretrain":
    name = "Pretraining"
    batch = step_batches.of_pretraining(*sizes, work.predictions)
  else:
    name, batch = "Classifier", step_batches.of_classifier(*sizes)
  # Imported here: no process loads both programs.
  if is_ours:
    import our_steps
    import tensorflow as tf

    import modeling

    contender = getattr(our_steps, name)(
      modeling.BertConfig(**values),
      dtype=tf.as_dtype(work.dtype),
      jit_compile=compiled,
    )
  else:
    import huggingface_steps
    import torch

    # As TensorFlow does by default.
    torch.set_float32_matmul_precision("high")
    contender = getattr(huggingface_steps, name)(
      values, dtype=work.dtype, compiled=compiled
    )
  return contender, batch


def measure(arguments):
  """Returns a dict: seconds of a step, and of the first step."""
  contender, batch = make_contender(
    WORKS[arguments.work], *CONTENDERS[arguments.contender],
    arguments.num_hidden_layers,
  )
  method = getattr(contender, WORKS[arguments.work].method)

  def seconds_of(steps):
    start = time.perf_counter()
    for _ in range(steps):
      method(batch)
    contender.wait()
    return time.perf_counter() - start

  first = seconds_of(1)
  # Autotuning and allocations, after the first one.
  seconds_of(3)
  rounds = [
    seconds_of(arguments.steps) / arguments.steps
    for _ in range(arguments.rounds)
  ]
  return {"seconds": statistics.median(rounds), "first_seconds": first}


def measure_peak():
  """Returns the device's name and a dict: FLOP per second of either dtype."""
  import torch

  torch.set_float32_matmul_precision("high")
  device = "cuda" if torch.cuda.is_available() else "cpu"
  size = _PEAK_SIZE if device == "cuda" else _PEAK_SIZE // 8
  found = {}
  for dtype in ("float32", "bfloat16"):
    x = torch.randn(size, size, device=device, dtype=getattr(torch, dtype))

    def seconds(steps, x=x):
      start = time.perf_counter()
      for _ in range(steps):
        x @ x
      if device == "cuda":
        torch.cuda.synchronize()
      return time.perf_counter() - start

    seconds(5)
    found[dtype] = 2 * size**3 * 20 / min(seconds(20) for _ in range(3))
  name = torch.cuda.get_device_name() if device == "cuda" else "a CPU"
  return {"device": name, "peak": found}


def run_self(python, *flags):
  """Runs this script with a Python; returns its last line, as JSON.

  None if it failed, after its last line of errors is printed.
  """
  done = subprocess.run(
    [str(python), os.path.abspath(__file__), *flags],
    capture_output=True, text=True,
  )
  if done.returncode:
    print(" ".join(flags), "failed:", done.stderr[-600:], file=sys.stderr)
    return None
  return json.loads(done.stdout.strip().splitlines()[-1])


def measure_all(arguments):
  """Measures all works; returns dict from work to contender to its measures."""
  found = {}
  for name in arguments.works.split(","):
    found[name] = {}
    for contender, (is_ours, _) in CONTENDERS.items():
      measures = run_self(
        sys.executable if is_ours else arguments.peer_python,
        f"--work={name}", f"--contender={contender}",
        f"--rounds={arguments.rounds}", f"--steps={arguments.steps}",
        f"--num_hidden_layers={arguments.num_hidden_layers}",
      )
      if measures:
        found[name][contender] = measures
        print(name, contender, measures, file=sys.stderr, flush=True)
    if arguments.results_file:
      # After every work: an interrupted measurement keeps what it has.
      text = json.dumps(found, indent=1)
      arguments.results_file.write_text(text, encoding="utf-8")
  return found


def report(found, machine, layers):
  """Returns the Markdown table of all works."""
  lines = [
    "| work | " + " | ".join(CONTENDERS) + " |",
    "|---|" + "---|" * len(CONTENDERS),
  ]
  values = {**VALUES, "num_hidden_layers": layers}
  for name, measures in found.items():
    work = WORKS[name]
    # The backward pass has two products for each of the forward pass.
    passes = 1 if work.method == "predict" else 3
    flop = passes * step_batches.flop(values, work.length, work.predictions)
    cells = []
    for contender in CONTENDERS:
      if contender in measures:
        rate = work.size / measures[contender]["seconds"]
        share = rate * flop / machine["peak"][work.dtype]
        cells.append(f"{rate:,.0f} ({100 * share:.0f} %)")
      else:
        cells.append("failed")
    title = f"{work.title}, {work.size} × {work.length}, {work.dtype}"
    lines.append(f"| {title} | " + " | ".join(cells) + " |")
  peaks = ", ".join(
    f"{value / 1e12:.0f} TFLOP/s in {dtype}"
    for dtype, value in machine["peak"].items()
  )
  date = datetime.date.today().isoformat()
  lines += ["", f"{machine['device']}, products: {peaks}; {date}."]
  return "\n".join(lines)


def parse_arguments():
  """Returns the flags, an argparse.Namespace."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  add = parser.add_argument
  add("--peer_python", type=pathlib.Path, default=sys.executable,
      help="a Python that has torch and transformers")
  add("--works", default=",".join(WORKS), help="names, between commas")
  add("--rounds", type=int, default=5, help="the median counts")
  add("--steps", type=int, default=20, help="of a round")
  add("--num_hidden_layers", type=int, default=12, help="of BERT-base's width")
  add("--results_file", type=pathlib.Path, help="JSON file for the measures")
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
  machine = run_self(arguments.peer_python, "--peak")
  if machine is None:
    sys.exit(f"--peer_python={arguments.peer_python} has no torch that works")
  table = report(measure_all(arguments), machine, arguments.num_hidden_layers)
  print(table)
  if arguments.page:
    # Imported here: the peer's Python, which runs this file too, may lack what
    # this project needs.
    import experiments

    experiments.write_into(arguments.page, "gpu speed", table)


if __name__ == "__main__":
  main()
