"""Computes the model's vectors of texts in batches.

Letters: B batch, T sequence, L layers in --layers, H width, D width of
a text's vector.
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt
import tensorflow as tf

import configuration
import heads
import modeling
from checkpoints import sentence_pooling, weight_files
from common import run_settings
from features import text_batches
from text import input_sequences
from training import distribution
from variants import registry

# Number of tokens whose vectors are in memory at a time: 200 MB for four layers
# of BERT-base.
_BLOCK_TOKENS = 1 << 14

Settings = run_settings.Settings
# Takes input_ids, input_mask and segment_ids [B, T].
Compute = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]


def layers_to_write(settings: Settings, depth: int) -> list[int]:
  """Returns --layers as numbers, or [] with --pooling or --sparse.

  Raises:
    InputError: an entry is not a number, or not one of `depth` layers.
  """
  if settings.pooling or settings.sparse:
    return []
  # Without an entry, check "", which is an invalid layer.
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
  """Returns the encoder and, with --sparse, its head, with trained weights.

  Raises:
    InputError: the checkpoint lacks a variable that the outputs depend on; or
      --sparse with a model that predicts next words.
  """
  head = None
  is_tpu = distribution.is_tpu(strategy)
  source = weight_files.open_reader(settings.init_checkpoint)
  with strategy.scope(), weight_files.without_random_init(source):
    model = registry.make_encoder(
      config,
      compute_dtype=distribution.COMPUTE_DTYPES[settings.dtype],
      use_one_hot_embeddings=settings.use_one_hot_embeddings or is_tpu,
      # It makes shapes depend on the number of tokens: not possible with XLA.
      skip_padding=settings.jit_compile != "true" and not is_tpu,
    )
    if settings.sparse:
      registry.check_masked_words(config)
      head = heads.MaskedLMHead(config, model.word_embeddings, fused=True)
  # Some published encoders lack the pooler, which only --pooling=pooled reads.
  optional = () if settings.pooling == "pooled" else heads.POOLER
  variables = [*model.variables, *(head.variables if head else ())]
  weight_files.load(variables, source, allowed_missing=optional)
  return model, head


def make_compute(
  model: modeling.BertModel,
  settings: Settings,
  layers: list[int],
  head: heads.MaskedLMHead | None = None,
) -> Compute:
  """Returns a function from a batch to float32 [B, L, T, H].

  With --pooling its result is [B, D], with a head [B, V] (heads.word_weights).

  Raises:
    InputError: see `sentence_pooling.Pooling.of`.
  """
  pooling = None
  if settings.pooling:
    pooling = sentence_pooling.Pooling.of(
      settings, model.config.num_hidden_layers
    )

  def compute(input_ids, input_mask, segment_ids):
    output = model(input_ids, input_mask, segment_ids)
    if head:
      return heads.word_weights(
        head,
        output.sequence_output,
        input_mask,
        settings.sparse_pooling,
        settings.sparse_activation,
      )
    if pooling:
      return heads.pool(output, input_mask, pooling)
    states = [output.all_encoder_layers[layer] for layer in layers]
    return tf.cast(tf.stack(states, axis=1), tf.float32)

  return compute


def cosines(a: npt.ArrayLike, b: npt.ArrayLike) -> np.ndarray:
  """Returns float64 [N], the cosines between the rows of a and b [N, D].

  A vector of zeros has the cosine 0 with any other.
  """
  a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
  lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
  # If a length is 0, the numerator is also 0, so the result is 0 / 1.
  return (a * b).sum(1) / np.where(lengths > 0, lengths, 1)


class VectorComputer:
  """Compiles a function of batches once, and applies it to Examples."""

  def __init__(
    self,
    compute: Compute,
    strategy: tf.distribute.Strategy,
    settings: Settings,
    network: Callable | None = None,
  ):
    """Takes the function to compile, and the strategy of its model.

    Args:
      network: function to use instead of `compute`; it computes "embedding"
        from int32 arrays with the names of input_sequences.pad_batch.
    """
    jit = settings.jit_compile == "true"
    # XLA compiles again for each length, so all batches have the same length.
    self._is_static = jit or distribution.is_tpu(strategy)
    self._replicas = replicas = strategy.num_replicas_in_sync
    self._batch_size = settings.batch_size
    self._max_length = settings.max_seq_length
    # Both texts of a line must be in the same block.
    self._group = 2 if settings.similarity else 1
    compute = tf.function(compute, jit_compile=jit or None, autograph=False)

    def replica_step(*batch):
      replica = tf.distribute.get_replica_context().replica_id_in_sync_group
      share = tf.shape(batch[0])[0] // replicas
      start = replica * share
      # Every replica gets the whole batch and selects its rows. So a single
      # gather returns the vectors in order.
      return compute(*(values[start : start + share] for values in batch))

    @tf.function(
      input_signature=[tf.TensorSpec([None, None], tf.int32)] * 3,
      autograph=False,
    )
    def step(input_ids, input_mask, segment_ids):
      batch = input_ids, input_mask, segment_ids
      return strategy.gather(strategy.run(replica_step, args=batch), axis=0)

    self._step = step
    if network:
      self._step = lambda **batch: network(**batch)["embedding"]

  def _compute_batch(self, examples):
    """Returns an array with a row for each example."""
    # XLA needs a constant shape; otherwise a batch needs no padding rows.
    rows = self._batch_size if self._is_static else len(examples)
    # All replicas need equally many rows.
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
    """Yields a list of (Example, its values) for each block, in order."""
    for block in text_batches.blocks(
      examples, _BLOCK_TOKENS, group=self._group
    ):
      values: dict[int, np.ndarray] = {}
      lengths = [len(example.input_ids) for example in block]
      for places in input_sequences.batches_by_length(
        lengths, self._batch_size, 0 if self._is_static else self._max_length
      ):
        rows = self._compute_batch([block[place] for place in places])
        values.update(zip(places, rows))
      yield [(example, values[n]) for n, example in enumerate(block)]


def attention(
  model: modeling.BertModel, example: text_batches.Example
) -> np.ndarray:
  """Returns the attention probabilities, float32 [layers, heads, T, T]."""
  output = model(
    tf.constant([example.input_ids]),
    token_type_ids=tf.constant([example.segment_ids]),
    return_attention=True,
  )
  return tf.cast(tf.stack(output.attention_probs), tf.float32)[:, 0].numpy()
