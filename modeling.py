"""BERT: embeddings, encoder and pooler.

  input_ids, segment_ids [B, T]
     |
     |   word + segment + position embedding, layer norm, dropout
     v
   [S, H] <--------------------------------------------+
     |                                                 |
     |   query, key, value; softmax(q k / sqrt(D)) v   |
     |   dense, dropout, + input, layer norm           |  num_hidden_layers
     |   dense to I, GELU                              |  times
     |   dense to H, dropout, + input, layer norm      |
     +-------------------------------------------------+
     |
     +--> sequence_output [B, T, H] --> masked LM [B, P, V], spans 2 x [B, T],
     |  (with `positions`: [B, P, H])   labels of tokens [B, T, L]
     |   first token; dense, tanh
     v
   pooled_output [B, H] --------------> next sentence [B, 2], labels [B, L]

The heads on the right are in heads.py, the formulas of a layer in
layers.py. The encoder's variables are created from a table of names and shapes
in configuration.py, under their names in the released TF1 checkpoints. Tensor
shapes use these letters:

  B  batch                        T  sequence length (F from, T to in attention)
  H  width of the hidden states   N  attention heads
  D  width of one head, H / N     I  width of the intermediate layer
  V  vocabulary                   P  masked-LM predictions per sequence
  L  labels                       S  rows that are computed: see unpadding.py
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

import configuration
import kernels
import layers
import named_weights
import unpadding
from common import errors

# As in the original: BertConfig can be imported from modeling.
BertConfig = configuration.BertConfig
# The sites in a layer where dropout is applied.
LAYER_SITES = ("attention/probs", "attention/output", "output")


# One layer


def attention(
  from_states: tf.Tensor,
  to_states: tf.Tensor,
  weights: dict[str, tf.Tensor],
  config: BertConfig,
  *,
  from_rows: unpadding.Rows,
  to_rows: unpadding.Rows,
  bias: tf.Tensor | None,
  dropout: layers.Dropout,
) -> tuple:
  """Computes multi-head attention from some hidden states to a sequence.

  Args:
    from_states: hidden states [S, H] of the queries, either all of `to_states`
      or those at some positions; `from_rows` describes their rows.
    to_states: hidden states [S, H] of the keys and values; `to_rows` describes
      their rows.
    weights: {name below "layer_<n>/": tensor}.
    bias: float32 [B, 1, F or 1, T] added to the scores, or None.
    dropout: the dropout of the attention probabilities.

  Returns:
    Hidden states [S, H] for `from_rows`, after the dense layer on the context;
    probabilities [B, N, F, T] before dropout.
  """
  prefix, heads = "attention/self", config.num_attention_heads  # N
  query = from_rows.dense_to_heads(
    from_states, weights, f"{prefix}/query", heads
  )
  key = to_rows.dense_to_heads(to_states, weights, f"{prefix}/key", heads)
  value = to_rows.dense_to_heads(to_states, weights, f"{prefix}/value", heads)
  # Unlike the original: scales the query [F, D], not the larger scores [F, T].
  scale = 1.0 / math.sqrt(config.hidden_size // heads)
  query = query * tf.cast(scale, query.dtype)
  scores = tf.cast(tf.matmul(query, key, transpose_b=True), tf.float32)
  if bias is not None:
    scores = scores + bias
  # Softmax sums exponentials in float32: bfloat16 has only 8 significant bits.
  probs = tf.cast(tf.nn.softmax(scores), query.dtype)  # [B, N, F, T]
  dropped = dropout(probs, config.attention_probs_dropout_prob)
  context = tf.matmul(dropped, value)  # [B, N, F, D]
  output = from_rows.dense_of_heads(context, weights, "attention/output/dense")
  return output, probs


def transformer_layer(
  x: tf.Tensor,
  weights: dict[str, tf.Tensor],
  config: BertConfig,
  *,
  rows: unpadding.Rows,
  bias: tf.Tensor | None,
  dropout: dict[str, layers.Dropout],
  to_states: tf.Tensor | None = None,
  to_rows: unpadding.Rows | None = None,
  return_attention: bool = False,
) -> tuple:
  """Computes one layer: attention and feed-forward, with residuals and norms.

  Args:
    x: hidden states [S, H], in the dtype of the computation.
    weights: {name below "layer_<n>/": tensor}.
    rows: maps the rows of x to positions of the batch; see unpadding.py.
    bias: float32 [B, 1, F or 1, T] added to the attention scores, or None.
    dropout: {name in LAYER_SITES: dropout}.
    to_states, to_rows: the hidden states to which x attends, and their rows;
      None means x itself.
    return_attention: whether to return the attention probabilities.

  Returns:
    Hidden states [S, H]; with return_attention also the probabilities
    [B, N, F, T].
  """
  rate, epsilon = config.hidden_dropout_prob, config.layer_norm_eps
  fused = not dropout["output"].is_active  # At inference.
  activation = layers.get_activation(config.hidden_act, fused=fused)
  attended, probs = attention(
    x,
    x if to_states is None else to_states,
    weights,
    config,
    from_rows=rows,
    to_rows=to_rows or rows,
    bias=bias,
    dropout=dropout["attention/probs"],
  )
  # As in the original: layer norm follows the residual sum (post-norm).
  x = x + dropout["attention/output"](attended, rate)
  x = layers.layer_norm(x, weights, "attention/output/LayerNorm", epsilon)
  inner = layers.dense(x, weights, "intermediate/dense", activation)  # [S, I]
  output = layers.dense(inner, weights, "output/dense")  # [S, H]
  x = x + dropout["output"](output, rate)
  x = layers.layer_norm(x, weights, "output/LayerNorm", epsilon)
  return (x, probs) if return_attention else (x,)


# The encoder


def _picked_bias(
  bias: tf.Tensor | None, positions: tf.Tensor
) -> tf.Tensor | None:
  """Returns the bias [B, 1, P or 1, T] of the queries at positions [B, P].

  `bias` is [B, 1, T, T], or [B, 1, 1, T] if it is the same for all queries.
  """
  if bias is None or bias.shape[2] == 1:
    return bias
  return tf.gather(bias, positions[:, tf.newaxis], axis=2, batch_dims=2)


class BertOutput(NamedTuple):
  """The outputs of `BertModel`; all tensors have the model's compute_dtype.

  Attributes:
    embedding_output: [B, T, H], the input of the first layer.
    all_encoder_layers: tuple of hidden states [B, T, H], one for each layer;
      with `positions` the last is [B, P, H].
    sequence_output: the hidden states of the last layer.
    pooled_output: [B, H], a dense tanh layer on the first token's state
      (variants may use another activation or token, see `pooled_positions`).
    attention_probs: tuple of [B, N, F, T] before dropout, or None.
  """

  embedding_output: tf.Tensor
  all_encoder_layers: tuple
  sequence_output: tf.Tensor
  pooled_output: tf.Tensor
  attention_probs: tuple | None


class BertModel(named_weights.Weights):
  """Bidirectional Transformer encoder (arXiv 1810.04805).

  The folder `variants` has small subclasses for related models.
  """

  shapes = staticmethod(configuration.bert_shapes)
  # Variants may have another function with the arguments of this one.
  layer = staticmethod(transformer_layer)
  pooler_activation = "tanh"

  def __init__(
    self,
    config: BertConfig,
    *,
    seed: int = 12345,
    compute_dtype=tf.float32,
    storage_dtype=tf.float32,
    use_one_hot_embeddings: bool = False,
    recompute_activations: bool = False,
    skip_padding: bool = False,
    is_for_tpu: bool = False,
    scope: str = "bert",
  ):
    """Creates the variables, under the names in the released checkpoints.

    Raises InputError: the configuration is invalid, or this machine cannot hold
    the weights.

    Args:
      seed: a variable's initial weights depend on the seed and its name.
      compute_dtype: type of the matrix products and hidden states. Softmax
        and layer norm stay float32.
      storage_dtype: type of the variables that are matrices; a narrower type
        saves memory at inference. Vectors stay float32.
      use_one_hot_embeddings: look up word embeddings by a matrix product, for
        TPUs, not by a gather.
      recompute_activations: store only each layer's input for the gradient and
        recompute the rest. This needs less memory and a third more time.
      skip_padding: leave padding out of everything except attention. The hidden
        states of padding are 0. The hidden states of tokens do not change
        unless dropout is active, because its masks depend on the row. XLA
        cannot compile this, because shapes depend on the number of tokens.
      is_for_tpu: compute dropout and attention in the forms that are fastest on
        a TPU, see layers.Dropout and unpadding.TpuRows.
      scope: first part of every variable name. Unlike the original: a second
        model is not renamed to "bert_1" automatically.
    """
    config.check()
    # TensorFlow's allocation error would not name the setting at fault.
    config.check_memory(self.shapes)
    super().__init__(
      self.shapes(config, scope),
      stddev=config.initializer_range,
      seed=seed,
      storage_dtype=storage_dtype,
    )
    self.config = config
    self._scope = scope
    self.compute_dtype = tf.as_dtype(compute_dtype)
    self._use_one_hot_embeddings = use_one_hot_embeddings
    self._skip_padding = skip_padding
    self._is_for_tpu = is_for_tpu
    self._recompute_activations = recompute_activations

  @property
  def word_embeddings(self) -> tf.Variable:
    """The word embedding table, a variable [V, H] in storage_dtype."""
    return self._weights[0]

  def encode(
    self, batch: dict[str, tf.Tensor], dropout_seed=None, *, positions=None
  ) -> BertOutput:
    """Encodes a batch of records, with dropout if dropout_seed is given.

    Args:
      batch: input_ids, input_mask and segment_ids, integers [B, T].
      dropout_seed: integers [2], or None.
      positions: see `__call__`.
    """
    return self(
      batch["input_ids"],
      batch["input_mask"],
      batch["segment_ids"],
      training=dropout_seed is not None,
      dropout_seed=dropout_seed,
      positions=positions,
    )

  def __call__(
    self,
    input_ids: tf.Tensor,
    input_mask: tf.Tensor | None = None,
    token_type_ids=None,
    training: bool = False,
    *,
    dropout_seed=None,
    positions=None,
    return_attention: bool = False,
  ) -> BertOutput:
    """Encodes sequences.

    Raises InputError: input_ids is not [B, T], or a static T is larger than
    max_position_embeddings.

    Args:
      input_ids: integers [B, T].
      input_mask: [B, T], 1 for a token and 0 for padding; None means all ones.
      token_type_ids: integers [B, T]; None means all zeros.
      training: whether to apply dropout.
      dropout_seed: integers [2] that determine all dropout masks of this call.
        None with training=True draws a seed from TensorFlow's generator.
      positions: integers [B, P]; only these tokens' last hidden states are
        computed. If you need the pooled output, put `pooled_positions` first.
        None computes the whole sequence.
      return_attention: whether to return the attention probabilities.
    """
    input_ids = self._checked_ids(input_ids)  # [B, T]
    dropout = layers.Dropout.of_call(
      training, dropout_seed, is_for_tpu=self._is_for_tpu
    )
    rows = self._rows(input_ids, input_mask)
    x = self._embed(rows, input_ids, token_type_ids, dropout)
    bias = self._attention_bias(input_ids, input_mask)  # [B, 1, F or 1, T]
    run_layer: Callable = self._run_layer
    if self._recompute_activations:
      run_layer = kernels.recomputed(run_layer)
    # XLA would treat the inputs of a traced function as constants and recompile
    # the gradients at every step, so layers that it may compile are inlined.
    xla_may_compile_gradients = training and not self._skip_padding
    if tf.inside_function() and not xla_may_compile_gradients:
      run_layer = kernels.traced_once(run_layer)
    states, all_probs = [rows.pad(x)], []  # [B, T, H]
    if positions is not None:
      positions = tf.convert_to_tensor(positions)
    depth = self.config.num_hidden_layers
    for number in range(depth):
      # Only the last layer may skip positions: no layer above attends to them.
      computed = positions if number == depth - 1 else None
      weights = {
        name: tf.convert_to_tensor(weight)
        for name, weight in self._layer_weights(number).items()
      }
      x, *probs = run_layer(
        x,
        weights,
        rows=rows,
        bias=self._layer_bias(bias, number),
        positions=computed,
        dropout={s: dropout.at(f"layer_{number}/{s}") for s in LAYER_SITES},
        return_attention=return_attention,
      )
      if computed is not None:
        rows = unpadding.PaddedRows(*layers.sizes(computed))
      states.append(rows.pad(x))
      all_probs += probs  # [B, N, F, T]
    if positions is None:
      pooled = self.pooled_states(states[-1], input_mask)
    else:  # The caller put `pooled_positions` first.
      pooled = states[-1][:, 0]
    return BertOutput(
      embedding_output=states[0],
      all_encoder_layers=tuple(states[1:]),
      sequence_output=states[-1],
      pooled_output=self.pool(pooled, fused=not dropout.is_active),
      attention_probs=tuple(all_probs) if return_attention else None,
    )

  def _checked_ids(self, input_ids: tf.Tensor):
    input_ids = tf.convert_to_tensor(input_ids)
    if input_ids.shape.rank != 2:
      raise errors.InputError(
        f"input_ids have shape {input_ids.shape}; expected [batch, sequence]"
      )
    if input_ids.shape[1] is not None:
      self.config.check_sequence_length(input_ids.shape[1])
    return input_ids

  def _rows(self, input_ids: tf.Tensor, input_mask: tf.Tensor):
    """Returns the rows that are computed: all positions, or only tokens."""
    if self._skip_padding and input_mask is not None:
      return unpadding.TokenRows.of_mask(input_mask)
    rows_class = unpadding.TpuRows if self._is_for_tpu else unpadding.PaddedRows
    return rows_class(*layers.sizes(input_ids))

  def _run_layer(
    self,
    x: tf.Tensor,
    weights: dict[str, tf.Tensor],
    *,
    rows: unpadding.Rows,
    bias: tf.Tensor | None,
    positions: tf.Tensor | None,
    **options,
  ) -> tuple:
    """Runs `layer`; with positions [B, P], only for the tokens there.

    Returns its outputs; with positions, the hidden states are [B P, H].
    """
    config = self.config
    if positions is None:
      return self.layer(x, weights, config, rows=rows, bias=bias, **options)
    picked_rows = unpadding.PaddedRows(*layers.sizes(positions))
    picked = tf.gather(rows.pad(x), positions, batch_dims=1)  # [B, P, H]
    return self.layer(
      picked_rows.unpad(picked),  # [B P, H]
      weights,
      config,
      rows=picked_rows,
      bias=_picked_bias(bias, positions),
      to_states=x,
      to_rows=rows,
      **options,
    )

  def _attention_bias(self, input_ids: tf.Tensor, input_mask: tf.Tensor):
    """Returns float32 [B, 1, F or 1, T] to add to all scores, or None."""
    del input_ids
    return layers.attention_bias(input_mask)

  def _layer_bias(self, bias: tf.Tensor, number: int) -> tf.Tensor:
    """Returns a layer's part of the result of `_attention_bias`."""
    del number
    return bias

  def _embed(
    self, rows, input_ids: tf.Tensor, token_type_ids, dropout
  ) -> tf.Tensor:
    """Returns the summed embeddings after norm and dropout, [S, H]."""
    weights = self.weights_below(f"{self._scope}/embeddings/")
    # Embeddings are summed in float32.
    words = rows.unpad(input_ids)  # [S]
    if self._use_one_hot_embeddings:
      summed = layers.one_hot_lookup(words, weights["word_embeddings"])
    else:
      # Gathering before the cast gives a gradient of one row per token, see
      # optimization.rows_squared_norm. Gathering from the value, not the
      # variable, keeps TensorFlow from copying the whole table at every read
      # and every update.
      words_table = tf.convert_to_tensor(weights["word_embeddings"])
      summed = tf.gather(words_table, words)  # [S, H]
      summed = tf.cast(summed, tf.float32)
    if token_type_ids is None:
      token_type_ids = tf.zeros_like(input_ids)
    # DistilBERT has no segments.
    if "token_type_embeddings" in weights:
      segments = rows.unpad(tf.convert_to_tensor(token_type_ids))  # [S]
      table = tf.cast(weights["token_type_embeddings"], tf.float32)
      # As in the original: a segment out of range gets a zero row.
      summed += layers.one_hot_lookup(segments, table)
    table = self._position_table(weights)
    if table is not None:
      summed = rows.add_by_position(summed, tf.cast(table, tf.float32))
    epsilon = self.config.layer_norm_eps
    x = layers.layer_norm(summed, weights, "LayerNorm", epsilon)  # [S, H]
    x = dropout.at("embeddings")(x, self.config.hidden_dropout_prob)
    return tf.cast(x, self.compute_dtype)

  def _position_table(self, weights: dict[str, tf.Variable]) -> tf.Tensor:
    """Returns the table [T or more, H], whose row t belongs to position t."""
    return tf.convert_to_tensor(weights["position_embeddings"])

  def _layer_weights(self, number: int) -> dict[str, tf.Variable]:
    """Returns {name: variable} of a layer, for `layer`."""
    return self.weights_below(f"{self._scope}/encoder/layer_{number}/")

  def pooled_positions(self, input_mask: tf.Tensor) -> tf.Tensor:
    """Returns int32 [B, 1], the position that is pooled: [CLS]."""
    return tf.zeros([tf.shape(input_mask)[0], 1], tf.int32)

  def head_states(self, states: tf.Tensor, *, fused: bool = False) -> tf.Tensor:
    """Returns the states that heads of tokens read, from the last [..., H]."""
    del fused
    return states

  def pooled_states(
    self, states: tf.Tensor, input_mask: tf.Tensor
  ) -> tf.Tensor:
    """Returns the hidden states [B, H] at `pooled_positions`."""
    del input_mask
    return states[:, 0]

  def pool(self, states: tf.Tensor, *, fused: bool = False) -> tf.Tensor:
    """Returns the pooled output [B, H] from the `pooled_states` [B, H].

    `fused` is for inference only, see layers.get_activation.
    """
    weights = self.weights_below(f"{self._scope}/pooler/")
    states = tf.cast(states, self.compute_dtype)
    activation = layers.get_activation(self.pooler_activation, fused=fused)
    return layers.dense(states, weights, "dense", activation)
