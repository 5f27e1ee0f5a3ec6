"""Sparse vectors (SPLADE) whose products find the right text, and few weights.

  the ranking loss + query_weight FLOPS(queries) + document_weight FLOPS(texts)
  FLOPS(w) = sum over tokens of (mean over the batch's texts of w)^2

arXiv 2109.10086 (maximum over the text) and 2107.05720 (sum, FLOPS). The loss
is sentence-transformers' SpladeLoss around MultipleNegativesRankingLoss with a
scale of 1 / temperature. Unlike in the paper, the weights do not grow during
the training.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

import heads
import layers
from checkpoints import model_folder, model_writer
from classification import data
from common import errors, flag_values
from text import input_sequences
from variants import registry, sparse_vectors

KINDS = (data.RETRIEVAL,)
COMPARES = True
HEAD = "sparse"
OPTIONS = {
  "splade_query_weight": (5e-5, "FLOPS weight of the first texts."),
  "splade_document_weight": (3e-5, "FLOPS weight of all other texts."),
  "sparse_pooling": ("max", "Pools a token's weights over a text: max, sum."),
  "sparse_activation": ("relu", "From logit to weight: relu, log1p_relu."),
}


def network(base: type) -> type:
  """Returns a class of networks with the masked-LM head on the encoder."""

  class Splade(base):  # type: ignore[misc, valid-type]
    """Its logits are the weights of the vocabulary's tokens, [B, W, V]."""

    def __init__(
      self, settings: Any, config: Any, task: Any, **model_options: Any
    ):
      registry.check_masked_words(config)
      super().__init__(settings, config, task, **model_options)
      self.allowed_missing = heads.POOLER
      self._rules = settings.sparse_pooling, settings.sparse_activation
      for rule, known in zip(self._rules, flag_values.SPARSE_RULES):
        if rule not in known:
          raise errors.InputError(
            f"--losses=splade with the rule {rule!r}: expected "
            f"{' or '.join(known)} for --sparse_pooling or --sparse_activation"
          )
      is_given = "temperature" in settings.given
      self._temperature = settings.temperature if is_given else 1.0
      words, seed = self.bert.word_embeddings, model_options["seed"]
      self.head = heads.MaskedLMHead(config, words, seed=seed)

    def trained_variables(self) -> list[tf.Variable]:
      return [v for v in self.variables if "/pooler/" not in v.name]

    def __call__(self, batch: dict, dropout_seed: Any = None) -> tf.Tensor:
      sizes = layers.sizes(batch["input_ids"])  # B, W, T
      inputs = {
        name: tf.reshape(batch[name], [-1, sizes[-1]])
        for name in input_sequences.NAMES
      }
      states = self.bert.encode(inputs, dropout_seed).sequence_output
      weights = sparse_vectors.word_weights(
        self.head, states, inputs["input_mask"], *self._rules
      )
      return tf.reshape(weights, [*sizes[:2], weights.shape[-1]])

    def write(
      self, folder: str, settings: Any, config: Any, inputs: dict, step: int
    ) -> None:
      del step
      rules = settings.pick("sparse_pooling sparse_activation")
      kind = {"task_kind": self.task_kind, "text_pairs": False}
      model_writer.write_sentence_model(
        folder,
        self.variables,
        model_folder.with_input_settings(config, {**inputs, **kind, **rules}),
        settings.vocab_file,
        settings.do_lower_case,
        sparse=self._rules,
        max_length=settings.max_seq_length,
        never_split=settings.never_split,
      )

  return Splade


def make(
  inner: Callable,
  task_kind: str,
  splade_query_weight: float,
  splade_document_weight: float,
  **rules: str,
) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
  """Returns a function of weights [B, W, V] and labels; it returns [B]."""
  del task_kind, rules

  def losses(weights: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    return (
      inner(weights, labels)
      + splade_query_weight * flops(weights[:, :1])
      + splade_document_weight * flops(weights[:, 1:])
    )

  return losses


def flops(weights: tf.Tensor) -> tf.Tensor:
  """Returns the FLOPS of [B, W, V], a scalar."""
  return tf.reduce_sum(tf.square(tf.reduce_mean(weights, [0, 1])))
