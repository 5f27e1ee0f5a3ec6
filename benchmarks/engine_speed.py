"""Measures embedding and classification in this project's and peers' engines.

Each engine runs in its own process, which loads a file that another process
wrote, so speed, memory and file size are as in production. Speed is measured on
texts of random words: batches of texts with the same number of word pieces, and
a single text with 22 word pieces. Times include tokenization and end with NumPy
arrays. table.py uses this module. The peers need torch, transformers, onnx,
onnxruntime, openvino and nncf.
"""

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
_SINGLE_TOKENS = 22
# Number of texts for the calibration of NNCF.
_SAMPLES = 200
THREADS = ("all threads", "one thread")
# {name: (engine, dtype)}. This project's engines are lower case, peers'
# (engine_peers.py) are not. Table rows select contenders by name prefixes.
CONTENDERS = {
  "here, float32, TensorFlow": ("tensorflow", "float32"),
  "here, float32, `onnx`": ("onnx", "float32"),
  "here, bfloat16, TensorFlow": ("tensorflow", "bfloat16"),
  "here, int8, `onnx`": ("onnx", "int8"),
  "here, int8, `litert`": ("litert", "int8"),
  "torch, float32": ("Torch", "float32"),
  "torch, float32, oneDNN": ("Torch", "onednn"),
  "torch, bfloat16": ("Torch", "bfloat16"),
  "ONNX Runtime, float32": ("OnnxRuntime", "float32"),
  "ONNX Runtime, int8": ("OnnxRuntime", "int8"),
  "OpenVINO, float32": ("OpenVino", "float32"),
  "OpenVINO, bfloat16": ("OpenVino", "bfloat16"),
  "OpenVINO, int8, calibrated": ("OpenVino", "int8"),
}


class Job(NamedTuple):
  """A process's job: to measure, or to compute answers or a file."""

  contender: str  # Key of CONTENDERS.
  model: pathlib.Path  # Folder in Hugging Face's layout.
  files: pathlib.Path | None = None  # The folder for the engines' files.
  threads: str = THREADS[0]
  seconds: float = 5.0  # The length of each measurement.
  head: str = "embedding"  # Or "classification".
  # JSON: lists of two texts and a label, to score and for the calibration.
  pairs: pathlib.Path | None = None
  samples: pathlib.Path | None = None
  lines: pathlib.Path | None = None  # A file with a text per line.
  output: pathlib.Path | None = None  # For vectors or class probabilities.
  batch_size: int | None = None  # The peer's, see engine_peers.Texts.
  writes: bool = False  # Whether to write the engine's file, and nothing else.


def command(job: Job, peer_python) -> list:
  """Returns the command of a job's process, which prints its result as JSON."""
  is_ours = CONTENDERS[job.contender][0].islower()
  cores = sorted(map(str, os.sched_getaffinity(0)))
  if job.threads != THREADS[0]:
    cores = cores[:1]
  return [
    # Thread pools start a thread for each core that the process may use.
    *("taskset", "--cpu-list", ",".join(cores)),
    *("env", f"OMP_NUM_THREADS={len(cores)}"),
    *(sys.executable if is_ours else peer_python, __file__),
    json.dumps(job, default=str),
  ]


def _path(job):
  """Returns the path of a contender's file; LiteRT's really ends in .tflite."""
  engine, dtype = CONTENDERS[job.contender]
  if engine in ("tensorflow", "Torch"):
    return pathlib.Path(job.model, "model.safetensors")
  ending = "xml" if engine == "OpenVino" else "onnx"
  return pathlib.Path(job.files, f"{engine}_{dtype}", f"model.{ending}")


def _write(job):
  """Lets another process write the file that a contender loads, if missing."""
  engine, dtype = CONTENDERS[job.contender]
  folder = _path(job).parent
  if folder.exists():
    return
  words = [__file__, json.dumps(job._replace(writes=True))]
  if engine.islower():
    flags = ["--text_pairs"]
    if job.head == "embedding":
      flags = ["--pooling=mean", "--normalize"]
    if dtype == "int8":
      flags.append("--quantize=int8")
    places = f"--model_dir={job.model}", f"--export_dir={folder}"
    kind = f"--format={engine}", f"--head={job.head}"
    words = [ROOT / "export_saved_model.py", *kind, *places, *flags]
  subprocess.run(
    [sys.executable, *words], check=True, stdout=subprocess.DEVNULL
  )


def _write_of_peer(job):
  """Writes a peer's file."""
  # Imported here so that a process loads the packages of only one contender.
  import engine_peers

  def samples():
    rng, texts = random.Random(0), []
    for _ in range(_SAMPLES):
      texts += make_texts(job.model, 1, rng.randint(8, 128))
    if job.samples:
      texts = _read_pairs(job.samples)[0][:_SAMPLES]
    return engine_peers.Texts(None, job.model).samples(texts)

  path = _path(job)
  path.parent.mkdir()
  engine, dtype = CONTENDERS[job.contender]
  engine_peers.make(engine, dtype, job.model, job.head, path, samples)


