"""Texts to vectors or classes by each engine, here and elsewhere, for table.py.

Each engine has a process of its own, which loads what an earlier process has
written: an engine's speed, memory and file are what they are in use. It gets
texts of ordinary words, B texts of T word pieces together, and one text of 22
alone; its time is that from str to NumPy. The peers need torch, transformers,
onnx, onnxruntime, openvino and nncf.
"""

import argparse
import json
import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import time
from typing import NamedTuple

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
BATCHES = ((64, 16), (32, 64), (32, 128))
SINGLE_TOKENS = 22
# What NNCF is calibrated on.
_SAMPLES = 200


class Contender(NamedTuple):
  """Who computes it (of ours in small letters), and its numbers."""

  engine: str
  numbers: str

  @property
  def is_ours(self) -> bool:
    """Whether it runs in this project's Python."""
    return self.engine.islower()


# The beginnings of names are what rows of the table compare.
CONTENDERS = {
  "here, float32, TensorFlow": Contender("tensorflow", "float32"),
  "here, float32, `onnx`": Contender("onnx", "float32"),
  "here, bfloat16, TensorFlow": Contender("tensorflow", "bfloat16"),
  "here, int8, `onnx`": Contender("onnx", "int8"),
  "here, int8, `litert`": Contender("litert", "int8"),
  "torch, float32": Contender("Torch", "float32"),
  "torch, float32, oneDNN": Contender("Torch", "onednn"),
  "torch, bfloat16": Contender("Torch", "bfloat16"),
  "ONNX Runtime, float32": Contender("OnnxRuntime", "float32"),
  "ONNX Runtime, int8": Contender("OnnxRuntime", "int8"),
  "OpenVINO, float32": Contender("OpenVino", "float32"),
  "OpenVINO, bfloat16": Contender("OpenVino", "bfloat16"),
  "OpenVINO, int8, calibrated": Contender("OpenVino", "int8"),
}


def texts_per_second(size: int, length: int) -> str:
  """Returns the name of a batch's measure."""
  return f"texts_per_second, {length} × {size}"


class _Ours:
  """The Python API."""

  def __init__(self, folder, head, numbers):
    sys.path.insert(0, str(ROOT))
    from serving import text_models

    # An export says itself what it computes with.
    options = {"dtype": "bfloat16"} if numbers == "bfloat16" else {}
    self._model, self._head = text_models.load(folder, **options), head

  def compute(self, texts):
    """Returns unit vectors [N, H] of str, or numbers [N, 1] of pairs."""
    if self._head == "embedding":
      return self._model.embed(texts, pooling="mean", normalize=True)
    found = self._model.classify(texts, text_pairs=True)
    # Of a regression its number, else the class: GLUE's names are 0 and 1.
    return np.array([[float(f.get("score", f.get("label")))] for f in found])


def _files(contender, arguments):
  """Returns the pattern of the files that a contender loads."""
  engine, numbers = contender
  if engine in ("tensorflow", "Torch"):
    return arguments.model / "model.safetensors"
  ending = "xml" if engine == "OpenVino" else "onnx"
  folder = arguments.made / f"{engine}_{numbers}"
  return folder / ("model.*" if contender.is_ours else f"model.{ending}")


def _make(contender, arguments):
  """Writes what a contender loads, unless it is there."""
  engine, numbers = contender
  path = _files(contender, arguments)
  if path.parent.exists():
    return
  if contender.is_ours:
    options = [f"--quantize={numbers}"] if numbers == "int8" else []
    head = ["--pooling=mean", "--normalize"]
    if arguments.head == "classification":
      head = ["--text_pairs"]
    subprocess.run(
      [sys.executable, ROOT / "export_saved_model.py", f"--format={engine}",
       f"--head={arguments.head}", f"--model_dir={arguments.model}",
       f"--export_dir={path.parent}", *options, *head],
      check=True, stdout=subprocess.DEVNULL,
    )
    return
  # Imported here: no process loads two programs.
  import engine_peers

  def samples():
    rng = random.Random(0)
    texts = [
      make_texts(arguments.model, 1, rng.randint(8, 128))[0]
      for _ in range(_SAMPLES)
    ]
    if arguments.samples:
      pairs = json.loads(arguments.samples.read_text(encoding="utf-8"))
      texts = [tuple(pair) for pair in pairs[:_SAMPLES]]
    return engine_peers.Texts(None, arguments.model).samples(texts)

  path.parent.mkdir()
  engine_peers.make(
    engine, numbers, arguments.model, arguments.head, path, samples
  )


def _load(contender, arguments):
  """Returns an object with `compute`."""
  engine, numbers = contender
  path = _files(contender, arguments)
  if contender.is_ours:
    return _Ours(str(path.parent), arguments.head, numbers)
  import engine_peers

  if engine == "Torch":
    made = engine_peers.Torch(arguments.model, arguments.head, numbers)
  elif engine == "OnnxRuntime":
    made = engine_peers.OnnxRuntime(path)
  else:
    made = engine_peers.OpenVino(path, numbers)
  return engine_peers.Texts(made, arguments.model)


