"""Building blocks of the network: layers, dropout, named weights.

Shapes use the letters of modeling.py.
"""

import contextlib
import contextvars
import functools
import math
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import tensorflow as tf

import configuration

_GELU_SCALE, _GELU_CUBIC = math.sqrt(2 / math.pi), 0.044715
_NORMAL_DENSITY = 1 / math.sqrt(2 * math.pi)  # N(0, 1) at 0.
# Added to the scores of masked positions. As in the original: the value is
# finite, so a sequence without tokens attends everywhere instead of giving NaN.
_MASKED_SCORE = -10000.0

_last_mean = functools.partial(tf.reduce_mean, axis=-1, keepdims=True)


@tf.custom_gradient
def gelu(x):
  """Gaussian error linear unit in its tanh form (arXiv 1606.08415).

  As in the original: the approximation, not the error function. Returns x (1 +
  tanh(u)) / 2 with u = sqrt(2/pi) (x + 0.044715 x^3), in the dtype of `x`.
  """
  # The inputs are the network's widest activations, so this function makes few
  # passes over them and stores only x for the gradient. It computes in float32,
  # because bfloat16 would lose the digits of 1 - sigmoid in the gradient.
  x = tf.convert_to_tensor(x)

  def share_of(wide, square):
    # (1 + tanh(u)) / 2 is the logistic function of 2u.
    inner = 2 * _GELU_SCALE * _GELU_CUBIC * square + 2 * _GELU_SCALE
    return tf.sigmoid(wide * inner)

  def gradient(upstream):
    wide = tf.cast(x, tf.float32)
    square = tf.square(wide)
    share = share_of(wide, square)
    slope = 6 * _GELU_SCALE * _GELU_CUBIC * square + 2 * _GELU_SCALE
    # d share / dx is share (1 - share) slope.
    change = tf.raw_ops.SigmoidGrad(y=share, dy=slope)
    total = share + wide * change
    return tf.cast(tf.cast(upstream, tf.float32) * total, x.dtype)

  wide = tf.cast(x, tf.float32)
  return tf.cast(wide * share_of(wide, tf.square(wide)), x.dtype), gradient


@tf.custom_gradient
def gelu_erf(x):
  """Gaussian error linear unit with the exact normal CDF.

  Hugging Face calls this form "gelu". Returns x (1 + erf(x / sqrt(2))) / 2, in
  the dtype of `x`.
  """
  x = tf.convert_to_tensor(x)

  def gradient(upstream):
    wide = tf.cast(x, tf.float32)
    # The normal density is the derivative of `_normal_cdf`.
    density = tf.exp(-0.5 * tf.square(wide)) * _NORMAL_DENSITY
    total = _normal_cdf(wide) + wide * density
    return tf.cast(tf.cast(upstream, tf.float32) * total, x.dtype)

  wide = tf.cast(x, tf.float32)
  return tf.cast(wide * _normal_cdf(wide), x.dtype), gradient


def _normal_cdf(x):
  return 0.5 * tf.math.erf(x * math.sqrt(0.5)) + 0.5


_ACTIVATIONS = {
  "gelu": gelu,
  "gelu_erf": gelu_erf,
  "linear": tf.identity,
  "relu": tf.nn.relu,
  "silu": tf.nn.silu,
  "swish": tf.nn.silu,
  "tanh": tf.tanh,
}
_FUSED_ACTIVATIONS = {
  gelu: functools.partial(tf.nn.gelu, approximate=True),
  gelu_erf: functools.partial(tf.nn.gelu, approximate=False),
}


def get_activation(activation, *, fused: bool = False):
  """Returns an activation function by name; case does not matter.

  Raises InputError: the name is unknown.

  Args:
    activation: "gelu", "gelu_erf", "linear", "relu", "silu", "swish" or
      "tanh"; None or "" means linear, and a function means itself.
    fused: whether to use TensorFlow's own function, if any. At inference, where
      no gradient needs the matrix product, TensorFlow computes the product and
      the function in one kernel.
  """
  function = activation
  if not callable(activation):
    function = _ACTIVATIONS.get(str(activation or "linear").lower())
  if function is None:
    raise configuration.unknown_activation(activation)
  return _FUSED_ACTIVATIONS.get(function, function) if fused else function


