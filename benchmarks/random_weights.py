"""Writes a BERT-base of random weights in Hugging Face's layout.

  python benchmarks/random_weights.py --tokenizer=MODEL_FOLDER --output=FOLDER

Vocabulary and tokenizer files are those of another model's folder. Two
programs that fine-tune it compute what they would with real weights.
"""

import argparse
import itertools
import os
import pathlib
import shutil
import sys

# Run as a script, this folder is on the path and its parent is not.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import modeling
import tokenization
from checkpoints import huggingface


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--tokenizer", type=pathlib.Path, required=True)
  parser.add_argument("--output", type=pathlib.Path, required=True)
  arguments = parser.parse_args()
  arguments.output.mkdir(parents=True, exist_ok=True)
  files = map(arguments.tokenizer.glob, ("vocab.txt", "*token*.json"))
  for path in itertools.chain(*files):
    shutil.copy(path, arguments.output)
  vocab = tokenization.load_vocab(str(arguments.tokenizer / "vocab.txt"))
  # All other sizes are BERT-base's, the defaults.
  config = modeling.BertConfig(len(vocab), type_vocab_size=2)
  model = modeling.BertModel(config, seed=1)
  weights = {v.name.removesuffix(":0"): v.numpy() for v in model.variables}
  huggingface.write(
    str(arguments.output), weights, config.to_dict(), architecture="BertModel"
  )


if __name__ == "__main__":
  main()
