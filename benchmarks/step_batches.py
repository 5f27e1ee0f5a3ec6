"""Batches of full sequences with random words, and what a step of them costs.

Nothing here imports TensorFlow or torch: programs of both take these.
"""

from typing import NamedTuple

import numpy as np

# Of every program's optimizer.
RATE, DECAY, CLIP = 1e-5, 0.01, 1.0


class PretrainingBatch(NamedTuple):
  """int32 arrays: the first three [B, T], masked_... [B, P], the last [B, 1].

  Names are those of the records' features.
  """

  input_ids: np.ndarray
  input_mask: np.ndarray
  segment_ids: np.ndarray
  masked_lm_positions: np.ndarray
  masked_lm_ids: np.ndarray
  next_sentence_labels: np.ndarray


def of_classifier(vocab_size, size, length):
  """Returns ids, mask and segments [size, length] and labels [size], int32."""
  ids = np.random.RandomState(0).randint(0, vocab_size, [size, length])
  ids = ids.astype(np.int32)
  return ids, np.ones_like(ids), np.zeros_like(ids), np.zeros([size], np.int32)


def of_pretraining(vocab_size, size, length, predictions):
  """Returns a PretrainingBatch with `predictions` masked words a sequence."""
  rng = np.random.RandomState(0)
  ids = rng.randint(0, vocab_size, [size, length])
  shuffled = np.argsort(rng.random_sample([size, length]))
  places = np.sort(shuffled[:, :predictions])
  segments = np.tile(np.arange(length) >= length // 2, [size, 1])
  arrays = (
    ids, np.ones_like(ids), segments, places,
    np.take_along_axis(ids, places, 1), rng.randint(0, 2, [size, 1]),
  )
  return PretrainingBatch(*(array.astype(np.int32) for array in arrays))


def flop(values, length, predictions=0):
  """Operations of the products of one example's forward pass.

  Args:
    values: dict, what bert_config.json holds.
    length: tokens of the sequence.
    predictions: positions of the masked-LM head; 0: no such head.
  """
  width, inner = values["hidden_size"], values["intermediate_size"]
  # Query, key, value and output; the two products of the feed-forward.
  weights = 4 * width * width + 2 * width * inner
  # A product of [m, k] and [k, n] is 2 m k n; attention has two of T x T.
  per_layer = 2 * length * weights + 4 * length * length * width
  # The dense layer of the head, then the table of words.
  head = 2 * predictions * width * (width + values["vocab_size"])
  return values["num_hidden_layers"] * per_layer + head