def layer_norm(
  x: tf.Tensor,
  weights: dict,
  name: str,
  epsilon: float = configuration.BertConfig.layer_norm_eps,
) -> tf.Tensor:
  """Normalizes x [..., H] over H in float32 (arXiv 1607.06450).

  `weights` has float32 [H] under "<name>/beta" and "<name>/gamma"; `epsilon`
  is added to the variance.
  """
  beta, gamma = weights[f"{name}/beta"], weights[f"{name}/gamma"]
  normalize = _normalization(epsilon)
  return normalize(x, tf.convert_to_tensor(beta), tf.convert_to_tensor(gamma))


@functools.cache
def _normalization(epsilon):
  """Returns the layer-norm function of x, beta and gamma for an epsilon."""

  @tf.custom_gradient
  def normalize(x, beta, gamma):
    # A custom gradient stores one activation instead of three.
    wide = tf.cast(x, tf.float32)
    # Two passes, because E[x^2] - E[x]^2 loses the digits of a small variance.
    centred = wide - _last_mean(wide)
    rsqrt = tf.math.rsqrt(_last_mean(tf.square(centred)) + epsilon)
    normed = centred * rsqrt  # [..., H]

    def gradient(upstream):
      upstream = tf.cast(upstream, tf.float32)
      scaled = upstream * gamma
      inner = scaled - _last_mean(scaled) - normed * _last_mean(scaled * normed)
      rows = list(range(len(x.shape) - 1))  # All axes but the last.
      return (
        tf.cast(rsqrt * inner, x.dtype),
        tf.reduce_sum(upstream, rows),
        tf.reduce_sum(upstream * normed, rows),
      )

    return tf.cast(normed * gamma + beta, x.dtype), gradient

  return normalize


def dense(x: tf.Tensor, weights: dict, name: str, activation=None) -> tf.Tensor:
  """Returns activation(x @ kernel + bias), computed in the dtype of `x`.

  `x` is [..., in]; `weights` has "<name>/kernel" [in, out] and "<name>/bias"
  [out].
  """
  kernel = tf.cast(weights[f"{name}/kernel"], x.dtype)  # [in, out]
  bias = tf.cast(weights[f"{name}/bias"], x.dtype)  # [out]
  # Reshapes x to one matrix, because TensorFlow's product of a batch of
  # matrices with a shared matrix is slower, and so is its gradient.
  is_matrix = len(x.shape) == 2
  rows = x if is_matrix else tf.reshape(x, [-1, kernel.shape[0]])  # [M, in]
  product = _add_bias(tf.matmul(rows, kernel), bias)  # [M, out]
  if activation is not None:
    product = activation(product)
  if is_matrix:
    return product
  return tf.reshape(product, [*sizes(x)[:-1], kernel.shape[1]])


@tf.custom_gradient
def _add_bias(x, bias):
  """Returns x [M, N] plus bias [N]."""

  def gradient(upstream):
    # A matrix product sums the rows several times faster than tf.reduce_sum.
    ones = tf.ones([1, tf.shape(upstream)[0]], upstream.dtype)
    return upstream, tf.matmul(ones, upstream)[0]

  return tf.nn.bias_add(x, bias), gradient


def output_logits(x: tf.Tensor, weights, bias) -> tf.Tensor:
  """Returns float32 logits [..., O] from x [..., H] and weights [O, H]."""
  rows = tf.reshape(x, [-1, weights.shape[1]])  # [M, H]
  weights = tf.cast(weights, x.dtype)
  logits = tf.cast(tf.matmul(rows, weights, transpose_b=True), tf.float32)
  # Adds the bias in float32: bfloat16 would round every logit once more.
  logits = tf.nn.bias_add(logits, bias)
  return tf.reshape(logits, [*sizes(x)[:-1], weights.shape[0]])


def one_hot_lookup(ids, table: tf.Tensor) -> tf.Tensor:
  """Returns the table's rows [..., H] at ids, or zeros for an unknown id."""
  hot = tf.one_hot(tf.reshape(ids, [-1]), table.shape[0])
  return tf.reshape(tf.matmul(hot, table), [*sizes(ids), table.shape[1]])


@tf.custom_gradient
def dense_lookup(table, indices):
  """Gathers the rows of a table [V, H] at indices [S]; its gradient is dense.

  As in the original: the gradient of position embeddings is summed over the
  batch before the global norm is computed (there, by slicing the table).
  """
  count = table.shape[0]

  def gradient(upstream):
    return tf.math.unsorted_segment_sum(upstream, indices, count), None

  return tf.gather(table, indices), gradient


def attention_bias(input_mask) -> tf.Tensor | None:
  """Returns float32 [B, 1, 1, T] to add to the scores, from a mask [B, T]."""
  if input_mask is None:
    return None
  mask = tf.cast(input_mask, tf.float32)[:, tf.newaxis, tf.newaxis]
  return (1.0 - mask) * _MASKED_SCORE


