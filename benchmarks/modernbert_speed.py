"""Compares ModernBERT's speed with transformers', with random weights.

    python benchmarks/modernbert_speed.py --peer_python=PEERS/bin/python

Each program runs each Work of step_speed.py in its own process: a classifier's
training step (AdamW) and inference, without padding.
"""

import argparse
import sys

import measured_runs
import step_speed
from markdown_table import header, row

_CONTENDERS = ("here", "Hugging Face, sdpa")
_LENGTHS = (512, 2048)


def works(flags):
  """Returns the Works; each batch has --tokens tokens."""
  width = flags.hidden_size
  values = {
    "model_type": "modernbert",
    "vocab_size": 50368,
    "hidden_size": width,
    "num_hidden_layers": flags.num_hidden_layers,
    "num_attention_heads": width // 64,
    "intermediate_size": width * 3 // 2,
    "max_position_embeddings": 8192,
    "classifier_pooling": "mean",
  }
  return [
    step_speed.Work(
      method, "float32", max(1, flags.tokens // length), length, values=values
    )
    for method in (step_speed.PREDICT, step_speed.TRAIN)
    for length in _LENGTHS
  ]


def cell(work, taken):
  """Returns the speed, and the processor time, less disturbed by other work."""
  if not taken:
    return "failed"
  rate = taken["examples_per_second"] * work.length
  micros = 1e6 * taken["processor_seconds"] / (work.size * work.length)
  return f"{rate:,.0f} tokens/s, {micros:,.0f} CPU µs per token"


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--peer_python", default=sys.executable)
  parser.add_argument("--num_hidden_layers", type=int, default=6)
  parser.add_argument("--hidden_size", type=int, default=384)
  parser.add_argument("--tokens", type=int, default=4096)
  parser.add_argument("--rounds", type=int, default=5)
  flags = parser.parse_args()
  print(header("work", *_CONTENDERS))
  for work in works(flags):
    commands = (step_speed.command(name, work, flags) for name in _CONTENDERS)
    cells = (cell(work, measured_runs.answer(each)) for each in commands)
    print(row(work.title, *cells), flush=True)


if __name__ == "__main__":
  main()
