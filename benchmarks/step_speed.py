"""Measures a contender's training step or inference, such as BERT-base's.

Weights are random, and sequences have no padding. Each contender runs each Work
in its own process: first two steps to compile, then rounds of steps without
waiting between steps, as in training. The result is the median round. A
round is one step, or as many as half a second allows.
"""

import importlib
import json
import statistics
import sys
import time
from typing import NamedTuple

import numpy as np

# The optimizer settings of all contenders.
RATE, DECAY, CLIP = 1e-5, 0.01, 1.0
BASE = {
  "vocab_size": 30522,
  "hidden_size": 768,
  "num_hidden_layers": 12,
  "num_attention_heads": 12,
  "intermediate_size": 3072,
  "type_vocab_size": 2,
}
TRAIN, PREDICT, PRETRAIN = "train", "predict", "pretrain"


class PretrainingBatch(NamedTuple):
  """A batch of int32 arrays, which are named like features in records."""

  input_ids: np.ndarray  # [B, T], like the next two.
  input_mask: np.ndarray
  segment_ids: np.ndarray
  masked_lm_positions: np.ndarray  # [B, P], like the next.
  masked_lm_ids: np.ndarray
  next_sentence_labels: np.ndarray  # [B, 1]


class Work(NamedTuple):
  """A method of a contender, and the batch and the network for it."""

  method: str  # TRAIN or PREDICT of a classifier, or PRETRAIN.
  dtype: str  # "float32" or "bfloat16".
  size: int  # Sequences in the batch.
  length: int  # Tokens per sequence.
  predictions: int = 0  # Masked words per sequence.
  values: dict = BASE  # A configuration of transformers or of this project.

  @property
  def title(self) -> str:
    """The name in a table."""
    names = {TRAIN: "classifier, training step", PRETRAIN: "pre-training step"}
    name = names.get(self.method, "classifier, inference")
    return f"{name}, {self.size} × {self.length}, {self.dtype}"

  def batch(self):
    """Returns random ids, mask and segments [B, T] and labels [B], int32.

    For pre-training, the batch is a PretrainingBatch.
    """
    rng, shape = np.random.RandomState(0), [self.size, self.length]
    ids = rng.randint(0, self.values["vocab_size"], shape)
    arrays = [ids, np.ones_like(ids), np.zeros_like(ids)]
    if self.method != PRETRAIN:
      arrays.append(np.zeros([self.size]))
      return tuple(array.astype(np.int32) for array in arrays)
    shuffled = np.argsort(rng.random_sample(shape))
    positions = np.sort(shuffled[:, : self.predictions])
    arrays[2][:, self.length // 2 :] = 1
    arrays += [positions, np.take_along_axis(ids, positions, 1)]
    arrays.append(rng.randint(0, 2, [self.size, 1]))
    return PretrainingBatch(*(array.astype(np.int32) for array in arrays))

  def flop(self) -> int:
    """Returns the FLOP of BERT's matrix products per example."""
    width = self.values["hidden_size"]
    # Query, key, value and output; then the two feed-forward products.
    weights = 4 * width * width + 2 * width * self.values["intermediate_size"]
    # A product of [m, k] and [k, n] takes 2 m k n; attention has two, T x T.
    layer = 2 * self.length * weights + 4 * self.length * self.length * width
    # The head's dense layer, then the logits of the vocabulary.
    head = 2 * self.predictions * width * (width + self.values["vocab_size"])
    # For each product of the forward pass, the backward pass has two.
    passes = 1 if self.method == PREDICT else 3
    return passes * (self.values["num_hidden_layers"] * layer + head)


_HF, _ENGINES, _XLA = "huggingface_steps", "engine_peers", {"compiled": True}
_ALL, _BOTH = (TRAIN, PREDICT, PRETRAIN), ("float32", "bfloat16")
# {name: (module with its steps, options of its classes, methods, dtypes)}
CONTENDERS = {
  "here": ("our_steps", {}, _ALL, _BOTH),
  "here, XLA": ("our_steps", _XLA, _ALL, _BOTH),
  "Hugging Face, sdpa": (_HF, {}, _ALL, _BOTH),
  "Hugging Face, eager attention": (_HF, {"attention": "eager"}, _ALL, _BOTH),
  "Hugging Face, torch.compile": (_HF, _XLA, _ALL, _BOTH),
  "Hugging Face, oneDNN": (_HF, {"onednn": True}, [PREDICT], ["float32"]),
  # ONNX Runtime's CPU provider has no bfloat16 matrix products.
  "ONNX Runtime": (_ENGINES, {"engine": "OnnxRuntime"}, [PREDICT], ["float32"]),
  "OpenVINO": (_ENGINES, {"engine": "OpenVino"}, [PREDICT], _BOTH),
  # For these two programs, only pre-training steps are implemented.
  "Model Garden, graph": ("model_garden_steps", {}, [PRETRAIN], _BOTH),
  "Model Garden, XLA": ("model_garden_steps", _XLA, [PRETRAIN], _BOTH),
  "keras-hub, graph": ("keras_hub_steps", {}, [PRETRAIN], _BOTH),
  "keras-hub, XLA": ("keras_hub_steps", _XLA, [PRETRAIN], _BOTH),
}


def contenders(work: Work, compiled: bool) -> list[str]:
  """Returns the names of the contenders for a work, this project's first.

  Compiling takes minutes, so compiled contenders are included only if
  `compiled`, or for inference with torch.compile, where compiling helps most.
  """
  return [
    name
    for name, (module, options, methods, dtypes) in CONTENDERS.items()
    if work.method in methods
    and work.dtype in dtypes
    and (compiled or options != _XLA or (module, work.method) == (_HF, PREDICT))
  ]


def command(contender: str, work: Work, arguments, peak: float = 1.0) -> list:
  """Returns a command that prints what `measure` returns, as JSON."""
  # Only these modules run in --peer_python; all others need TensorFlow.
  is_peer = CONTENDERS[contender][0] in (_HF, _ENGINES)
  python = arguments.peer_python if is_peer else sys.executable
  job = contender, work, arguments.rounds, peak
  return [python, __file__, json.dumps(job)]


def measure(contender: str, work: Work, rounds: int, peak: float) -> dict:
  """Returns a contender's measures; `peak` is of `measure_peak`."""
  module, options, *_ = CONTENDERS[contender]
  name = "Pretraining" if work.method == PRETRAIN else "Classifier"
  # Imported here so that a process loads the packages of only one contender.
  make = getattr(importlib.import_module(module), name)
  steps, batch = make(work.values, dtype=work.dtype, **options), work.batch()

  def seconds_of(count):
    start = time.perf_counter(), time.process_time()
    for _ in range(count):
      getattr(steps, work.method)(batch)
    if hasattr(steps, "wait"):  # Others return finished results.
      steps.wait()
    return time.perf_counter() - start[0], time.process_time() - start[1]

  # The first step compiles; the second one autotunes and allocates.
  seconds_of(1)
  seconds_of(1)
  count = max(1, round(0.5 / seconds_of(1)[0]))
  times_of = [seconds_of(count) for _ in range(rounds)]
  wall, processor = (
    statistics.median(times) / count for times in zip(*times_of, strict=True)
  )
  return {
    "examples_per_second": work.size / wall,
    "share": work.size / wall * work.flop() / peak,
    "processor_seconds": processor,
  }


def measure_peak() -> dict:
  """Returns {dtype: FLOP per second} of large square matrix products."""
  import tensorflow as tf

  # On a GPU, float32 means TF32 for all contenders.
  size = 8192 if tf.config.list_physical_devices("GPU") else 2048
  peak = {}
  for dtype in ("float32", "bfloat16"):
    x = tf.cast(tf.random.normal([size, size]), dtype)
    product = tf.function(lambda x: tf.reduce_max(tf.matmul(x, x)))
    seconds = []
    for _ in range(10):
      start = time.perf_counter()
      product(x).numpy()
      seconds.append(time.perf_counter() - start)
    # Use the best run, because other work on the machine can only slow it.
    peak[dtype] = 2 * size**3 / min(seconds)
  return peak


def main():
  if len(sys.argv) == 1:
    print(json.dumps(measure_peak()))
    return
  contender, work, *others = json.loads(sys.argv[1])
  print(json.dumps(measure(contender, Work(*work), *others)))


if __name__ == "__main__":
  main()
