"""The formulas of the network: activations, norm, dense layers, dropout.

modeling.attention and modeling.transformer_layer put them together. kernels.py
computes those that need their own gradient or random numbers. Shapes use the
letters of modeling.py: B batch, T tokens, H width. O counts outputs, and M the
rows of a tensor reshaped to a matrix. `weights` has the variables of one layer
by name.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

import configuration
import kernels
import named_weights

# Added to the scores of masked positions. As in the original: the value is
# finite, so a sequence without tokens attends everywhere instead of giving NaN.
MASKED_SCORE = -10000.0

_ACTIVATIONS = {
  "gelu": kernels.gelu,
  "gelu_erf": kernels.gelu_erf,
  "linear": tf.identity,
  "relu": tf.nn.relu,
  "silu": tf.nn.silu,
  "swish": tf.nn.silu,
  "tanh": tf.tanh,
}
# TensorFlow's own functions, see `get_activation`.
_FUSED_ACTIVATIONS = {
  kernels.gelu: functools.partial(tf.nn.gelu, approximate=True),
  kernels.gelu_erf: functools.partial(tf.nn.gelu, approximate=False),
}


def get_activation(
  activation: str | Callable | None, *, fused: bool = False
) -> Callable:
  """Returns an activation function by name; case does not matter.

  Raises InputError: the name is unknown.

  Args:
    activation: "gelu", "gelu_erf", "linear", "relu", "silu", "swish" or
      "tanh"; None or "" means linear, and a function means itself.
    fused: whether to use TensorFlow's own function, if any. At inference, where
      no gradient needs the matrix product, TensorFlow's graph optimizer makes
      one kernel of the product, the bias and the function.
  """
  name = str(activation or "linear").lower()
  function = activation if callable(activation) else _ACTIVATIONS.get(name)
  if function is None:
    raise configuration.unknown_activation(activation)
  return _FUSED_ACTIVATIONS.get(function, function) if fused else function


def layer_norm(
  x: tf.Tensor,
  weights: dict,
  name: str,
  epsilon: float = configuration.BertConfig.layer_norm_eps,
) -> tf.Tensor:
  """Returns gamma (x - mean) / sqrt(variance + epsilon) + beta.

  Mean and variance of x [..., H] are over H, in float32 (arXiv 1607.06450).
  BERT's epsilon is 1e-12. `weights` has float32 [H] under "<name>/beta" and
  "<name>/gamma".
  """
  beta = tf.convert_to_tensor(weights[f"{name}/beta"])
  gamma = tf.convert_to_tensor(weights[f"{name}/gamma"])
  return kernels.normalize(x, beta, gamma, epsilon)


def dense(
  x: tf.Tensor, weights: dict, name: str, activation: Callable | None = None
) -> tf.Tensor:
  """Returns activation(x @ kernel + bias), computed in the dtype of `x`.

  `x` is [..., in]; `weights` has "<name>/kernel" [in, out] and "<name>/bias"
  [out], or no bias.
  """
  kernel = tf.cast(weights[f"{name}/kernel"], x.dtype)  # [in, out]
  bias = weights.get(f"{name}/bias")  # [out]
  # Reshapes x to one matrix, because TensorFlow's product of a batch of
  # matrices with a shared matrix is slower, and so is its gradient.
  is_matrix = len(x.shape) == 2
  rows = x if is_matrix else tf.reshape(x, [-1, kernel.shape[0]])  # [M, in]
  product = tf.matmul(rows, kernel)  # [M, out]
  if bias is not None:
    product = kernels.add_bias(product, tf.convert_to_tensor(bias))
  if activation is not None:
    product = activation(product)
  if is_matrix:
    return product
  return tf.reshape(product, [*sizes(x)[:-1], kernel.shape[1]])


def output_logits(x: tf.Tensor, table: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
  """Returns float32 logits [..., O] from x [..., H] and a table [O, H].

  The table, the word embeddings or a task's `output_weights`, has a row for
  each output, unlike a kernel of `dense`.
  """
  rows = tf.reshape(x, [-1, table.shape[1]])  # [M, H]
  table = tf.cast(table, x.dtype)
  logits = tf.cast(tf.matmul(rows, table, transpose_b=True), tf.float32)
  # Adds the bias in float32: bfloat16 would round every logit once more.
  logits = tf.nn.bias_add(logits, bias)
  return tf.reshape(logits, [*sizes(x)[:-1], table.shape[0]])


def one_hot_lookup(ids: tf.Tensor, table: tf.Tensor) -> tf.Tensor:
  """Returns the table's rows [..., H] at ids, or zeros for an unknown id."""
  hot = tf.one_hot(tf.reshape(ids, [-1]), table.shape[0])
  return tf.reshape(tf.matmul(hot, table), [*sizes(ids), table.shape[1]])