def _load(job):
  """Returns a function from texts or pairs to an array of results [N, n]."""
  engine, dtype = CONTENDERS[job.contender]
  path = _path(job)
  if not engine.islower():
    import engine_peers

    if engine == "Torch":
      peer = engine_peers.on_torch(job.model, job.head, dtype)
    else:
      peer = engine_peers.ON_FILES[engine](path, dtype)
    return engine_peers.Texts(peer, job.model, job.batch_size).compute
  sys.path.insert(0, str(ROOT))
  from serving import text_models

  # An export's settings already determine the engine and int8.
  options = {"dtype": "bfloat16"} if dtype == "bfloat16" else {}
  model = text_models.load(str(path.parent), **options)

  def compute(texts):
    if job.head == "embedding":
      return model.embed(texts, pooling="mean", normalize=True)
    answers = model.classify(texts, text_pairs=True)
    # A regression's score, or the class as a number: labels are 0 and 1.
    return np.array([[float(a.get("score", a.get("label")))] for a in answers])

  return compute


def make_texts(model, count: int, tokens: int) -> list[str]:
  """Returns texts of `tokens` word pieces, including [CLS] and [SEP]."""
  path = pathlib.Path(model, "vocab.txt")
  lines = path.read_text(encoding="utf-8").splitlines()
  words = [line for line in lines if line.isascii() and line.isalpha()]
  rng = random.Random(tokens)
  return [" ".join(rng.choices(words, k=tokens - 2)) for _ in range(count)]


def _read_pairs(path):
  """Returns a list of pairs of texts, and an array of labels."""
  *texts, labels = zip(*json.loads(pathlib.Path(path).read_text("utf-8")))
  return list(zip(*texts)), np.array(labels)


def _score(compute, job):
  """Returns the accuracy or, for a regression, Spearman's correlation."""
  from scipy import stats

  pairs, labels = _read_pairs(job.pairs)
  results = compute(pairs)
  # One column has scores or class numbers; several columns have logits.
  answers = results[:, 0] if results.shape[1] == 1 else results.argmax(1)
  if {*labels} <= {0, 1}:
    return {"score": float(np.mean(answers == labels))}
  return {"score": float(stats.spearmanr(answers, labels)[0])}


def _compute_file(compute, job):
  """Writes the vectors or class probabilities of job.lines."""
  # Line separators other than \n do not occur in SST-2's phrases.
  lines = pathlib.Path(job.lines).read_text(encoding="utf-8").splitlines()
  results = compute(lines)
  if job.head == "classification":
    results = np.exp(results - results.max(1, keepdims=True))
    results /= results.sum(1, keepdims=True)
  np.savetxt(job.output, results, "%.8g", "\t")


def _measure(compute, job):
  """Returns {measure, threads: number} of a contender."""

  def seconds_of(texts):
    """Returns two lists: wall and processor seconds of each call."""
    compute(texts)
    wall, processor, end = [], [], time.perf_counter() + job.seconds
    while len(wall) < 3 or time.perf_counter() < end:
      start = time.perf_counter(), time.process_time()
      compute(texts)
      wall.append(time.perf_counter() - start[0])
      processor.append(time.process_time() - start[1])
    return wall, processor

  measures = {}
  for size, length in BATCHES:
    wall, processor = map(
      statistics.median, seconds_of(make_texts(job.model, size, length))
    )
    batch = f"{length} × {size}"
    measures[f"texts_per_second, {batch}"] = size / wall
    measures[f"texts_per_processor_second, {batch}"] = size / processor
  wall, _ = seconds_of(make_texts(job.model, 1, _SINGLE_TOKENS))
  for percent, value in zip((50, 99), np.percentile(wall, (50, 99))):
    measures[f"milliseconds, p{percent}"] = 1000 * value
  memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
  # OpenVINO's weights and LiteRT's graph have other endings.
  files = _path(job).parent.glob(f"{_path(job).stem}.*")
  disk = sum(file.stat().st_size for file in files) / 2**20
  measures |= {"megabytes": memory, "megabytes, disk": disk}
  return {f"{name}, {job.threads}": value for name, value in measures.items()}


def main():
  job = Job(*json.loads(sys.argv[1]))
  if job.writes:
    _write_of_peer(job)
    return
  _write(job)
  compute = _load(job)
  result = _compute_file if job.lines else _score if job.pairs else _measure
  print(json.dumps(result(compute, job)))


if __name__ == "__main__":
  main()
