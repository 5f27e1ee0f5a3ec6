"""What a seed draws before a classifier is trained: order and new head.

  python benchmarks/training_draw.py --run=OUTPUT_DIR --seed=1 --output=draw.npz
  peer/bin/python benchmarks/finetuning_peer.py --draw=draw.npz --task=mrpc ...

Takes the training records and the labels of a run of run_classifier.py, and
writes the order in which --seed reads them in the first epoch, and the first
weights of the head. With these, finetuning_peer.py trains on the same batches
from the same weights: without dropout it has the same losses, step by step.
"""

import argparse
import os
import pathlib
import sys

import numpy as np

# Run as a script, this folder is on the path and its parent is not.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import modeling
from common import tfrecord
from training import pipeline


def order_of(records, seed):
  """Returns the numbers of a file's records in the order of an epoch.

  Equal records share the number of the first: to a model they are one.
  """
  numbers = {}
  for count, record in enumerate(tfrecord.read_serialized(records), 1):
    numbers.setdefault(record, count - 1)
  shuffled = pipeline.shuffled_records(
    [records], num_records=count, seed=seed
  ).take(count)
  return [numbers[record] for record in shuffled.as_numpy_iterator()]


def head_of(model, seed):
  """Returns float32 [L, H], the first weights of a new classifier."""
  config = modeling.BertConfig.from_json_file(model / "bert_config.json")
  # A single output is that of a regression.
  outputs = len(config.label_names()) or 1
  head = modeling.ClassificationHead(config, outputs, seed=seed)
  weights, _ = head.trainable_variables
  return weights.numpy()


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument(
    "--run", type=pathlib.Path, required=True,
    help="output folder of run_classifier.py",
  )
  parser.add_argument("--seed", type=int, default=1)
  parser.add_argument("--output", type=pathlib.Path, required=True)
  arguments = parser.parse_args()
  np.savez(
    arguments.output,
    order=order_of(str(arguments.run / "train.tf_record"), arguments.seed),
    head=head_of(arguments.run / "final_model", arguments.seed),
  )


if __name__ == "__main__":
  main()