def attention_bias(input_mask: tf.Tensor) -> tf.Tensor | None:
  """Returns float32 [B, 1, 1, T] to add to scores [B, heads, queries, T].

  `input_mask` [B, T] has 1 for tokens and 0 for padding; None gives None.
  """
  if input_mask is None:
    return None
  mask = tf.cast(input_mask, tf.float32)[:, tf.newaxis, tf.newaxis]
  return (1.0 - mask) * MASKED_SCORE


def sizes(x: tf.Tensor) -> list:
  """Returns the sizes of `x`: integers where static, else scalar tensors."""
  x = tf.convert_to_tensor(x)
  dynamic = tf.shape(x)
  return [
    dynamic[axis] if size is None else size for axis, size in enumerate(x.shape)
  ]


# Dropout


class Dropout(NamedTuple):
  """Zeroes a random share of the units in training and scales up the rest.

  In `Dropout(seed).at("layer_0/output")(x, rate)`, the random numbers depend
  only on the seed and the name of the site. Seed and counter are tensors, so
  all layers can call one traced function.

  Attributes:
    seed: int32 [2]; None disables dropout.
    counter: int32 [2, 2], where a site's random numbers begin; `at` sets it, so
      call `at` first. It is a counter of Philox in 32-bit words, with 2^64
      blocks for each site (Salmon et al., "Parallel random numbers: as easy as
      1, 2, 3", 2011).
    is_for_tpu: whether to draw 32 bits per unit with the generator that
      TensorFlow selects (on a TPU, the TPU's own). The masks then differ from
      other devices' masks, and each site has 2^32 blocks.
  """

  seed: tf.Tensor | None = None
  counter: tf.Tensor | None = None
  is_for_tpu: bool = False

  @classmethod
  def of_call(
    cls, training: bool, seed: Any = None, *, is_for_tpu: bool = False
  ) -> "Dropout":
    """Returns the dropout for a call; if `seed` is None, draws an int32 [2]."""
    if not training:
      return cls()
    if seed is None:
      lowest, highest = tf.int32.limits
      seed = tf.random.uniform([2], lowest, highest, dtype=tf.int32)
    return cls(tf.convert_to_tensor(seed, tf.int32), is_for_tpu=is_for_tpu)

  @property
  def is_active(self) -> bool:
    """Whether this is a call in training."""
    return self.seed is not None

  def at(self, site: str) -> "Dropout":
    """Returns the dropout for a site, a named place in the network."""
    if not self.is_active:
      return self
    # The site's number is in the upper 64 bits, the numbers of its blocks are
    # in the lower 64 bits.
    number = named_weights.name_number(site)
    words = [[0, 0], [number, 0]]
    if self.is_for_tpu:
      # The TPU's generator reads only the first 64 bits.
      words = [[0, number], [0, 0]]
    return self._replace(counter=tf.constant(words, tf.int32))

  def __call__(self, x: tf.Tensor, rate: float) -> tf.Tensor:
    """Drops a share of x: `rate`, rounded to a multiple of 1 / 65536.

    The rest is scaled by 1 / (1 - rate), with the exact rate.
    """
    if self.seed is None or not rate:
      return x
    shape, options = tf.shape(x), dict(is_for_tpu=self.is_for_tpu)
    keep = kernels.random_mask(shape, rate, self.seed, self.counter, **options)
    return kernels.masked(x, keep, 1.0 / (1.0 - rate))
