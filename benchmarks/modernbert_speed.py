"""Compares ModernBERT's speed with transformers', on the same weights.

    python benchmarks/modernbert_speed.py --peer_python=PEERS/bin/python

Both programs load one folder, which transformers writes with random weights,
and run each Work in their own process, as in step_speed.py: a classifier's
training step (AdamW) and inference, without padding.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile

import step_speed

_THREADS = len(os.sched_getaffinity(0))
HERE, PEER = "here", "Hugging Face, sdpa"
LENGTHS = (512, 2048)


def works(tokens):
  """Returns the Works; each batch has `tokens` tokens."""
  return [
    step_speed.Work(method, "float32", max(1, tokens // length), length)
    for method in (step_speed.PREDICT, step_speed.TRAIN)
    for length in LENGTHS
  ]


def write_model(folder, layers, width):
  """Writes a random classifier of transformers; runs in --peer_python."""
  import transformers

  config = transformers.ModernBertConfig(
    num_hidden_layers=layers,
    hidden_size=width,
    num_attention_heads=width // 64,
    intermediate_size=width * 3 // 2,
    classifier_pooling="mean",
    num_labels=2,
  )
  model = transformers.ModernBertForSequenceClassification(config)
  model.save_pretrained(folder)


def steps_here(folder):
  """Returns this project's classifier with the folder's weights."""
  import our_steps
  from checkpoints import weight_files

  reader = weight_files.open_reader(folder)
  steps = our_steps.Classifier(reader.config, dtype="float32")
  weight_files.load(steps.network_variables, reader)
  return steps


def steps_of_peer(folder):
  """Returns transformers' classifier with the folder's weights."""
  import torch
  import transformers

  import huggingface_steps

  class Classifier(huggingface_steps.Classifier):
    """A classifier without segments."""

    def _outputs(self, arrays):
      arrays = {n: a for n, a in arrays.items() if n != "token_type_ids"}
      return super()._outputs(arrays)

  torch.set_num_threads(_THREADS)
  model = transformers.ModernBertForSequenceClassification.from_pretrained(
    folder, attn_implementation="sdpa"
  )
  return Classifier.of_model(model)


def measure(contender, work, folder, rounds):
  """Returns the wall and processor seconds per step."""
  make = steps_here if contender == HERE else steps_of_peer
  vocab_size = json.loads(
    pathlib.Path(folder, "config.json").read_text(encoding="utf-8")
  )["vocab_size"]
  batch = work.batch(vocab_size)
  return step_speed.seconds_per_step(make(folder), work, batch, rounds)


def _rate(work, taken):
  """Returns the speed, and the processor time, less disturbed by other work."""
  tokens = work.size * work.length
  return (
    f"{tokens / taken['seconds']:,.0f} tokens/s, "
    f"{1e6 * taken['processor'] / tokens:,.0f} CPU µs per token"
  )


def main():
  if len(sys.argv) == 2 and sys.argv[1].startswith("["):
    task, *job = json.loads(sys.argv[1])
    if task == "write":
      write_model(*job)
      print("{}")
    else:
      contender, work, *others = job
      print(json.dumps(measure(contender, step_speed.Work(*work), *others)))
    return
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--peer_python", default=sys.executable)
  parser.add_argument("--num_hidden_layers", type=int, default=6)
  parser.add_argument("--hidden_size", type=int, default=384)
  parser.add_argument("--tokens", type=int, default=4096)
  parser.add_argument("--rounds", type=int, default=5)
  flags = parser.parse_args()
  script = os.path.abspath(__file__)
  python_of = {HERE: sys.executable, PEER: flags.peer_python}
  with tempfile.TemporaryDirectory() as folder:
    sizes = flags.num_hidden_layers, flags.hidden_size
    step_speed.run_alone(flags.peer_python, script, "write", folder, *sizes)
    print("| work | " + " | ".join(python_of) + " |")
    print("|---" * (1 + len(python_of)) + "|")
    for work in works(flags.tokens):
      rates = []
      for name, python in python_of.items():
        taken = step_speed.run_alone(
          python, script, "measure", name, work, folder, flags.rounds
        )
        rates.append(_rate(work, taken) if taken else "failed")
      print(f"| {work.title} | " + " | ".join(rates) + " |", flush=True)


if __name__ == "__main__":
  main()