def pick_bias(bias, positions: tf.Tensor):
  """Returns the bias [B, 1, P or 1, T] of the queries at positions [B, P]."""
  if bias is None or bias.shape[2] == 1:
    return bias
  return tf.gather(bias, positions[:, tf.newaxis], axis=2, batch_dims=2)


def later_tokens_bias(length) -> tf.Tensor:
  """Returns a float32 bias [T, T] that hides later tokens from each token."""
  position = tf.range(length)
  is_later = tf.cast(position > position[:, tf.newaxis], tf.float32)
  # This is more negative than padding's bias, so padding at the start of a
  # sequence attends to this padding, not to later tokens.
  return is_later * (2 * _MASKED_SCORE)


def sizes(x) -> list:
  """Returns the sizes of `x`: integers where static, else scalar tensors."""
  x = tf.convert_to_tensor(x)
  dynamic = tf.shape(x)
  return [
    dynamic[axis] if size is None else size for axis, size in enumerate(x.shape)
  ]


# Names and weights


def name_number(name: str) -> int:
  """Hashes a name to a number in [0, 2^31)."""
  # Python's hash() of a name differs from run to run.
  return zlib.crc32(name.encode()) & 0x7FFFFFFF


def variable_name(variable: tf.Variable) -> str:
  """Returns a variable's name in checkpoints, equal for all replicas."""
  # Under MirroredStrategy the copies are bert/x:0, bert/x/replica_1:0, ...
  return re.sub(r"(/replica_\d+)?(:\d+)?$", "", variable.name)


class Weights(tf.Module):
  """A module whose variables are created from a table of names and shapes."""

  def __init__(
    self,
    shapes: dict[str, tuple],
    *,
    stddev: float,
    seed: int,
    storage_dtype=tf.float32,
  ):
    super().__init__()
    self._names = tuple(shapes)
    self._weights = tuple(
      _make_variable(name, shape, stddev, seed, storage_dtype)
      for name, shape in shapes.items()
    )

  def replace_weights(self, make: Callable) -> None:
    """Replaces each variable with make(variable), one at a time."""
    self._weights = tuple(map(make, self._weights))

  def weights_below(self, prefix):
    """Returns {rest of the name: variable} for names with this prefix."""
    return {
      name.removeprefix(prefix): weight
      for name, weight in zip(self._names, self._weights)
      if name.startswith(prefix)
    }

  def summary(self) -> None:
    """Prints each variable's name, shape and parameter count, and the total."""
    rows = [
      (variable_name(weight), tuple(weight.shape), weight.shape.num_elements())
      for weight in self.variables
    ]
    width = max(len(name) for name, *_ in rows)
    for name, shape, count in rows:
      print(f"{name:<{width}}  {shape!s:<14}  {count:>12,}")
    total = sum(count for *_, count in rows)
    print(f"{'parameters':<{width}}  {'':<14}  {total:>12,}")


# {name: shape} of variables that will be loaded later, set per thread.
_loaded_later: contextvars.ContextVar[Mapping[str, tuple] | None] = (
  contextvars.ContextVar("_loaded_later", default=None)
)


@contextlib.contextmanager
def without_random_init(shapes: Mapping[str, tuple]) -> Iterator[None]:
  """Skips the random weights of new variables with these names and shapes.

  Use it before you load weights: drawing random ones takes seconds (BERT-base).
  """
  before = _loaded_later.set(shapes)
  try:
    yield
  finally:
    _loaded_later.reset(before)


def _make_variable(name, shape, stddev, seed, storage_dtype):
  # Draws on the CPU: a seed then gives the same weights on any accelerator.
  with tf.device("CPU:0"):
    initial = _initial_value(name, shape, stddev, seed)
    # Vectors (biases, layer norms) are small and stay float32.
    if len(shape) > 1:
      initial = tf.cast(initial, storage_dtype)
  # The empty scope keeps the caller's name scope out of the name.
  with tf.name_scope(""):
    return tf.Variable(initial, name=name)


def _initial_value(name, shape, stddev, seed):
  """Returns float32 initial weights; equal arguments give equal random weights.

  As in the original: the normal is truncated at two standard deviations and
  not rescaled, so stddev 0.02 gives weights of standard deviation 0.0176.
  """
  if name.endswith("/gamma"):
    return tf.ones(shape)  # Layer norm starts as the identity.
  is_loaded_later = (_loaded_later.get() or {}).get(name) == tuple(shape)
  if is_loaded_later or name.endswith(("bias", "/beta")):
    return tf.zeros(shape)
  seeds = tf.constant([seed, name_number(name)], tf.int64)
  return tf.random.stateless_truncated_normal(
    shape, seed=seeds, stddev=stddev, alg="philox"
  )


