"""A bi-encoder: computes one vector per text, and learns from pairs of texts.

The score of a pair is the cosine of its two vectors (arXiv 1908.10084), so the
vectors of many texts can be stored and compared. Letters: B batch, T tokens, D
width of a vector, W texts of an example (the first text, the second text and
an optional hard negative), C candidates (all texts of a batch except the first
text of each example).
"""

from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

import configuration
import heads
import layers
import named_weights
from checkpoints import model_folder, model_writer, sentence_pooling
from classification import data, model, scores
from classification import task as tasks
from common import errors, run_settings
from text import input_sequences
from variants import registry


def check(
  settings: run_settings.Settings,
  config: configuration.BertConfig,
  task_kind: str,
) -> None:
  """Raises InputError for a missing pooling layer, or missing negatives."""
  if task_kind in data.OF_VECTORS:
    sentence_pooling.Pooling.of(settings, config.num_hidden_layers)
  if (
    task_kind == data.RETRIEVAL
    and settings.do_train
    and not settings.negative_column
    and settings.train_batch_size == 1
  ):
    raise errors.InputError(
      "--train_batch_size=1 leaves no negatives, which are the texts of other "
      "pairs in the batch; pass a larger batch size, or --negative_column"
    )


class BiEncoder(model.Network):
  """Learns to make the cosine of two texts equal their score, scaled to 0..1.

  Its logits are the texts' vectors.
  """

  def __init__(
    self,
    settings: run_settings.Settings,
    config: configuration.BertConfig,
    task: tasks.ClassifierTask,
    **model_options: Any,
  ):
    """Creates the encoder's variables; there is no head.

    Raises InputError: see sentence_pooling.Pooling.of.
    """
    self.pooling = sentence_pooling.Pooling.of(
      settings, config.num_hidden_layers
    )
    super().__init__(config, task.task_kind, **model_options)
    if self.pooling.mode != "pooled":
      self.allowed_missing = registry.OPTIONAL
    self._temperature = settings.temperature
    # The scores that correspond to the cosines 0 and 1.
    official = task.official.scores if task.official else None
    self._scores = official or (0.0, 1.0)

  def trained_variables(self) -> list[tf.Variable]:
    """Returns the variables that affect the vectors."""
    depth = self.config.num_hidden_layers
    pooled = {layer % depth for each in self.pooling.layers for layer in each}
    unused = [f"/layer_{number}/" for number in range(max(pooled) + 1, depth)]
    if self.pooling.mode != "pooled":
      unused += ["/pooler/", "/head/"]
    return [
      variable
      for variable in self.variables
      if not any(
        part in named_weights.variable_name(variable) for part in unused
      )
    ]

  def __call__(
    self, batch: dict, dropout_seed: tf.Tensor | None = None
  ) -> tf.Tensor:
    """Returns the unit vectors of a batch, float32 [B, W, D].

    `batch` maps input_sequences.NAMES to int32 [B, W, T]; no sequence is empty.
    """
    sizes = layers.sizes(batch["input_ids"])  # B, W, T
    # [B W, T] each
    sequences = {
      name: tf.reshape(batch[name], [-1, sizes[-1]])
      for name in input_sequences.NAMES
    }
    output = self.bert.encode(sequences, dropout_seed)
    vectors = heads.pool(output, sequences["input_mask"], self.pooling)
    vectors = tf.reshape(vectors, [*sizes[:2], vectors.shape[-1]])
    return tf.math.l2_normalize(vectors, -1)

  def example_losses(
    self, vectors: tf.Tensor, label_ids: tf.Tensor
  ) -> tf.Tensor:
    """Returns the squared errors of the pairs' cosines, float32 [B]."""
    assert self._scores  # Tasks of similarity have scores.
    low, high = self._scores
    cosines = tf.reduce_sum(vectors[:, 0] * vectors[:, 1], -1)
    return tf.square(cosines - (label_ids - low) / (high - low))

  def write(
    self,
    folder: str,
    settings: run_settings.Settings,
    config: configuration.BertConfig,
    inputs: dict,
    step: int,
  ) -> None:
    """Writes a model folder; see model.Network.write."""
    inputs = {
      **inputs,
      **settings.pick(tasks.VECTOR_FLAGS),
      "task_kind": self.task_kind,
      tasks.TEXT_PAIRS: False,  # The encoder reads one text at a time.
    }
    if not model_writer.is_for_sentences(config, self.pooling):
      logging.warning(
        "sentence-transformers does not support this model with --pooling=%s "
        "of layers %s: only this project can use %s",
        *self.pooling[:2],
        folder,
      )
      super().write(folder, settings, config, inputs, step)
      return
    model_writer.write_sentence_model(
      folder,
      self.variables,
      model_folder.with_input_settings(config, inputs),
      settings.vocab_file,
      settings.do_lower_case,
      pooling=self.pooling,
      max_length=settings.max_seq_length,
      never_split=settings.never_split,
    )


