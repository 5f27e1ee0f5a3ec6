"""Examples per second of a classifier's network alone, on lines of text.

  python benchmarks/network_alone.py --model_dir=out/final_model \
      --input_file=lines.txt --results_file=alone.json

It is what `run_classifier.py --do_predict` computes, but without all the rest:
the lines are tokenized, in memory and sorted by length before, all of them at
once, the graph is traced, and nothing is written.
"""

import json
import os
import sys
import time

import tensorflow as tf
from absl import app, flags

# Run as a script, this folder is on the path and its parent is not.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import modeling
from checkpoints import model_folder
from classification import data, inputs, job, model
from common import errors, file_io
from text import input_sequences
from training import distribution

FLAGS = flags.FLAGS

flags.DEFINE_string("model_dir", None, "Folder of a classifier.", required=True)
flags.DEFINE_string("input_file", None, "Lines of text.", required=True)
flags.DEFINE_integer("predict_batch_size", 32, "As of run_classifier.py.")
flags.DEFINE_enum("dtype", "float32", ["float32", "bfloat16"], "Precision.")
flags.DEFINE_string("results_file", None, "JSON file for the speed.")

# The weights do not matter, so the classes do not.
_LABELS = ("no", "yes")


def make_batches(options):
  """Returns a list of batches, dicts of tensors, of lines of like length."""
  examples = [
    data.Example(str(number), line)
    for number, line in file_io.read_lines(FLAGS.input_file)
  ]
  arrays, _ = inputs.encode(examples, options)
  lengths = arrays["input_mask"].sum(axis=1).tolist()
  batches = []
  for places in input_sequences.batches_by_length(
    lengths, FLAGS.predict_batch_size, options.max_seq_length
  ):
    longest = lengths[places[0]]
    # [B, 1, T]: an example is one sequence.
    batch = {
      name: tf.constant(values[places, None, :longest])
      for name, values in arrays.items()
    }
    batches.append({**batch, "label_ids": tf.zeros([len(places)], tf.int32)})
  return batches


def make_network(config):
  """Returns a function of a batch that is compiled once."""
  network = model.ClassifierModel(
    config, data.SINGLE, len(_LABELS), seed=1, skip_padding=True,
    compute_dtype=distribution.COMPUTE_DTYPES[FLAGS.dtype],
  )
  return tf.function(
    job.batch_outputs(network, shapes_vary=True), autograph=False,
    reduce_retracing=True,
  )


def main(argv):
  del argv
  files = model_folder.find(FLAGS.model_dir)
  config = modeling.BertConfig.from_json_file(files["bert_config_file"])
  options = inputs.InputOptions(data.SINGLE, _LABELS, files["vocab_file"])
  batches = make_batches(options)
  network = make_network(config)
  # Of different shapes, so that the graph takes any: then it is traced.
  for batch in (batches[0], batches[-1], batches[0]):
    network(batch)
  start = time.perf_counter()
  for batch in batches:
    network(batch)["scores"].numpy()
  seconds = time.perf_counter() - start
  examples = sum(len(batch["label_ids"]) for batch in batches)
  print(f"{examples / seconds:.1f} examples/s, {examples} in {seconds:.1f} s")
  if FLAGS.results_file:
    found = {"examples_per_second": examples / seconds}
    file_io.write_text(FLAGS.results_file, json.dumps(found))


if __name__ == "__main__":
  app.run(errors.report_input_errors(main))
