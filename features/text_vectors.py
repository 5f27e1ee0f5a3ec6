"""The model's vectors of texts, batch by batch.

Letters: B batch, T sequence, L layers that are asked for, H width, D width of
a text's vector.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

import modeling
from checkpoints import weight_files
from common import errors, run_settings
from features import sentence_vectors, text_batches
from text import input_sequences
from training import distribution
from variants import registry

# Tokens whose vectors are held in memory at a time: 200 MB for four layers of
# BERT-base.
_BLOCK_TOKENS = 1 << 14

# Of input_ids, input_mask and segment_ids [B, T].
Compute = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]


def layer_indexes(texts: Sequence[str], num_hidden_layers: int) -> list[int]:
  """Returns --layers as integers.

  Raises:
    InputError: no number, or not a layer of the model.
  """
  indexes = []
  # One that is empty, too, is no layer.
  for text in texts or [""]:
    # As in the original: negative numbers count from the last layer.
    is_number = text.strip().removeprefix("-").isdecimal()
    if not is_number or not (
      -num_hidden_layers <= int(text) < num_hidden_layers
    ):
      raise errors.InputError(
        f"--layers={','.join(texts)}: {text!r} is no layer of this model, "
        f"which has {num_hidden_layers}; pass numbers from "
        f"-{num_hidden_layers} to {num_hidden_layers - 1}"
      )
    indexes.append(int(text))
  return indexes


def computes_vectors(settings: run_settings.Settings) -> bool:
  """Whether vectors are to be written, to a file or as answers."""
  return bool(settings.output_file or settings.input_file == "-")


def layers_to_write(
  settings: run_settings.Settings, config: modeling.BertConfig
) -> list[int]:
  """Returns what --layers means for a model, [] where it is not read.

  Raises:
    InputError: the model has no such layer.
  """
  depth = config.num_hidden_layers
  if settings.pooling == "last_four_concat" and depth < 4:
    raise errors.InputError(
      f"--pooling=last_four_concat needs four layers, but the model has {depth}"
    )
  is_read = computes_vectors(settings) or settings.embedding_plot
  if settings.pooling or not is_read:
    return []
  return layer_indexes(settings.layers, depth)


def load_model(
  settings: run_settings.Settings,
  config: modeling.BertConfig,
  strategy: tf.distribute.Strategy,
) -> modeling.BertModel:
  """Returns the encoder with the weights of --init_checkpoint.

  Raises:
    InputError: the checkpoint lacks a variable that is read.
  """
  is_tpu = distribution.is_tpu(strategy)
  with strategy.scope():
    model = registry.make_encoder(
      config,
      compute_dtype=distribution.COMPUTE_DTYPES[settings.dtype],
      use_one_hot_embeddings=settings.use_one_hot_embeddings or is_tpu,
      # Shapes then depend on the number of tokens, which XLA cannot compile.
      skip_padding=settings.jit_compile != "true" and not is_tpu,
    )
  # Some published encoders have no pooler; only --pooling=pooled reads it.
  optional = [] if settings.pooling == "pooled" else ["^bert/pooler/"]
  weight_files.load(
    model.variables, settings.init_checkpoint, allowed_missing=optional
  )
  return model


def token_vectors(model: modeling.BertModel, layers: list[int]) -> Compute:
  """Returns a function of a batch that gives float32 [B, L, T, H]."""

  def compute(input_ids, input_mask, segment_ids):
    states = model(input_ids, input_mask, segment_ids).all_encoder_layers
    chosen = [tf.cast(states[layer], tf.float32) for layer in layers]
    return tf.stack(chosen, axis=1)

  return compute


def text_vectors(
  model: modeling.BertModel, pooling: str, normalize: bool = False
) -> Compute:
  """Returns a function of a batch that gives float32 [B, D].

  Args:
    pooling: one of sentence_vectors.POOLINGS.
    normalize: whether to scale each vector to length 1.
  """

  def compute(input_ids, input_mask, segment_ids):
    output = model(input_ids, input_mask, segment_ids)
    vectors = sentence_vectors.pool(pooling, output, input_mask)  # [B, D]
    return tf.math.l2_normalize(vectors, axis=-1) if normalize else vectors

  return compute


class VectorComputer:
  """A function of batches that is compiled once and called with Examples."""

  def __init__(
    self,
    compute: Compute,
    strategy: tf.distribute.Strategy,
    *,
    batch_size: int,
    max_length: int,
    is_static: bool,
    jit: bool,
    group: int = 1,
  ):
    """Takes what is to be computed.

    Args:
      strategy: the one in whose scope the model was made.
      batch_size: B; of short texts several times as many, unless `is_static`.
      max_length: the most tokens that a text has.
      is_static: whether every batch is [batch_size, max_length], where a
        compiler would compile each shape anew.
      jit: whether XLA compiles.
      group: N consecutive examples that `compute_all` yields in one list.
    """
    self._group = group
    self._replicas = strategy.num_replicas_in_sync
    self._batch_size, self._max_length = batch_size, max_length
    self._is_static = is_static
    compute = tf.function(compute, jit_compile=jit or None, autograph=False)

    def replica_step(*batch):
      replica = tf.distribute.get_replica_context().replica_id_in_sync_group
      share = tf.shape(batch[0])[0] // self._replicas
      start = replica * share
      # Every replica gets the whole batch and takes its own rows: vectors then
      # come back in order, by one gather.
      return compute(*(values[start : start + share] for values in batch))

    @tf.function(
      input_signature=[tf.TensorSpec([None, None], tf.int32)] * 3,
      autograph=False,
    )
    def step(input_ids, input_mask, segment_ids):
      values = strategy.run(
        replica_step, args=(input_ids, input_mask, segment_ids)
      )
      return strategy.gather(values, axis=0)

    self._step = step

  def compute_batch(self, examples: list[text_batches.Example]) -> np.ndarray:
    """Returns a row for each example."""
    # Filled up for a compiler, to one shape; else nothing is computed in vain.
    rows = self._batch_size if self._is_static else len(examples)
    # Each replica gets as many rows as the others.
    rows += -rows % self._replicas
    batch = input_sequences.pad_batch(
      [example.input_ids for example in examples],
      [example.segment_ids for example in examples],
      rows=rows,
      length=self._max_length if self._is_static else None,
    )
    return self._step(**batch).numpy()[: len(examples)]

  def compute_all(
    self, examples: Iterable[text_batches.Example]
  ) -> Iterator[list[tuple[text_batches.Example, np.ndarray]]]:
    """Yields lists of (Example, its values), block after block, in order."""
    for block in text_batches.blocks(
      examples, _BLOCK_TOKENS, group=self._group
    ):
      values = [None] * len(block)
      lengths = [len(example.input_ids) for example in block]
      for places in input_sequences.batches_by_length(
        lengths, self._batch_size, 0 if self._is_static else self._max_length
      ):
        rows = self.compute_batch([block[i] for i in places])
        for place, row in zip(places, rows):
          values[place] = row
      yield list(zip(block, values))


def inner_values(
  model: modeling.BertModel, example: text_batches.Example, layer: int
) -> tuple[np.ndarray, np.ndarray]:
  """Returns attention [layers, heads, T, T] and states [T, H] of a text."""
  output = model(
    tf.constant([example.input_ids]),
    token_type_ids=tf.constant([example.segment_ids]),
    return_attention=True,
  )
  attention = tf.cast(tf.stack(output.attention_probs), tf.float32)
  states = tf.cast(output.all_encoder_layers[layer][0], tf.float32)
  return attention[:, 0].numpy(), states.numpy()