def make_texts(model: pathlib.Path, count: int, tokens: int) -> list[str]:
  """Returns texts of exactly `tokens` word pieces, [CLS] and [SEP] included."""
  lines = (model / "vocab.txt").read_text(encoding="utf-8").splitlines()
  words = [line for line in lines if line.isascii() and line.isalpha()]
  rng = random.Random(tokens)
  return [" ".join(rng.choices(words, k=tokens - 2)) for _ in range(count)]


def seconds_of(function, least: float) -> list[tuple[float, float]]:
  """Returns wall and processor seconds of calls that take `least` in all."""
  function()
  taken, end = [], time.perf_counter() + least
  while len(taken) < 3 or time.perf_counter() < end:
    start = time.perf_counter(), time.process_time()
    function()
    taken.append(
      (time.perf_counter() - start[0], time.process_time() - start[1])
    )
  return taken


def measure(arguments: argparse.Namespace) -> dict:
  """Returns what one contender takes, or answers, in this process."""
  contender = CONTENDERS[arguments.contender]
  model = _load(contender, arguments)
  if arguments.pairs:
    pairs = json.loads(arguments.pairs.read_text(encoding="utf-8"))
    found = model.compute([tuple(pair) for pair in pairs])
    # Of logits the largest one's place.
    answers = found[:, 0] if found.shape[1] == 1 else found.argmax(1)
    return {"answers": answers.tolist()}
  found = {}
  for size, length in BATCHES:
    texts = make_texts(arguments.model, size, length)
    wall, processor = map(statistics.median, zip(*seconds_of(
      lambda texts=texts: model.compute(texts), arguments.seconds
    )))
    name = texts_per_second(size, length)
    found[name] = size / wall
    found[name.replace("second", "processor_second")] = size / processor
  text = make_texts(arguments.model, 1, SINGLE_TOKENS)
  wall = [taken for taken, _ in seconds_of(
    lambda: model.compute(text), arguments.seconds
  )]
  for percent, value in zip((50, 99), np.percentile(wall, (50, 99))):
    found[f"milliseconds, p{percent}"] = 1000 * value
  used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  path = _files(contender, arguments)
  # OpenVINO's weights lie next to the graph, those of 2 GB also of ONNX.
  files = path.parent.glob(f"{path.stem}.*")
  disk = sum(each.stat().st_size for each in files)
  return {**found, "megabytes": used / 1024, "megabytes, disk": disk / 2**20}


def run_contender(name: str, threads: int, python, *flags, env) -> dict | None:
  """Measures a contender in processes of its own; None if one failed.

  Args:
    name: of CONTENDERS.
    threads: number of cores that it runs on; 0: all.
    python: that of the peers.
    *flags: of this script.
    env: the environment.
  """
  cores = sorted(os.sched_getaffinity(0))
  cores = cores[: threads or len(cores)]
  command = [
    str(sys.executable if CONTENDERS[name].is_ours else python),
    os.path.abspath(__file__), f"--contender={name}", *flags,
  ]
  # What is written is written once, on all cores.
  for more, of_cores in ((["--make"], None), ([], cores)):
    done = subprocess.run(
      [*command, *more], capture_output=True, text=True,
      env={**env, **({"OMP_NUM_THREADS": str(len(cores))} if of_cores else {})},
      # A thread pool is as large as the cores that a process may use.
      preexec_fn=of_cores and (lambda: os.sched_setaffinity(0, cores)),
    )
    if done.returncode:
      print(name, "failed:", done.stderr[-600:], file=sys.stderr)
      return None
  return json.loads(done.stdout.splitlines()[-1])


def table(found: dict[str, dict]) -> list[str]:
  """Returns Markdown: a line for each contender of its median measures."""
  columns = [
    texts_per_second(size, length).split(", ")[1] for size, length in BATCHES
  ]
  lines = [
    "| engine | " + " | ".join(columns)
    + " | one text, p50 | p99 | memory | on disk |",
    "|---|" + "---|" * (len(columns) + 4),
  ]
  for name, values in found.items():
    cells = [
      " / ".join(
        f"{values[f'texts_per_{kind}, {column}']:.0f}"
        for kind in ("second", "processor_second")
      )
      for column in columns
    ]
    cells += [f"{values[f'milliseconds, p{p}']:.1f} ms" for p in (50, 99)]
    cells += [f"{values[n]:.0f} MB" for n in ("megabytes", "megabytes, disk")]
    lines.append(f"| {name} | {' | '.join(cells)} |")
  return lines


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  add = parser.add_argument
  add("--contender", choices=CONTENDERS, required=True)
  add("--model", type=pathlib.Path, required=True,
      help="folder in Hugging Face's layout")
  add("--made", type=pathlib.Path, required=True,
      help="folder of what the engines load")
  add("--make", action="store_true", help="write that, if it is not there")
  add("--head", choices=("embedding", "classification"), default="embedding")
  add("--seconds", type=float, default=5.0, help="of each measurement")
  add("--pairs", type=pathlib.Path, help="JSON: answer these, do not measure")
  add("--samples", type=pathlib.Path, help="JSON: pairs to calibrate with")
  arguments = parser.parse_args()
  if arguments.make:
    _make(CONTENDERS[arguments.contender], arguments)
  else:
    print(json.dumps(measure(arguments)))


if __name__ == "__main__":
  main()
