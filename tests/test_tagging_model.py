"""Tests the objective of the tagging model."""

import numpy as np
import tensorflow as tf

from tagging import model
from tiny_model import assert_close

RNG = np.random.RandomState(0)


def test_the_objective_is_the_mean_over_labelled_words():
  labels = tf.constant([[-1, 0, 2, -1], [-1, 1, -1, -1]])
  logits = tf.constant(RNG.randn(2, 4, 3).astype(np.float32))
  batch = {
    "input_ids": labels,
    "input_mask": tf.constant([[1, 1, 1, 1], [1, 1, 1, 0]]),
    "label_ids": labels,
  }
  objective = model.objective(lambda batch, dropout_seed: logits)
  sums, metrics = objective.sums(batch, None)
  words = [(0, 1, 0), (0, 2, 2), (1, 1, 1)]
  log_probs = tf.nn.log_softmax(logits).numpy()
  expected = -sum(log_probs[word] for word in words)
  assert_close(sums["tagging"], expected, 1e-5)
  assert objective.denominators(batch)["tagging"] == 3.0
  right = sum(np.argmax(logits[row, index]) == k for row, index, k in words)
  assert metrics["tagging_accuracy"] == (right, 3.0)
  # Only training reports the metrics for tokens per second.
  assert "tokens_per_example" not in metrics
  _, metrics = objective.sums(batch, [1, 2])
  assert metrics["tokens_per_example"] == (7.0, 2.0)
  assert metrics["fill_rate"] == (7.0, tf.size(batch["input_mask"]).numpy())
