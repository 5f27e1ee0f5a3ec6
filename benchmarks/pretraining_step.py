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
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import app, flags

# Run as a script, this folder is on the path and its parent is not.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import pretraining_peers
import step_timing

import modeling
import optimization
from common import errors
from pretraining import pretrainer

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


class Batch(NamedTuple):
  """int32 arrays: the first three [B, T], masked_... [B, P], the last [B, 1].

  Names are those of the records' features.
  """

  input_ids: np.ndarray
  input_mask: np.ndarray
  segment_ids: np.ndarray
  masked_lm_positions: np.ndarray
  masked_lm_ids: np.ndarray
  next_sentence_labels: np.ndarray


def make_batch(config, size, length, predictions):
  """Returns a Batch of full sequences with random words."""
  rng = np.random.RandomState(0)
  ids = rng.randint(0, config.vocab_size, [size, length])
  shuffled = np.argsort(rng.random_sample([size, length]))
  places = np.sort(shuffled[:, :predictions])
  segments = np.tile(np.arange(length) >= length // 2, [size, 1])
  arrays = (
    ids, np.ones_like(ids), segments, places,
    np.take_along_axis(ids, places, 1), rng.randint(0, 2, [size, 1]),
  )
  return Batch(*(array.astype(np.int32) for array in arrays))


def flop_per_example(config, length, predictions):
  """Operations of the products of a forward pass, masked-LM head included."""
  width = config.hidden_size
  # The dense layer of the head, then the table of words.
  head = 2 * predictions * width * (width + config.vocab_size)
  return step_timing.flop_per_example(config, length) + head


class Ours:
  """This project's model, loss and optimizer."""

  name = "ours"
  optional = False

  def __init__(self, config, *, dtype):
    model = pretrainer.PretrainingModel(config, compute_dtype=dtype, seed=1)
    self._objective = pretrainer.objective(model)
    self._variables = model.trained_variables()
    self._optimizer = optimization.AdamWeightDecay()
    self._steps = 0
    self._step = tf.function(self._train_step)

  def pretrain(self, batch):
    """One training step; returns when it is done."""
    # Outside of the tf.function, which may make variables only once.
    if not self._steps:
      self._optimizer.create_slots(self._variables)
    self._steps += 1
    # The copy to the device is part of a step, as it is for the peers.
    tensors = {k: tf.constant(v) for k, v in batch._asdict().items()}
    weights = tf.ones(batch.masked_lm_ids.shape)
    tensors["masked_lm_weights"] = weights
    self._step(tf.constant(self._steps), tensors).numpy()

  def _train_step(self, step, batch):
    totals = self._objective.weights(batch)
    with tf.GradientTape() as tape:
      sums, _ = self._objective.sums(batch, tf.stack([1, step]))
      loss = tf.add_n([sums[name] / totals[name] for name in sums])
    gradients = tape.gradient(loss, self._variables)
    self._optimizer.apply_gradients(
      gradients, self._variables, learning_rate=1e-5, step=step
    )
    return loss


def make_contenders(config, dtype):
  """Returns ours and those of --peers whose libraries can be imported."""
  contenders = [Ours(config, dtype=dtype)]
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
    make_batch(config, FLAGS.batch_size, *sizes),
    peak=step_timing.make_peak(dtype),
    # The backward pass has two products for each of the forward pass.
    flop=3 * flop_per_example(config, *sizes),
    rounds=FLAGS.rounds,
  )
  step_timing.write(FLAGS.results_file, {"pretrain": results})


if __name__ == "__main__":
  app.run(errors.report_input_errors(main))
