"""How the network is computed: the machine's side of layers.py.

Custom gradients store fewer activations and make fewer passes over memory than
TensorFlow's own; the formulas in layers.py define the results. Shapes use the
letters of modeling.py.
"""

import functools
import math
import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf

_GELU_SCALE, _GELU_CUBIC = math.sqrt(2 / math.pi), 0.044715
_NORMAL_DENSITY = 1 / math.sqrt(2 * math.pi)  # N(0, 1) at 0.

_last_mean = functools.partial(tf.reduce_mean, axis=-1, keepdims=True)


_compiling = threading.local()  # See `for_compiler`.


def for_compiler(function: Callable) -> Callable:
  """Returns the same function, traced in the forms that suit XLA.

  Only `add_bias` has two forms.
  """

  @functools.wraps(function)
  def run(*args: Any, **kwargs: Any) -> Any:
    before = getattr(_compiling, "is_on", False)
    _compiling.is_on = True
    try:
      return function(*args, **kwargs)
    finally:
      _compiling.is_on = before

  return run


# Custom gradients


@tf.custom_gradient
def gelu(x: tf.Tensor) -> tuple:
  """Gaussian error linear unit in its tanh form (arXiv 1606.08415).

  As in the original: the approximation, not the error function. Returns x (1 +
  tanh(u)) / 2 with u = sqrt(2/pi) (x + 0.044715 x^3), in the dtype of `x`.
  """
  # The inputs are the network's widest activations, so this function makes few
  # passes over them and stores only x for the gradient. It computes in float32,
  # because bfloat16 would lose the digits of 1 - sigmoid in the gradient.
  x = tf.convert_to_tensor(x)

  def share_of(wide: tf.Tensor, square: tf.Tensor):
    # (1 + tanh(u)) / 2 is the logistic function of 2u.
    inner = 2 * _GELU_SCALE * _GELU_CUBIC * square + 2 * _GELU_SCALE
    return tf.sigmoid(wide * inner)

  def gradient(upstream: tf.Tensor) -> tf.Tensor:
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
def gelu_erf(x: tf.Tensor) -> tuple:
  """Gaussian error linear unit with the exact normal CDF.

  Hugging Face calls this form "gelu". Returns x (1 + erf(x / sqrt(2))) / 2, in
  the dtype of `x`.
  """
  x = tf.convert_to_tensor(x)

  def gradient(upstream: tf.Tensor) -> tf.Tensor:
    wide = tf.cast(x, tf.float32)
    # The normal density is the derivative of `_normal_cdf`.
    density = tf.exp(-0.5 * tf.square(wide)) * _NORMAL_DENSITY
    total = _normal_cdf(wide) + wide * density
    return tf.cast(tf.cast(upstream, tf.float32) * total, x.dtype)

  wide = tf.cast(x, tf.float32)
  return tf.cast(wide * _normal_cdf(wide), x.dtype), gradient


def _normal_cdf(x: tf.Tensor):
  return 0.5 * tf.math.erf(x * math.sqrt(0.5)) + 0.5


@tf.custom_gradient
def normalize(x: tf.Tensor, beta, gamma, epsilon) -> tuple:
  """Computes layers.layer_norm of x [..., H] with beta and gamma [H].

  `epsilon` gets no gradient. The gradient stores one activation, not three. For
  n = (x - mean) rsqrt and g = gamma dL/dy, it is
  rsqrt (g - mean(g) - n mean(g n)).
  """
  wide = tf.cast(x, tf.float32)
  # Two passes, because E[x^2] - E[x]^2 loses the digits of a small variance.
  centred = wide - _last_mean(wide)
  rsqrt = tf.math.rsqrt(_last_mean(tf.square(centred)) + epsilon)
  normed = centred * rsqrt  # [..., H]

  def gradient(upstream: tf.Tensor) -> tuple:
    upstream = tf.cast(upstream, tf.float32)
    scaled = upstream * gamma
    inner = scaled - _last_mean(scaled) - normed * _last_mean(scaled * normed)
    rows = list(range(len(x.shape) - 1))  # All axes but the last.
    return (
      tf.cast(rsqrt * inner, x.dtype),
      tf.reduce_sum(upstream, rows),
      tf.reduce_sum(upstream * normed, rows),
      None,
    )

  return tf.cast(normed * gamma + beta, x.dtype), gradient


