"""Computes vectors of tokens or texts with an encoder, in batches.

Letters: B batch, T tokens, L layers in --layers, H width, V vocabulary, D
width of a text's vector.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

import configuration
import heads
import modeling
from checkpoints import sentence_pooling, weight_files
from common import run_settings
from features import text_batches
from text import input_sequences
from training import distribution
from variants import registry, sparse_vectors

# Number of tokens whose vectors are in memory at a time. Four layers of
# BERT-base take 200 MB.
_BLOCK_TOKENS = 1 << 14

Settings = run_settings.Settings
# Takes input_ids, input_mask and segment_ids [B, T].
Compute = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]


def layers_to_write(settings: Settings, depth: int) -> list[int]:
  """Returns --layers as layer numbers; [] with --pooling or --sparse.

  Raises:
    InputError: --layers is empty, or an entry is not one of `depth` layers.
  """
  if settings.pooling or settings.sparse:
    return []
  # If the list is empty, parse "", which raises the error for a wrong layer.
  named = f"--layers={','.join(settings.layers)}"
  return [
    sentence_pooling.layer_number(text, depth, named)
    for text in settings.layers or [""]
  ]


def load_model(
  settings: Settings,
  config: configuration.BertConfig,
  strategy: tf.distribute.Strategy,
) -> tuple[modeling.BertModel, heads.MaskedLMHead | None]:
  """Loads the encoder and, with --sparse, its masked language model head.

  Raises:
    InputError: see `weight_files.load`, or --sparse is set for a model that
      predicts the next token.
  """
  head = None
  is_tpu = distribution.is_tpu(strategy)
  source = weight_files.open_reader(settings.init_checkpoint)
  with strategy.scope(), weight_files.without_random_init(source):
    model = registry.make_encoder(
      config,
      compute_dtype=distribution.COMPUTE_DTYPES[settings.dtype],
      use_one_hot_embeddings=settings.use_one_hot_embeddings or is_tpu,
      # XLA needs static shapes, but without padding they depend on the data.
      skip_padding=settings.jit_compile != "true" and not is_tpu,
    )
    if settings.sparse:
      registry.check_masked_words(config)
      head = heads.MaskedLMHead(config, model.word_embeddings, fused=True)
  # Some published encoders lack the pooler, which only --pooling=pooled needs.
  optional = list(heads.POOLER if settings.sparse else registry.OPTIONAL)
  if settings.pooling == "pooled":
    optional = []
  variables = [*model.variables, *(head.variables if head else ())]
  weight_files.load(variables, source, allowed_missing=optional)
  return model, head


def make_compute(
  model: modeling.BertModel,
  settings: Settings,
  layers: list[int],
  head: heads.MaskedLMHead | None = None,
) -> Compute:
  """Returns a function that computes the vectors of a batch.

  Its result is float32: the hidden states of `layers`, [B, L, T, H]; with
  --pooling, text vectors [B, D]; with a head, token weights [B, V].

  Raises:
    InputError: see `sentence_pooling.Pooling.of`.
  """
  depth = model.config.num_hidden_layers
  pooling = settings.pooling and sentence_pooling.Pooling.of(settings, depth)

  def compute(
    input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor
  ) -> Any:
    output = model(input_ids, input_mask, segment_ids)
    if head:
      rules = settings.sparse_pooling, settings.sparse_activation
      states = model.head_states(output.sequence_output)
      return sparse_vectors.word_weights(head, states, input_mask, *rules)
    if pooling:
      return heads.pool(output, input_mask, pooling)
    chosen = [output.all_encoder_layers[layer] for layer in layers]
    return tf.cast(tf.stack(chosen, axis=1), tf.float32)

  return compute


class VectorComputer:
  """Computes the vectors of Examples with a function that it compiles once."""

  def __init__(
    self,
    compute: Compute,
    strategy: tf.distribute.Strategy,
    settings: Settings,
    network: Callable | None = None,
  ):
    """Prepares the function; it is compiled when it is first called.

    Args:
      compute: the function to compile.
      strategy: the strategy in whose scope the model was created.
      network: function to call instead of `compute`. It takes the arrays of
        input_sequences.pad_batch by name, and returns a dict with "embedding".
    """
    jit = settings.jit_compile == "true"
    # XLA recompiles for each new shape, so all batches get the same shape.
    self._is_static = jit or distribution.is_tpu(strategy)
    self._replicas = replicas = strategy.num_replicas_in_sync
    self._batch_size = settings.batch_size
    self._max_length = settings.max_seq_length
    # Both texts of a line must be in the same block.
    self._group = 2 if settings.similarity else 1
    compute = tf.function(compute, jit_compile=jit or None, autograph=False)

    def replica_step(*batch: tf.Tensor) -> Any:
      replica = tf.distribute.get_replica_context().replica_id_in_sync_group
      share = tf.shape(batch[0])[0] // replicas
      start = replica * share
      # Every replica gets the whole batch and computes its share of the rows,
      # so that `gather` returns the vectors in order.
      return compute(*(values[start : start + share] for values in batch))

    @tf.function(
      input_signature=[tf.TensorSpec([None, None], tf.int32)] * 3,
      autograph=False,
    )
    def step(
      input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor
    ) -> Any:
      batch = input_ids, input_mask, segment_ids
      return strategy.gather(strategy.run(replica_step, args=batch), axis=0)

    self._step = step
    if network:
      self._step = lambda **batch: network(**batch)["embedding"]

  def _compute_batch(self, examples: list) -> Any:
    """Returns the results of a batch, one row per example."""
    # A static shape needs padding rows.
    rows = self._batch_size if self._is_static else len(examples)
    # All replicas must have the same number of rows.
    rows += -rows % self._replicas
    batch = input_sequences.pad_batch(
      [example.input_ids for example in examples],
      [example.segment_ids for example in examples],
      rows=rows,
      length=self._max_length if self._is_static else None,
    )
    return np.asarray(self._step(**batch))[: len(examples)]

  def compute_all(
    self, examples: Iterable[text_batches.Example]
  ) -> Iterator[list[tuple[text_batches.Example, np.ndarray]]]:
    """Yields a list of (Example, its vectors) for each block, in order."""
    for block in text_batches.blocks(
      examples, _BLOCK_TOKENS, group=self._group
    ):
      values: dict[int, np.ndarray] = {}
      lengths = [len(example.input_ids) for example in block]
      for positions in input_sequences.batches_by_length(
        lengths, self._batch_size, 0 if self._is_static else self._max_length
      ):
        rows = self._compute_batch([block[n] for n in positions])
        values.update(zip(positions, rows))
      yield [(example, values[n]) for n, example in enumerate(block)]


def attention(
  model: modeling.BertModel, example: text_batches.Example
) -> np.ndarray:
  """Returns an example's attention probabilities, [layers, heads, T, T]."""
  output = model(
    tf.constant([example.input_ids]),
    token_type_ids=tf.constant([example.segment_ids]),
    return_attention=True,
  )
  return tf.cast(tf.stack(output.attention_probs), tf.float32)[:, 0].numpy()
