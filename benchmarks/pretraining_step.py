"""Pre-training steps per second: here and in other programs.

  python benchmarks/pretraining_step.py --batch_size=32 --max_seq_length=128 \
      --max_predictions_per_seq=20

BERT-base with random weights, full sequences; forward, gradient, clipping and
the optimizer, in turns, one step each, as a share of what the machine's own
matrix products allow. Peers are Hugging Face (torch, transformers), Model
Garden (tf-models-official) and keras-hub, where they can be imported: all
three go into one environment, `pip install keras-hub` included.
"""

import os
import sys

import tensorflow as tf
from absl import app, flags

# Run as a script, this folder is on the path and its parent is not.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import our_steps
import pretraining_peers
import step_batches
import step_timing

import modeling
from common import errors

FLAGS = flags.FLAGS

flags.DEFINE_integer("batch_size", 32, "Sequences in a step.")
flags.DEFINE_integer("max_seq_length", 128, "Tokens in a sequence.")
flags.DEFINE_integer("max_predictions_per_seq", 20, "Masked tokens of these.")
flags.DEFINE_integer("num_hidden_layers", 12, "Layers, of BERT-base's width.")
flags.DEFINE_integer("vocab_size", 30522, "Words.")
flags.DEFINE_integer("rounds", 5, "Turns; the median counts.")
flags.DEFINE_enum("dtype", "float32", ["float32", "bfloat16"], "Precision.")
flags.DEFINE_list(
  "peers", list(pretraining_peers.PEERS), "Whom to compare with; may be empty."
)
flags.DEFINE_bool(
  "compiled_peers", False, "And once more with torch.compile or XLA."
)
flags.DEFINE_string("results_file", None, "JSON file for the medians.")


def make_contenders(config, dtype):
  """Returns ours and those of --peers whose libraries can be imported."""
  contenders = [our_steps.Pretraining(config, dtype=dtype)]
  for name in filter(None, FLAGS.peers):
    try:
      for compiled in [False, True][: 1 + FLAGS.compiled_peers]:
        contenders.append(
          pretraining_peers.PEERS[name](config, dtype=dtype, compiled=compiled)
        )
    except ImportError as error:
      print(f"without {name}: {error}")
  return contenders


def main(_):
  config = modeling.BertConfig(
    FLAGS.vocab_size, num_hidden_layers=FLAGS.num_hidden_layers,
    type_vocab_size=2,
  )
  sizes = FLAGS.max_seq_length, FLAGS.max_predictions_per_seq
  config.check_sequence_length(sizes[0])
  dtype = tf.as_dtype(FLAGS.dtype)
  contenders = make_contenders(config, dtype)
  results = step_timing.measure(
    contenders,
    "pretrain",
    step_batches.of_pretraining(config.vocab_size, FLAGS.batch_size, *sizes),
    peak=step_timing.make_peak(dtype),
    # The backward pass has two products for each of the forward pass.
    flop=3 * step_batches.flop(config.to_dict(), *sizes),
    rounds=FLAGS.rounds,
  )
  step_timing.write(FLAGS.results_file, {"pretrain": results})


if __name__ == "__main__":
  app.run(errors.report_input_errors(main))
