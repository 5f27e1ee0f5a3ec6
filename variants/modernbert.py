"""ModernBERT (arXiv 2412.13663), Ettin and mmBERT: long texts, local attention.

  word embedding, layer norm [S, H]
     |
     |   + attention(layer norm)          the first layer has no such norm
     |   + dense(GELU(a) * b)             a, b = dense(layer norm)
     |                                    num_hidden_layers times
  layer norm [S, H]  -->  head: dense, GELU, layer norm  -->  every output layer

Positions are rotations of queries and keys (arXiv 2104.09864). Every third
layer attends to the whole sequence, the others to the `local_attention // 2`
tokens on either side. A local layer is computed in blocks, so its time and
memory grow with the length, not with its square. Dense layers and norms have no
biases unless the configuration says so, and there are no segments. Unlike in
BERT, one transform ("bert/head") is before the output layers of all tasks.

The configuration has transformers' keys (see common/model_formats),
except hidden_act (hidden_activation), hidden_dropout_prob (embedding_dropout),
attention_probs_dropout_prob (attention_dropout, which also drops a share of
attention's output) and layer_norm_eps (norm_eps). Shapes use the letters of
modeling.py; K is the number of keys of a block.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import configuration
import layers
import modeling
import unpadding
from common import errors

GLOBAL, LOCAL = "full_attention", "sliding_attention"
# Added to the scores of tokens outside the window. More negative than padding's
# bias, so that a window of padding does not look outside.
OUTSIDE = -20000.0
_KEYS = {
  "attention_bias": (bool, False),
  "mlp_bias": (bool, False),
  "norm_bias": (bool, False),
  "classifier_bias": (bool, False),
  "mlp_dropout": ((int, float), 0.0),
  "classifier_activation": (str, "gelu_erf"),
  "classifier_pooling": (str, "cls"),
  "local_attention": (int, 128),
  "global_attn_every_n_layers": (int, 3),
  "global_rope_theta": ((int, float), 160_000.0),
  "local_rope_theta": ((int, float), 10_000.0),
  "layer_types": (list, None),
  "rope_parameters": (dict, None),
}


def value_of(config: configuration.BertConfig, name: str) -> Any:
  """Returns a key of the configuration, or its default.

  Raises InputError: the value has the wrong type.
  """
  types, default = _KEYS[name]
  value = getattr(config, name, None)
  if value is None:
    return default
  is_number_as_bool = isinstance(value, bool) and types is not bool
  if not isinstance(value, types) or is_number_as_bool:  # type: ignore[arg-type]
    raise _wrong(name, value, f"a value such as {default!r}")
  return value


def _wrong(name: str, value: Any, expected: str) -> errors.InputError:
  return errors.InputError(
    f"{name} is {value!r} in the model configuration; expected {expected}"
  )


def layer_types(config: configuration.BertConfig) -> list[str]:
  """Returns GLOBAL or LOCAL for each layer.

  As in transformers, `layer_types` wins over `global_attn_every_n_layers`.
  Raises InputError: they do not fit the layers.
  """
  depth, kinds = config.num_hidden_layers, value_of(config, "layer_types")
  if kinds is None:
    period = value_of(config, "global_attn_every_n_layers")
    if period < 1:
      raise _wrong("global_attn_every_n_layers", period, "1 or more")
    return [LOCAL if number % period else GLOBAL for number in range(depth)]
  if len(kinds) != depth or not {*kinds} <= {GLOBAL, LOCAL}:
    raise _wrong(
      "layer_types", kinds, f"{depth} entries, {GLOBAL!r} or {LOCAL!r}"
    )
  return kinds


def half_window(config: configuration.BertConfig) -> int:
  """Returns how many tokens on either side a token of a local layer sees."""
  window = value_of(config, "local_attention")
  if window < 0:
    raise _wrong("local_attention", window, "0 or more")
  return window // 2


def inverse_frequencies(
  config: configuration.BertConfig, kind: str
) -> np.ndarray:
  """Returns base^(-2 i / D) for i < D / 2, float32 [D / 2] (arXiv 2104.09864).

  As in transformers, `rope_parameters` win over `..._rope_theta`. Raises
  InputError: a base is invalid, D is odd, or the frequencies are scaled.
  """
  name = "global_rope_theta" if kind == GLOBAL else "local_rope_theta"
  base = value_of(config, name)
  entries = value_of(config, "rope_parameters") or {}
  if not {*entries} <= {GLOBAL, LOCAL}:
    raise _wrong("rope_parameters", entries, f"keys {GLOBAL!r} and {LOCAL!r}")
  chosen = {
    "rope_type": "default",
    "rope_theta": base,
    **(entries.get(kind) or {}),
  }
  base = chosen.pop("rope_theta")
  is_number = isinstance(base, (int, float)) and not isinstance(base, bool)
  if not is_number or base <= 0:
    raise _wrong(name, base, "a number above 0")
  if chosen != {"rope_type": "default"}:
    raise _wrong(
      "rope_parameters", entries, "rope_type 'default' without scaling"
    )
  width = config.hidden_size // config.num_attention_heads
  if width % 2:
    raise errors.InputError(
      f"hidden_size {config.hidden_size} / num_attention_heads "
      f"{config.num_attention_heads} is odd; rotations need an even width"
    )
  # Rounded in this order, the values equal transformers': at position
  # 8000, the last bit of a frequency turns a vector by 0.0005.
  powers = np.float64(base) ** (np.arange(0, width, 2) / width)
  return np.float32(1) / powers.astype(np.float32)


class View(NamedTuple):
  """The tensors that layers of one kind share in a call.

  Attributes:
    cos, sin: float32 [T, D / 2], the rotation of each position.
    padding: float32 [B or 1, T], added to the scores of padding.
    bias: float32 [B or 1, 1, F or 1, K], added to the scores of each block of
      queries; F counts the queries of all blocks.
    window: tokens on either side that a token sees, or None for all.
    block, halo, count: the sequence has `count` blocks of `block` queries,
      whose keys also include `halo` tokens before and after the block.
  """

  cos: tf.Tensor
  sin: tf.Tensor
  padding: tf.Tensor
  bias: tf.Tensor
  window: int | None
  block: Any
  halo: Any
  count: Any

  @classmethod
  def make(
    cls,
    frequencies: np.ndarray,
    padding: tf.Tensor,
    window: int | None,
    *,
    in_blocks: bool = True,
  ) -> "View":
    """Returns the view of a kind of layer; see the attributes.

    `in_blocks` allows more than one block.
    """
    length = layers.sizes(padding)[1]
    angles = tf.cast(tf.range(length), tf.float32)[:, tf.newaxis] * frequencies
    block, halo, count = _blocks(length, window if in_blocks else None)
    # [B, count, 1, K]: what is before and after the sequence is outside.
    bias = _framed(padding, block, halo, count, OUTSIDE)
    bias = tf.reshape(bias, [-1, count, 1, block + 2 * halo])
    if window is not None:
      query, key = tf.range(block), tf.range(block + 2 * halo) - halo
      is_far = tf.abs(query[:, tf.newaxis] - key) > window  # [block, K]
      bias += tf.where(is_far, OUTSIDE, 0.0)
      bias = tf.reshape(bias, [-1, 1, count * block, block + 2 * halo])
    return cls(
      tf.cos(angles), tf.sin(angles), padding, bias, window, block, halo, count
    )

  def in_one_block(self) -> "View":
    """Returns the same attention in a single block, [T, T]."""
    if self.window is None:
      return self
    whole = View.make(
      np.zeros(1, np.float32), self.padding, self.window, in_blocks=False
    )
    return whole._replace(cos=self.cos, sin=self.sin)

  def rotate(self, x: tf.Tensor) -> tf.Tensor:
    """Rotates x [B, N, T, D] by the positions; pairs are (i, i + D / 2)."""
    first, second = tf.split(tf.cast(x, tf.float32), 2, axis=-1)
    parts = [
      first * self.cos - second * self.sin,
      second * self.cos + first * self.sin,
    ]
    return tf.cast(tf.concat(parts, -1), x.dtype)


def _blocks(length: Any, window: int | None) -> tuple:
  """Returns block, halo, count; see View. `length` may be a scalar tensor."""
  if window is None:
    return length, 0, 1
  size = max(window, 1)
  # A block has 3 * size keys, so a shorter sequence is one block.
  if isinstance(length, int):
    return (
      (length, 0, 1) if length <= 3 * size else (size, size, -(-length // size))
    )
  is_short = length <= 3 * size
  block, halo = tf.where(is_short, length, size), tf.where(is_short, 0, size)
  return block, halo, -(-length // block)


def _framed(
  x: tf.Tensor, block: Any, halo: Any, count: Any, fill: float = 0.0
) -> tf.Tensor:
  """Returns [M count, block + 2 halo, ...], the blocks of x [M, T, ...].

  `fill` is before and after x. The halo is 0 or as long as a block.
  """
  has_halo = not isinstance(halo, int) or halo > 0
  if not has_halo and isinstance(count, int) and count == 1:
    return x
  after = block * count - layers.sizes(x)[1] + halo
  unchanged = [[0, 0]] * (len(x.shape) - 2)
  x = tf.pad(x, [[0, 0], [halo, after], *unchanged], constant_values=fill)

  def blocks_from(start: Any) -> tf.Tensor:
    part = x[:, start : start + block * count]
    return tf.reshape(part, [-1, block, *x.shape[2:]])

  if not has_halo:
    return blocks_from(0)
  before, after = (
    blocks_from(0)[:, :halo],
    blocks_from(2 * halo)[:, block - halo :],
  )
  return tf.concat([before, blocks_from(halo), after], axis=1)


def attend(
  query: tf.Tensor,
  key: tf.Tensor,
  value: tf.Tensor,
  view: View,
  *,
  dropout: layers.Dropout,
  rate: float,
) -> tuple[tf.Tensor, tf.Tensor]:
  """Computes softmax(q k / sqrt(D)) v in blocks.

  Args:
    query: rotated queries [B, N, F, D]; F is T unless the view is one block.
    key, value: rotated keys, and values, [B, N, T, D].

  Returns:
    Contexts [B, N, F, D], and probabilities [B, N, F, K] before dropout.
  """
  batch, heads, length, width = layers.sizes(query)
  block = length if view.window is None else view.block
  own = block, 0, view.count
  with_halo = view.block, view.halo, view.count
  query = query * tf.cast(1.0 / math.sqrt(width), query.dtype)
  query, key, value = (
    _framed(tf.reshape(x, [-1, layers.sizes(x)[2], width]), *sizes)
    for x, sizes in ((query, own), (key, with_halo), (value, with_halo))
  )  # [B N count, block or K, D]
  scores = tf.cast(tf.matmul(query, key, transpose_b=True), tf.float32)
  rows, keys = block * view.count, layers.sizes(key)[1]
  scores = tf.reshape(scores, [batch, heads, rows, keys]) + view.bias
  probs = tf.cast(tf.nn.softmax(scores), query.dtype)
  dropped = tf.reshape(dropout(probs, rate), [-1, block, keys])
  context = tf.matmul(dropped, value)
  context = tf.reshape(context, [batch, heads, rows, width])
  return context[:, :, :length], probs[:, :, :length]


class ModernBertModel(modeling.BertModel):
  """The encoder; it accepts token_type_ids and ignores them.

  The last of all_encoder_layers is after the final norm, as in transformers.
  """

  predicts_next_sentence = False
  # Layers are global or local, and the first lacks a norm.
  layers_differ = True

  def __init__(self, config: configuration.BertConfig, **options: Any):
    """Creates the variables; for the options see modeling.BertModel.

    Raises InputError: also if a key of the configuration is invalid.
    """
    self._types = tuple(layer_types(config))
    for kind in (GLOBAL, LOCAL):
      inverse_frequencies(config, kind)
    self._window = half_window(config)
    rate = value_of(config, "mlp_dropout")
    if not 0 <= rate < 1:
      raise _wrong("mlp_dropout", rate, "a number from 0 to less than 1")
    pooling = value_of(config, "classifier_pooling")
    if pooling not in ("cls", "mean"):
      raise _wrong("classifier_pooling", pooling, "'cls' or 'mean'")
    self._pools_mean = pooling == "mean"
    activation = value_of(config, "classifier_activation")
    configuration.check_activation(activation)
    super().__init__(config, **options)
    # As in transformers: smaller initial weights at the end of each branch.
    scale = 1 / math.sqrt(2 * config.num_hidden_layers)
    for weight in self.variables:
      if weight.name.endswith(("output/dense/kernel:0", "head/dense/kernel:0")):
        weight.assign(weight * tf.cast(scale, weight.dtype))

  @staticmethod
  def shapes(
    config: configuration.BertConfig, scope: str = "bert"
  ) -> dict[str, tuple]:
    """Returns {name: shape}, with the biases that the configuration has."""
    width, inner = config.hidden_size, config.intermediate_size
    shapes: dict[str, tuple] = {
      "embeddings/word_embeddings": (config.vocab_size, width)
    }

    def add_norm(name: str) -> None:
      shapes[f"{name}/LayerNorm/gamma"] = (width,)
      if value_of(config, "norm_bias"):
        shapes[f"{name}/LayerNorm/beta"] = (width,)

    def add_dense(name: str, inputs: int, outputs: int, key: str) -> None:
      shapes[f"{name}/kernel"] = (inputs, outputs)
      if value_of(config, key):
        shapes[f"{name}/bias"] = (outputs,)

    add_norm("embeddings")
    for number in range(config.num_hidden_layers):
      layer = f"encoder/layer_{number}"
      attention, mlp = f"{layer}/attention", f"{layer}/intermediate"
      if number:
        add_norm(attention)
      add_dense(f"{attention}/self/qkv", width, 3 * width, "attention_bias")
      add_dense(f"{attention}/output/dense", width, width, "attention_bias")
      add_norm(mlp)
      add_dense(f"{mlp}/dense", width, 2 * inner, "mlp_bias")
      add_dense(f"{layer}/output/dense", inner, width, "mlp_bias")
    add_norm("encoder")
    add_dense("head/dense", width, width, "classifier_bias")
    add_norm("head")
    return {f"{scope}/{name}": shape for name, shape in shapes.items()}

  def weights_below(self, prefix: str) -> dict[str, tf.Variable]:
    """Returns {rest of the name: weight}; norms without a bias have zeros."""
    weights = super().weights_below(prefix)
    gammas = [name for name in weights if name.endswith("gamma")]
    zeros = {
      name.replace("gamma", "beta"): tf.zeros_like(weights[name])
      for name in gammas
    }
    return {**zeros, **weights}

  def _rows(
    self, input_ids: tf.Tensor, input_mask: tf.Tensor | None
  ) -> unpadding.Rows:
    rows = super()._rows(input_ids, input_mask)
    if isinstance(rows, unpadding.TpuRows):  # Its dense layers have biases.
      return unpadding.PaddedRows(*rows)
    return rows

  def _position_table(self, weights: dict[str, tf.Variable]) -> None:
    return None  # Positions are rotations.

  def _layer_weights(self, number: int) -> dict[str, tf.Variable]:
    weights = super()._layer_weights(number)
    if number == self.config.num_hidden_layers - 1:
      weights |= {
        f"LayerNorm/{end}": weight
        for end, weight in self.weights_below(
          f"{self._scope}/encoder/LayerNorm/"
        ).items()
      }
    return weights

  def _attention_bias(
    self, input_ids: tf.Tensor, input_mask: tf.Tensor | None
  ) -> dict[str, View]:
    """Returns the View of each kind of layer."""
    bias = layers.attention_bias(input_mask)
    padding = tf.zeros([1, layers.sizes(input_ids)[1]])
    if bias is not None:
      padding = bias[:, 0, 0]
    windows = {GLOBAL: None, LOCAL: self._window}
    return {
      kind: View.make(
        inverse_frequencies(self.config, kind), padding, windows[kind]
      )
      for kind in set(self._types)
    }

  def _layer_bias(self, bias: dict[str, View], number: int) -> View:
    return bias[self._types[number]]

  def _run_layer(
    self,
    x: tf.Tensor,
    weights: dict[str, tf.Tensor],
    *,
    rows: unpadding.Rows,
    bias: Any,
    positions: tf.Tensor | None,
    **options: Any,
  ) -> tuple:
    """Computes one layer; see modeling.transformer_layer and _run_layer."""
    config, rate = self.config, self.config.attention_probs_dropout_prob
    dropout, return_attention = options["dropout"], options["return_attention"]
    view: View = bias.in_one_block() if return_attention else bias
    context, probs = self._attention(
      x,
      weights,
      rows,
      view,
      positions=positions,
      dropout=dropout["attention/probs"],
    )
    if positions is not None:
      picked = tf.gather(rows.pad(x), positions, batch_dims=1)  # [B, P, H]
      rows = unpadding.PaddedRows(*layers.sizes(positions))
      x = rows.unpad(picked)
    attended = rows.dense_of_heads(context, weights, "attention/output/dense")
    x = x + dropout["attention/output"](attended, rate)
    inner = self._norm(x, weights, "intermediate/LayerNorm")
    inner = layers.dense(inner, weights, "intermediate/dense")  # [S, 2 I]
    inner, gate = tf.split(inner, 2, axis=-1)
    fused = not dropout["output"].is_active
    inner = layers.get_activation(config.hidden_act, fused=fused)(inner) * gate
    inner = dropout["output"](inner, value_of(config, "mlp_dropout"))
    x = x + layers.dense(inner, weights, "output/dense")
    x = self._norm(x, weights, "LayerNorm")
    return (x, probs) if return_attention else (x,)

  def _attention(
    self,
    x: tf.Tensor,
    weights: dict[str, tf.Tensor],
    rows: unpadding.Rows,
    view: View,
    *,
    positions: tf.Tensor | None,
    dropout: layers.Dropout,
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns contexts [B, N, T or P, D] and their probabilities."""
    heads = self.config.num_attention_heads
    x = self._norm(x, weights, "attention/LayerNorm")
    all_heads = rows.dense_to_heads(x, weights, "attention/self/qkv", 3 * heads)
    query, key, value = tf.split(all_heads, 3, axis=1)  # [B, N, T, D] each
    query, key = view.rotate(query), view.rotate(key)
    rate = self.config.attention_probs_dropout_prob
    options: dict[str, Any] = {"dropout": dropout, "rate": rate}
    if positions is None:
      return attend(query, key, value, view, **options)

    def pick(values: tf.Tensor) -> tf.Tensor:
      values = tf.gather(
        tf.transpose(values, [0, 2, 1, 3]), positions, batch_dims=1
      )
      return tf.transpose(values, [0, 2, 1, 3])  # [B, N, P, ...]

    if view.window is None:
      return attend(pick(query), key, value, view, **options)
    # The blocks of a local layer cost little; the rest of the layer, which
    # costs more, is computed only at the positions.
    context, probs = attend(query, key, value, view, **options)
    return pick(context), pick(probs)

  def _norm(
    self, x: tf.Tensor, weights: dict[str, tf.Tensor], name: str
  ) -> tf.Tensor:
    """Returns the layer norm of x, or x if the layer has no such norm."""
    if f"{name}/gamma" not in weights:
      return x
    return layers.layer_norm(x, weights, name, self.config.layer_norm_eps)

  def pooled_positions(self, input_mask: tf.Tensor) -> tf.Tensor | None:
    """Returns int32 [B, 1], the first position; None if all are pooled."""
    return None if self._pools_mean else super().pooled_positions(input_mask)

  def pooled_states(
    self, states: tf.Tensor, input_mask: tf.Tensor | None
  ) -> tf.Tensor:
    """Returns the first states [B, H], or the mean over the tokens."""
    if not self._pools_mean:
      return super().pooled_states(states, input_mask)
    states = tf.cast(states, tf.float32)
    if input_mask is None:
      return tf.reduce_mean(states, axis=1)
    mask = tf.cast(input_mask, states.dtype)[..., tf.newaxis]  # [B, T, 1]
    count = tf.maximum(tf.reduce_sum(mask, axis=1), 1)
    return tf.reduce_sum(states * mask, axis=1) / count

  def pool(self, states: tf.Tensor, *, fused: bool = False) -> tf.Tensor:
    """Returns the transform [..., H] of states [..., H] for an output layer."""
    weights = self.weights_below(f"{self._scope}/head/")
    states = tf.cast(states, self.compute_dtype)
    name = value_of(self.config, "classifier_activation")
    activation = layers.get_activation(name, fused=fused)
    x = layers.dense(states, weights, "dense", activation)
    return self._norm(x, weights, "LayerNorm")

  def head_states(self, states: tf.Tensor, *, fused: bool = False) -> tf.Tensor:
    """Returns the transform of the last states [..., H]."""
    return self.pool(states, fused=fused)