class Retriever(BiEncoder):
  """Learns which second text of a batch belongs to each first text."""

  compares_examples = True

  def example_losses(
    self, vectors: tf.Tensor, label_ids: tf.Tensor
  ) -> tf.Tensor:
    """Returns the loss of each example, float32 [B]; see `in_batch_losses`."""
    return in_batch_losses(vectors, label_ids, self._temperature)

  def evaluated(
    self, logits: np.ndarray, label_ids: np.ndarray
  ) -> dict[str, np.ndarray]:
    """Returns the examples' scores, vectors and text ids, [B, ...] each."""
    return {
      "scores": scores.of_logits(self.task_kind, logits),
      "vectors": logits,
      "label_ids": label_ids,
    }

  def evaluation_losses(self, outputs: dict, batch_size: int) -> np.ndarray:
    """Returns the losses in batches of `batch_size` examples, float32 [N]."""
    # A loss depends on its batch, and outputs were computed in batches sorted
    # by length. Regroup them, so that the losses do not depend on that order.
    vectors, label_ids = outputs["vectors"], outputs["label_ids"]
    return np.concatenate(
      [
        self.example_losses(
          vectors[start : start + batch_size],
          label_ids[start : start + batch_size],
        )
        for start in range(0, len(vectors), batch_size)
      ]
    )


def in_batch_losses(
  vectors: tf.Tensor, text_ids: tf.Tensor, temperature: float
) -> tf.Tensor:
  """Returns the loss of each example, float32 [B].

  It is the cross-entropy of choosing the example's second text among all
  candidates of the batch (arXiv 1705.00652). The logits are the candidates'
  cosines with the first text. The loss equals sentence-transformers'
  MultipleNegativesRankingLoss unless texts repeat: here, candidates that equal
  the correct text, or are correct for an equal first text, are not negatives.

  Args:
    vectors: float32 [B, W, D], unit vectors.
    text_ids: int32 [B, W], equal for equal texts.
    temperature: divisor of the cosines, 1 / scale in sentence-transformers.
  """
  size, width = layers.sizes(vectors)[0], vectors.shape[-1]
  # The first B candidates are the correct texts: [C, D] and [C].
  candidates = tf.reshape(tf.transpose(vectors[:, 1:], [1, 0, 2]), [-1, width])
  ids = tf.reshape(tf.transpose(text_ids[:, 1:]), [-1])
  logits = tf.matmul(vectors[:, 0], candidates, transpose_b=True) / temperature
  is_equal = tf.equal(text_ids[:, :1], text_ids[:, 0])  # [B, B]
  is_right = tf.equal(text_ids[:, 1:2], ids)  # [B, C]
  # [B, C]: how many examples pair the row's first text with the candidate.
  counts = tf.matmul(
    tf.cast(is_equal, tf.float32), tf.cast(is_right, tf.float32)
  )
  is_target = tf.eye(size, tf.shape(ids)[0], dtype=tf.bool)
  is_excluded = (counts > 0) & ~is_target  # [B, C]
  return tf.nn.sparse_softmax_cross_entropy_with_logits(
    tf.range(size), tf.where(is_excluded, tf.float32.min, logits)
  )
