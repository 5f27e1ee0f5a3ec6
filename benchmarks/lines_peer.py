"""Features or predictions of lines of text by Hugging Face's transformers.

  python benchmarks/lines_peer.py --work=features --lines=lines.txt \
      --weights=FOLDER --output=vectors.npz

What a user of torch and transformers would write for speed: the fast tokenizer
on all lines at once, batches of lines of like length padded to their longest,
scaled-dot-product attention, inference mode. `features` are the mean of each
line's last states, in a NumPy file; `predictions` two probabilities a line from
a new head, in a TSV file. The outputs are in the order of the lines.
"""

import argparse
import pathlib

import numpy as np
import torch
import transformers
from torch.utils import mkldnn


def batches(tokenizer, lines, batch_size, max_seq_length):
  """Yields (numbers of the lines, inputs) of lines of like length."""
  encoded = tokenizer(lines, truncation=True, max_length=max_seq_length)
  lengths = [len(ids) for ids in encoded["input_ids"]]
  # The longest first, as in this project.
  order = np.argsort(lengths, kind="stable")[::-1]
  for start in range(0, len(order), batch_size):
    rows = order[start : start + batch_size]
    inputs = tokenizer.pad(
      {name: [values[row] for row in rows] for name, values in encoded.items()},
      return_tensors="pt",
    )
    yield rows, inputs


def features(model, inputs):
  """Returns the mean of each line's last states, [B, H]."""
  states = model(**inputs).last_hidden_state.float()
  mask = inputs["attention_mask"][:, :, None]
  return (states * mask).sum(1) / mask.sum(1)


def predictions(model, inputs):
  """Returns the probabilities of each line, [B, 2]."""
  return model(**inputs).logits.float().softmax(-1)


def write(path, values):
  """Writes [N, n] as a NumPy file, or as a table by the path's ending."""
  if path.suffix == ".npz":
    np.savez(path, vectors=values)
  else:
    rows = ["\t".join(map(str, row)) + "\n" for row in values]
    path.write_text("".join(rows), encoding="utf-8")


def parse_arguments():
  """Returns the flags, an argparse.Namespace."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument(
    "--work", choices=("features", "predictions"), required=True
  )
  parser.add_argument("--lines", type=pathlib.Path, required=True)
  parser.add_argument("--weights", type=pathlib.Path, required=True)
  parser.add_argument("--output", type=pathlib.Path, required=True)
  parser.add_argument(
    "--dtype", choices=("float32", "bfloat16"), default="float32"
  )
  parser.add_argument(
    "--onednn", action="store_true", help="multiply float32 with it, not MKL"
  )
  parser.add_argument("--batch_size", type=int, default=32)
  parser.add_argument("--max_seq_length", type=int, default=128)
  return parser.parse_args()


def main():
  arguments = parse_arguments()
  is_features = arguments.work == "features"
  compute = features if is_features else predictions
  kind = (
    transformers.AutoModel
    if is_features
    else transformers.AutoModelForSequenceClassification
  )
  model = kind.from_pretrained(
    arguments.weights, attn_implementation="sdpa"
  ).eval()
  if arguments.onednn:
    model = mkldnn.to_mkldnn(model)
  tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.weights)
  # Phrases of SST-2: no other separator of lines is in them.
  lines = arguments.lines.read_text(encoding="utf-8").splitlines()
  mixed = arguments.dtype == "bfloat16"
  found = None
  with torch.inference_mode(), torch.autocast(
    "cpu", torch.bfloat16, enabled=mixed
  ):
    for rows, inputs in batches(
      tokenizer, lines, arguments.batch_size, arguments.max_seq_length
    ):
      values = compute(model, inputs).numpy()
      if found is None:
        found = np.empty([len(lines), values.shape[1]], np.float32)
      # Back in the order of the lines.
      found[rows] = values
  write(arguments.output, found)


if __name__ == "__main__":
  main()
