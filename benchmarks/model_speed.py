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

import contextlib
import os
import resource
import sys

import numpy as np
import tensorflow as tf
from absl import app, flags

# Run as a script, this folder is on the path and its parent is not.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import peer_imports
import step_timing

import modeling
import optimization
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


def make_batch(config, size, length):
  """Returns ids, mask and segments [size, length] and labels [size]."""
  ids = np.random.RandomState(0).randint(0, config.vocab_size, [size, length])
  ids = ids.astype(np.int32)
  return ids, np.ones_like(ids), np.zeros_like(ids), np.zeros([size], np.int32)


class Ours:
  """This project's classifier of two labels with its optimizer."""

  name = "ours"
  optional = False

  def __init__(self, config, *, dtype, jit_compile, recompute_activations):
    self._model = modeling.BertModel(
      config,
      compute_dtype=dtype,
      recompute_activations=recompute_activations,
    )
    self._head = modeling.ClassificationHead(config, 2)
    self._variables = (
      self._model.trainable_variables + self._head.trainable_variables
    )
    self._optimizer = optimization.AdamWeightDecay()
    self._steps = 0
    self._train = tf.function(self._train_step, jit_compile=jit_compile)
    self._predict = tf.function(self._logits, jit_compile=jit_compile)

  def train(self, batch):
    """One training step; returns when it is done."""
    # Outside of the tf.function, which may make variables only once.
    if not self._steps:
      self._optimizer.create_slots(self._variables)
    self._steps += 1
    self._train(tf.constant(self._steps), *map(tf.constant, batch)).numpy()

  def predict(self, batch):
    """Logits of a batch."""
    self._predict(*map(tf.constant, batch[:3])).numpy()

  def _logits(self, ids, mask, segments, **options):
    # The last layer only where the head reads it, as in run_classifier.py.
    first = modeling.first_positions(ids)
    output = self._model(ids, mask, segments, positions=first, **options)
    return self._head(output.pooled_output, **options)

  def _train_step(self, step, ids, mask, segments, labels):
    with tf.GradientTape() as tape:
      seed = tf.stack([1, step])
      logits = self._logits(
        ids, mask, segments, training=True, dropout_seed=seed
      )
      loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
      )
    gradients = tape.gradient(loss, self._variables)
    self._optimizer.apply_gradients(
      gradients, self._variables, learning_rate=1e-5, step=step
    )
    return loss


class HuggingFace:
  """transformers' BertForSequenceClassification with torch's AdamW."""

  def __init__(self, config, *, dtype, compiled=False):
    peer_imports.hide_triton()
    import torch
    import transformers

    names = config.to_dict()
    # Their name of the tanh form, which ours is.
    names["hidden_act"] = "gelu_new"
    self.name = "Hugging Face, " + ("torch.compile" if compiled else "eager")
    self.optional = compiled
    self._torch, self._dtype = torch, dtype
    self._model = transformers.BertForSequenceClassification(
      transformers.BertConfig(
        num_labels=2, attn_implementation="sdpa", **names
      )
    )
    self._optimizer = torch.optim.AdamW(
      self._model.parameters(), lr=1e-5, fused=True
    )
    self._run = torch.compile(self._model) if compiled else self._model

  def train(self, batch):
    """One training step; returns when it is done."""
    self._model.train()
    with self._precision():
      loss = self._run(**self._inputs(batch)).loss
    loss.backward()
    self._torch.nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
    self._optimizer.step()
    self._optimizer.zero_grad()

  def predict(self, batch):
    """Logits of a batch."""
    # Without dropout, as ours.
    self._model.eval()
    with self._torch.inference_mode(), self._precision():
      self._run(**self._inputs(batch))

  def _precision(self):
    if self._dtype == tf.float32:
      return contextlib.nullcontext()
    return self._torch.autocast("cpu", self._torch.bfloat16)

  def _inputs(self, batch):
    names = ("input_ids", "attention_mask", "token_type_ids", "labels")
    return {
      name: self._torch.from_numpy(value.astype(np.int64))
      for name, value in zip(names, batch)
    }


def make_contenders(config, dtype):
  """Returns ours and, where its libraries can be imported, the peer."""
  contenders = [
    Ours(
      config,
      dtype=dtype,
      jit_compile=FLAGS.jit_compile,
      recompute_activations=FLAGS.recompute_activations,
    )
  ]
  if FLAGS.peers:
    try:
      for compiled in [False, True][: 1 + FLAGS.torch_compile]:
        contenders.append(HuggingFace(config, dtype=dtype, compiled=compiled))
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
  flop = step_timing.flop_per_example(config, FLAGS.max_seq_length)
  results = {}
  # The backward pass has two products for each of the forward pass.
  for wanted, method, size, flop in (
    (FLAGS.train, "train", FLAGS.batch_size, 3 * flop),
    (FLAGS.predict, "predict", FLAGS.predict_batch_size, flop),
  ):
    if wanted:
      batch = make_batch(config, size, FLAGS.max_seq_length)
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
