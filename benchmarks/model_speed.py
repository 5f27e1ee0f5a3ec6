"""Examples per second of the network: training steps and inference.

  python benchmarks/model_speed.py --batch_size=8 --max_seq_length=128

measures BERT-base with random weights: a classifier's training step (forward,
gradient, clipping, BERTAdam) and its inference, each as examples per second
and as share of what the machine's own matrix products allow. All contenders
run in turns, one step each, and the peak is measured in the same turns, so
that other work on the machine slows all of them alike. Two minutes on two CPU
cores. Hugging Face's model takes part where torch and transformers can be
imported.
"""

import os
import resource
import sys

import tensorflow as tf
from absl import app, flags

# Run as a script, this folder is on the path and its parent is not.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import huggingface_steps
import our_steps
import step_batches
import step_timing

import modeling
from common import errors

FLAGS = flags.FLAGS

flags.DEFINE_integer("batch_size", 8, "Sequences in a training step.")
flags.DEFINE_integer("predict_batch_size", 32, "Sequences in an inference.")
flags.DEFINE_integer("max_seq_length", 128, "Tokens in a sequence.")
flags.DEFINE_integer("num_hidden_layers", 12, "Layers, of BERT-base's width.")
flags.DEFINE_integer("rounds", 5, "Turns; the median counts.")
flags.DEFINE_enum("dtype", "float32", ["float32", "bfloat16"], "Precision.")
flags.DEFINE_bool("jit_compile", False, "Whether XLA compiles our steps.")
flags.DEFINE_bool("recompute_activations", False, "See BertModel.")
flags.DEFINE_bool("train", True, "Measure the training step.")
flags.DEFINE_bool("predict", True, "Measure inference.")
flags.DEFINE_bool("peers", True, "Measure Hugging Face's model too.")
flags.DEFINE_bool("torch_compile", False, "And once more with torch.compile.")
flags.DEFINE_string("results_file", None, "JSON file for the medians.")


def make_contenders(config, dtype):
  """Returns ours and, where its libraries can be imported, the peer."""
  contenders = [
    our_steps.Classifier(
      config,
      dtype=dtype,
      jit_compile=FLAGS.jit_compile,
      recompute_activations=FLAGS.recompute_activations,
    )
  ]
  if FLAGS.peers:
    try:
      for compiled in [False, True][: 1 + FLAGS.torch_compile]:
        contenders.append(
          huggingface_steps.Classifier(
            config.to_dict(), dtype=dtype.name, compiled=compiled
          )
        )
    except ImportError as error:
      print(f"without Hugging Face: {error}")
  return contenders


def main(argv):
  del argv
  config = modeling.BertConfig(
    30522, num_hidden_layers=FLAGS.num_hidden_layers, type_vocab_size=2
  )
  config.check_sequence_length(FLAGS.max_seq_length)
  dtype = tf.as_dtype(FLAGS.dtype)
  contenders = make_contenders(config, dtype)
  peak = step_timing.make_peak(dtype)
  print(f"peak of matrix products: {peak() / 1e9:.0f} GFLOP/s {dtype.name}")
  flop = step_batches.flop(config.to_dict(), FLAGS.max_seq_length)
  results = {}
  # The backward pass has two products for each of the forward pass.
  for wanted, method, size, flop in (
    (FLAGS.train, "train", FLAGS.batch_size, 3 * flop),
    (FLAGS.predict, "predict", FLAGS.predict_batch_size, flop),
  ):
    if wanted:
      batch = step_batches.of_classifier(
        config.vocab_size, size, FLAGS.max_seq_length
      )
      options = dict(peak=peak, flop=flop, rounds=FLAGS.rounds)
      results[method] = step_timing.measure(
        contenders, method, batch, **options
      )
  # Of all contenders together: they live in one process.
  resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
  print(f"peak memory of the process: {resident:.1f} GB")
  step_timing.write(FLAGS.results_file, results)


if __name__ == "__main__":
  app.run(errors.report_input_errors(main))