@tf.custom_gradient
def add_bias(x: tf.Tensor, bias: tf.Tensor) -> tuple:
  """Returns x [M, O] plus bias [O], in the dtype of `x`."""

  def gradient(upstream: tf.Tensor) -> tuple:
    # XLA computes a sum together with the operation before it, and in float32.
    if getattr(_compiling, "is_on", False):
      return upstream, tf.reduce_sum(tf.cast(upstream, bias.dtype), 0)
    # A matrix product sums the rows several times faster than tf.reduce_sum.
    ones = tf.ones([1, tf.shape(upstream)[0]], upstream.dtype)
    return upstream, tf.cast(tf.matmul(ones, upstream)[0], bias.dtype)

  return tf.nn.bias_add(x, tf.cast(bias, x.dtype)), gradient


@tf.custom_gradient
def dense_lookup(table, indices) -> tuple:
  """Gathers the rows of a table [V, H] at indices [S]; its gradient is dense.

  As in the original: the gradient of position embeddings is summed over the
  batch before the global norm is computed (there, by slicing the table).
  """
  count = table.shape[0]

  def gradient(upstream: tf.Tensor) -> tuple:
    return tf.math.unsorted_segment_sum(upstream, indices, count), None

  return tf.gather(table, indices), gradient


def masked(x: tf.Tensor, keep: tf.Tensor, factor: float) -> tf.Tensor:
  """Returns factor x where `keep`, a bool tensor, is true, and 0 elsewhere."""

  @tf.custom_gradient
  def run(x: tf.Tensor) -> tuple:
    def kept(values: tf.Tensor) -> tf.Tensor:
      # tf.where would be several times slower in bfloat16.
      return values * (tf.cast(keep, values.dtype) * factor)

    # `kept` is linear, so it is its own gradient, which stores only `keep`.
    return kept(x), kept

  return run(x)


# Random numbers


def random_mask(
  shape: tf.Tensor,
  rate: float,
  seed: tf.Tensor,
  counter: tf.Tensor,
  *,
  is_for_tpu: bool,
) -> tf.Tensor:
  """Returns a bool tensor that is false in a random share `rate` of its units.

  Args:
    shape: integers.
    rate: below 1; it is rounded to a multiple of 1 / 65536.
    seed, counter, is_for_tpu: see layers.Dropout.
  """
  # Numbers are uniform in [-2^15, 2^15); a share `rate` is below the limit.
  limit = min(round(rate * 2**16), 2**16 - 1) - 2**15
  if is_for_tpu:
    algorithm = tf.random.Algorithm.AUTO_SELECT
    return _random_int32(shape, seed, counter, algorithm) >= limit * 2**16
  return _random_int16(shape, seed, counter) >= tf.constant(limit, tf.int16)


def _random_int16(
  shape: tf.Tensor, seed: tf.Tensor, counter: tf.Tensor
) -> tf.Tensor:
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


def _random_int32(
  shape: tf.Tensor, seed: tf.Tensor, counter: tf.Tensor, algorithm
):
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


# Recomputation and tracing


def recomputed(function: Callable) -> Callable:
  """Returns a function that stores only its positional arguments.

  The gradient computes the rest again. Only positional arguments get gradients;
  they may be dictionaries of tensors.
  """

  def run(*tensors: Any, **options: Any) -> Any:
    function_of_tensors = functools.partial(function, **options)
    return tf.recompute_grad(function_of_tensors)(*tensors)

  return run


def traced_once(function: Callable) -> Callable:
  """Returns a function whose calls in a graph share one trace.

  Tracing takes most of the time before the first step.
  """
  return tf.function(function, autograph=False)