# Dropout


class Dropout(NamedTuple):
  """Zeroes a random share of the units in training and scales up the rest.

  In `Dropout(seed).at("layer_0/output")(x, rate)`, the random numbers depend
  only on the seed and the name of the site. Seed and counter are tensors, so
  all layers can call one traced function.

  Attributes:
    seed: int32 [2]; None disables dropout.
    counter: int32 [2, 2], the Philox counter at which the site's numbers begin,
      as 32-bit words; each site has 2^64 blocks (Salmon et al., "Parallel
      random numbers: as easy as 1, 2, 3", 2011).
    is_for_tpu: whether to draw 32 bits per unit with the generator that
      TensorFlow selects (on a TPU, the TPU's own). The masks then differ from
      other devices' masks, and each site has 2^32 blocks.
  """

  seed: tf.Tensor | None = None
  counter: tf.Tensor | None = None
  is_for_tpu: bool = False

  @classmethod
  def of_call(
    cls, training: bool, seed=None, *, is_for_tpu: bool = False
  ) -> "Dropout":
    """Returns the dropout for a call; if `seed` is None, draws an int32 [2]."""
    if not training:
      return cls()
    if seed is None:
      lowest, highest = tf.int32.limits
      seed = tf.random.uniform([2], lowest, highest, dtype=tf.int32)
    return cls(tf.convert_to_tensor(seed, tf.int32), is_for_tpu=is_for_tpu)

  def at(self, site: str) -> "Dropout":
    """Returns the dropout for a site, a named place in the network."""
    if self.seed is None:
      return self
    number = name_number(site)
    words = [[0, 0], [number, 0]]
    if self.is_for_tpu:
      # The TPU's generator reads only the first 64 bits.
      words = [[0, number], [0, 0]]
    return self._replace(counter=tf.constant(words, tf.int32))

  def __call__(self, x: tf.Tensor, rate: float) -> tf.Tensor:
    """Drops a share of x: `rate`, rounded to a multiple of 1 / 65536."""
    if self.seed is None or not rate:
      return x
    # Numbers are uniform in [-2^15, 2^15); a share `rate` is below the limit.
    limit = min(round(rate * 2**16), 2**16 - 1) - 2**15
    if self.is_for_tpu:
      numbers = _random_int32(
        tf.shape(x), self.seed, self.counter, tf.random.Algorithm.AUTO_SELECT
      )
      keep = numbers >= limit * 2**16
    else:
      numbers = _random_int16(tf.shape(x), self.seed, self.counter)
      keep = numbers >= tf.constant(limit, tf.int16)

    @tf.custom_gradient
    def masked(x):
      def kept(values):
        # tf.where would be several times slower in bfloat16.
        return values * (tf.cast(keep, values.dtype) * (1.0 / (1.0 - rate)))

      # `kept` is linear, so it is its own gradient, which stores only `keep`.
      return kept(x), kept

    return masked(x)


def _random_int16(shape, seed, counter):
  """Returns uniform random int16 values, determined by the arguments."""
  # Integers from a fixed generator give equal masks in every compute_dtype,
  # under XLA and on all devices except TPUs. Drawing numbers takes much of
  # dropout's time on a CPU, so each 32-bit number serves two units. On a TPU,
  # rearranging the halves would take half of the step's time.
  count = tf.reduce_prod(shape)
  algorithm = tf.random.Algorithm.PHILOX
  pairs = _random_int32([(count + 1) // 2], seed, counter, algorithm)
  numbers = tf.reshape(tf.bitcast(pairs, tf.int16), [-1])
  return tf.reshape(numbers[:count], shape)


def _random_int32(shape, seed, counter, algorithm):
  """Returns uniform random int32 values, determined by the arguments."""
  # Uses the seed as the generator's key without a hash, because the hash in
  # TensorFlow's own functions takes some twenty operations per site.
  return tf.raw_ops.StatelessRandomUniformFullIntV2(
    shape=shape,
    key=tf.bitcast(tf.reshape(seed, [1, 2]), tf.uint64),
    counter=tf.bitcast(counter, tf.uint64),
    alg=algorithm.value,
    dtype=tf.int32,
  )
