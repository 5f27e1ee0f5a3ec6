"""Batches of extract_features.py: their sizes, and the order of the values."""

import numpy as np
import pytest
import tensorflow as tf

import two_replicas
from common import errors
from features import text_batches, text_vectors


@pytest.mark.parametrize("is_static", [False, True])
@pytest.mark.parametrize("replicas", [1, 2])
def test_short_texts_share_larger_batches(is_static, replicas):
  shapes = []

  def compute(input_ids, input_mask, segment_ids):
    del input_mask, segment_ids
    return tf.cast(input_ids[:, :1], tf.float32)

  strategy = tf.distribute.get_strategy()
  if replicas == 2:
    strategy = two_replicas.strategy()
  computer = text_vectors.VectorComputer(
    compute, strategy, batch_size=2, max_length=32, is_static=is_static,
    jit=False,
  )
  step = computer._step

  def watched(**batch):
    shapes.append(batch["input_ids"].shape)
    return step(**batch)

  computer._step = watched
  # Text i is i, i, ...: two long ones among short ones.
  examples = [
    text_batches.Example(i, [i] * length, [0] * length)
    for i, length in enumerate([3, 32, 4, 4, 30, 2, 3, 1])
  ]
  ((found, values),) = [zip(*block) for block in computer.compute_all(examples)]
  assert list(found) == examples
  assert np.concatenate(values).tolist() == list(range(8))
  # Of 4 tokens, which count as 8, eight fit into 2 * 32.
  varying = [(2, 32), (6, 4)]
  assert shapes == ([(2, 32)] * 4 if is_static else varying)


@pytest.mark.parametrize("texts", [[], [""], ["-3"], ["1", "x"]])
def test_layers_that_are_none_are_refused(texts):
  with pytest.raises(errors.InputError, match="is no layer of this model"):
    text_vectors.layer_indexes(texts, 2)
