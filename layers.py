"""The pieces of the network that hold no variable: functions of tensors.

The letters in the shapes are those of modeling.py.
"""

import functools
import math
import zlib
from typing import NamedTuple

import tensorflow as tf

from common import errors

_LAYER_NORM_EPSILON = 1e-12
_GELU_SCALE, _GELU_CUBIC = math.sqrt(2 / math.pi), 0.044715
_NORMAL_DENSITY = 1 / math.sqrt(2 * math.pi)  # At 0, of variance 1.
# Added to the scores of masked positions. As in the original: not infinite, so
# a row whose mask is all zero attends everywhere instead of giving NaN.
_MASKED_SCORE = -10000.0
# Where a layer drops units, in this order.
_LAYER_SITES = ("attention/probs", "attention/output", "output")


@tf.custom_gradient
def gelu(x):
  """Gaussian error linear unit in its tanh form (arXiv 1606.08415).

  As in the original: the approximation, not the error function.

  Args:
    x: any shape and floating type.

  Returns:
    x (1 + tanh(u)) / 2, u = sqrt(2/pi) (x + 0.044715 x^3), like `x`.
  """
  # These are the widest activations of the network, and each operation is a
  # pass over them: as few as possible, and only x is kept for the gradient.
  # In float32 whatever x is: 1 - share is a difference of near numbers.
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
  """Gaussian error linear unit with the exact normal distribution function.

  Weights published in the Hugging Face format were trained with this form.

  Args:
    x: any shape and floating type.

  Returns:
    x (1 + erf(x / sqrt(2))) / 2, like `x`.
  """
  x = tf.convert_to_tensor(x)

  def gradient(upstream):
    wide = tf.cast(x, tf.float32)
    # The density of the normal distribution is the slope of its share.
    density = tf.exp(-0.5 * tf.square(wide)) * _NORMAL_DENSITY
    total = _normal_share(wide) + wide * density
    return tf.cast(tf.cast(upstream, tf.float32) * total, x.dtype)

  wide = tf.cast(x, tf.float32)
  return tf.cast(wide * _normal_share(wide), x.dtype), gradient


def _normal_share(x):
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
# TensorFlow's own forms, which it fuses with the product before them where no
# gradient keeps the product's result.
_FUSED_ACTIVATIONS = {
  gelu: functools.partial(tf.nn.gelu, approximate=True),
  gelu_erf: functools.partial(tf.nn.gelu, approximate=False),
}


def get_activation(activation):
  """Returns the function of a name, whatever its case.

  Args:
    activation: "gelu", "gelu_erf", "linear", "relu", "silu", "swish" or
      "tanh"; None or "" means linear; a function is returned as it is.

  Raises:
    InputError: another name.
  """
  if callable(activation):
    return activation
  found = _ACTIVATIONS.get(str(activation or "linear").lower())
  if found is None:
    raise errors.InputError(
      f"unknown activation {activation!r}; known are "
      + ", ".join(sorted(_ACTIVATIONS))
    )
  return found


def layer_norm(x, weights, name):
  """Normalizes the last axis in float32 (arXiv 1607.06450, epsilon 1e-12).

  Args:
    x: [..., H].
    weights: dict with float32 [H] under "<name>/beta" and "<name>/gamma".
    name: where the two are in `weights`.

  Returns:
    [..., H] in the type of `x`.
  """
  beta, gamma = weights[f"{name}/beta"], weights[f"{name}/gamma"]
  return _layer_norm(x, tf.convert_to_tensor(beta), tf.convert_to_tensor(gamma))


@tf.custom_gradient
def _layer_norm(x, beta, gamma):
  # An own gradient keeps one tensor as large as x, not three.
  wide = tf.cast(x, tf.float32)
  # Two passes: E[x^2] - E[x]^2 would lose the digits of a small variance.
  centred = wide - _last_mean(wide)
  rsqrt = tf.math.rsqrt(_last_mean(tf.square(centred)) + _LAYER_NORM_EPSILON)
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


def _last_mean(x):
  return tf.reduce_mean(x, axis=-1, keepdims=True)


def dense(x, weights, name, activation=None):
  """Returns activation(x @ kernel + bias), computed in the type of `x`.

  Args:
    x: [..., in].
    weights: dict with [in, out] under "<name>/kernel" and [out] under
      "<name>/bias", both cast to the type of `x`.
    name: where the two are in `weights`.
    activation: function, or None.

  Returns:
    [..., out].
  """
  kernel = tf.cast(weights[f"{name}/kernel"], x.dtype)  # [in, out]
  bias = tf.cast(weights[f"{name}/bias"], x.dtype)  # [out]
  # One product of two matrices: TensorFlow's product of a batch of matrices
  # with one shared matrix is slower, and so is its gradient.
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
    # The sum over the rows as a product of matrices: TensorFlow's own sum takes
    # several times as long.
    ones = tf.ones([1, tf.shape(upstream)[0]], upstream.dtype)
    return upstream, tf.matmul(ones, upstream)[0]

  return tf.nn.bias_add(x, bias), gradient


def output_logits(x, weights, bias):
  """Returns float32 logits [..., O] of x [..., H] and weights [O, H]."""
  rows = tf.reshape(x, [-1, weights.shape[1]])  # [M, H]
  weights = tf.cast(weights, x.dtype)
  logits = tf.cast(tf.matmul(rows, weights, transpose_b=True), tf.float32)
  # Added in float32: bfloat16 would round every logit once more.
  logits = tf.nn.bias_add(logits, bias)
  return tf.reshape(logits, [*sizes(x)[:-1], weights.shape[0]])


def one_hot_lookup(ids, table):
  """Returns rows [..., H] of the table, zeros where an id is out of range."""
  hot = tf.one_hot(tf.reshape(ids, [-1]), table.shape[0])
  return tf.reshape(tf.matmul(hot, table), [*sizes(ids), table.shape[1]])


def sizes(x):
  """Returns the sizes of `x`: integers where static, else scalar tensors."""
  x = tf.convert_to_tensor(x)
  dynamic = tf.shape(x)
  return [
    dynamic[axis] if size is None else size for axis, size in enumerate(x.shape)
  ]


def name_number(name):
  """Returns a fixed number in [0, 2^31) for a name."""
  # Not hash(), which differs between two runs of Python.
  return zlib.crc32(name.encode()) & 0x7FFFFFFF


def dropout(x, rate, seed, site):
  """Zeroes a share of `x` and scales the rest, the same for the same seed.

  Args:
    x: any shape.
    rate: share to drop, to 1 in 65536; 0 leaves `x` as it is.
    seed: int32 [2], or None to leave `x` as it is (not training).
    site: name of the place in the network; each has its own mask.
  """
  if seed is None or not rate:
    return x
  return _drop(x, rate, (seed, tf.constant(_counter(site), tf.int32)))


def _counter(site):
  """Returns Philox's counter where the numbers of a site begin, as words.

  Each site has 2^64 blocks of numbers of its own (Salmon et al., "Parallel
  random numbers: as easy as 1, 2, 3", 2011).
  """
  return [[0, 0], [name_number(site), 0]]


def _drop(x, rate, stream):
  """`dropout` with a stream, (seed int32 [2], counter int32 [2, 2]) or None."""
  if stream is None or not rate:
    return x
  # Uniform in [-2^15, 2^15): a share `rate` is below the limit.
  keep = _random_int16(tf.shape(x), *stream) >= tf.constant(
    min(round(rate * 2**16), 2**16 - 1) - 2**15, tf.int16
  )

  @tf.custom_gradient
  def masked(x):
    def kept(values):
      # A product and not tf.where, which is several times as slow in bfloat16.
      return values * (tf.cast(keep, values.dtype) * (1.0 / (1.0 - rate)))

    # Linear in x: its gradient is itself, and stores one bool per unit.
    return kept(x), kept

  return masked(x)


def _random_int16(shape, seed, counter):
  """Returns uniform int16 of all values, a function of all arguments."""
  # Integers with one generator named, so that masks are the same in every
  # compute_dtype, on every device and under XLA. Random numbers are a large
  # part of dropout's time on a CPU: one of 32 bits serves two units. The seed
  # is the generator's key as it is: TensorFlow's functions would hash it with
  # some twenty operations at each site.
  count = tf.reduce_prod(shape)
  pairs = tf.raw_ops.StatelessRandomUniformFullIntV2(
    shape=[(count + 1) // 2],
    key=tf.bitcast(tf.reshape(seed, [1, 2]), tf.uint64),
    counter=tf.bitcast(counter, tf.uint64),
    alg=tf.random.Algorithm.PHILOX.value,
    dtype=tf.int32,
  )
  numbers = tf.reshape(tf.bitcast(pairs, tf.int16), [-1])
  return tf.reshape(numbers[:count], shape)


def training_seed(training, dropout_seed):
  """Returns the int32 [2] seed of this call's dropout, None for no dropout."""
  if not training:
    return None
  if dropout_seed is None:
    lowest, highest = tf.int32.limits
    return tf.random.uniform([2], lowest, highest, dtype=tf.int32)
  return tf.convert_to_tensor(dropout_seed, tf.int32)


def layer_streams(seed, num_layers):
  """Returns the random numbers of the dropout sites of every layer.

  They are those of `dropout` at the site "layer_<n>/<one of _LAYER_SITES>",
  as tensors: so that all layers can be calls of one function.

  Args:
    seed: int32 [2], or None for no dropout.
    num_layers: their number.

  Returns:
    list of (seed, counters int32 [3, 2, 2]), one for each layer, or of None.
  """
  if seed is None:
    return [None] * num_layers
  counters = [
    [_counter(f"layer_{layer}/{site}") for site in _LAYER_SITES]
    for layer in range(num_layers)
  ]
  parts = tf.unstack(tf.constant(counters, tf.int32))
  return [(seed, part) for part in parts]


def attention_bias(input_mask):
  """Returns float32 [B, 1, F or 1, T] to add to the scores, or None."""
  if input_mask is None:
    return None
  mask = tf.cast(input_mask, tf.float32)  # [B, T] or [B, F, T]
  if mask.shape.rank == 2:
    mask = mask[:, tf.newaxis]  # [B, 1, T]: one row for all F.
  return (1.0 - mask[:, tf.newaxis]) * _MASKED_SCORE


# Between the rows [S, H] that are computed and the batch [B, T]


class PaddedRows(NamedTuple):
  """Every position is a row, padding included: S = B T, in order."""

  batch_size: int
  length: int

  def take(self, values):
    """Returns the values [S] of the rows, from [B, T]."""
    return tf.reshape(values, [-1])

  def restore(self, rows):
    """Returns [B, T, H] of rows [S, H]."""
    return tf.reshape(rows, [self.batch_size, self.length, rows.shape[-1]])

  def pick(self, rows, positions):
    """Returns rows [B P, H], at positions [B, P] of each sequence."""
    states = tf.gather(self.restore(rows), positions, batch_dims=1)  # [B, P, H]
    return tf.reshape(states, [-1, rows.shape[-1]])

  def add_by_position(self, rows, table):
    """Returns rows [S, H] plus row t of a table for each position t."""
    added = self.restore(rows) + table[: self.length]  # [B, T, H]
    return tf.reshape(added, [-1, rows.shape[-1]])

  def split_heads(self, rows, heads):
    """Returns [B, N, T, D] of rows [S, H]."""
    shape = [self.batch_size, self.length, heads, rows.shape[-1] // heads]
    return tf.transpose(tf.reshape(rows, shape), [0, 2, 1, 3])

  def join_heads(self, x):
    """Returns rows [S, H] of [B, N, T, D]."""
    joined = tf.transpose(x, [0, 2, 1, 3])  # [B, T, N, D]
    return tf.reshape(joined, [-1, x.shape[1] * x.shape[3]])


class TokenRows(NamedTuple):
  """Only the tokens are rows, in the order of the batch.

  The same methods as PaddedRows, without the cost of padding: everything but
  attention runs on S rows, and attention finds at a padding position a copy
  of some token, which its mask hides. So no number of a token changes.

  Attributes:
    places: int32 [S], b T + t of each row.
    numbers: int32 [B, T], the row of each position; of padding, some row.
    is_row: bool [B, T], False for padding.
    to_heads: int32 [B, N, T], where D numbers of a head are in [S N, D].
    from_heads: int32 [S, N], where they are in [B N T, D].
  """

  places: tf.Tensor
  numbers: tf.Tensor
  is_row: tf.Tensor
  to_heads: tf.Tensor
  from_heads: tf.Tensor

  @classmethod
  def of_mask(cls, input_mask, heads):
    """Makes it of a mask [B, T] and the number of attention heads."""
    mask = tf.cast(input_mask, tf.bool)  # [B, T]
    # Two things are computed besides the tokens, to equal the padded numbers.
    # A sequence without tokens, which attends to all its positions, and
    # [CLS], which heads read even where it is masked.
    is_row = mask | ~tf.reduce_any(mask, axis=1, keepdims=True)
    is_row |= tf.range(tf.shape(mask)[1]) == 0
    # Of a mask [[1, 1, 0], [1, 0, 0]]: places are 0 1 3, numbers [[0, 1, 1],
    # [2, 2, 2]].
    flat = tf.reshape(is_row, [-1])  # [B T]
    places = tf.cast(tf.where(flat)[:, 0], tf.int32)  # [S]
    # Padding gets the row before it; every sequence begins with one.
    numbers = tf.cumsum(tf.cast(flat, tf.int32)) - 1
    numbers = tf.reshape(numbers, tf.shape(mask))  # [B, T]
    head, length = tf.range(heads), tf.shape(mask)[1]
    sequence, position = places // length, places % length  # [S]
    # Position 0 of the row's sequence and of each head in [B N T].
    first = (sequence[:, tf.newaxis] * heads + head) * length  # [S, N]
    return cls(
      places=places,
      numbers=numbers,
      is_row=is_row,
      to_heads=numbers[:, tf.newaxis] * heads + head[:, tf.newaxis],
      from_heads=first + position[:, tf.newaxis],
    )

  def take(self, values):
    """Returns the values [S] of the rows, from [B, T]."""
    return tf.gather(tf.reshape(values, [-1]), self.places)

  def restore(self, rows):
    """Returns [B, T, H] of rows [S, H], zeros for padding."""
    is_row = self.is_row[..., tf.newaxis]
    return _spread(rows, self.numbers, is_row, self.places)

  def pick(self, rows, positions):
    """Returns rows [B P, H], at positions [B, P], those of tokens."""
    numbers = tf.gather(self.numbers, positions, batch_dims=1)  # [B, P]
    return tf.gather(rows, tf.reshape(numbers, [-1]))

  def add_by_position(self, rows, table):
    """Returns rows [S, H] plus row t of a table for each position t."""
    positions = self.places % tf.shape(self.numbers)[1]  # [S]
    return rows + dense_lookup(tf.convert_to_tensor(table), positions)

  def split_heads(self, rows, heads):
    """Returns [B, N, T, D] of rows [S, H]; of padding, some token's."""
    parts = tf.reshape(rows, [-1, rows.shape[-1] // heads])  # [S N, D]
    return _spread(parts, self.to_heads, None, self.from_heads)

  def join_heads(self, x):
    """Returns rows [S, H] of [B, N, T, D]."""
    is_row = self.is_row[:, tf.newaxis, :, tf.newaxis]
    joined = collect(x, self.from_heads, self.to_heads, is_row)  # [S, N, D]
    return tf.reshape(joined, [-1, x.shape[1] * x.shape[3]])


def _spread(rows, numbers, is_row, places):
  """Gathers rows to more places than there are rows.

  TensorFlow's gradient of a gather adds rows up, one by one. Each row has one
  place of its own here, and the gradient of all other places is 0: where
  is_row is None because attention's mask hides them. So a gather will do.

  Args:
    rows: [M, D].
    numbers: int32 [..., T], the row of each place.
    is_row: bool, like `numbers` with a last axis, False where zeros are to
      be; None to leave a copy of some row there.
    places: int32, any shape with M elements: in flat [..., T], the own place
      of each row.

  Returns:
    [..., T, D].
  """

  @tf.custom_gradient
  def spread(rows):
    def gradient(upstream):
      flat = tf.reshape(upstream, [-1, rows.shape[-1]])
      return tf.gather(flat, tf.reshape(places, [-1]))

    spread_rows = tf.gather(rows, numbers)  # [..., T, D]
    if is_row is not None:
      spread_rows *= tf.cast(is_row, rows.dtype)
    return spread_rows, gradient

  return spread(rows)


def collect(x, places, numbers, is_row):
  """Gathers each row's own place of x: the reverse of `_spread`.

  Args:
    x: [..., T, D].
    places: int32, any shape: the place of each row in flat [..., T].
    numbers: int32 [..., T], the flat number of the row of each place.
    is_row: bool [..., T, 1], False for places of no row (gradient 0).

  Returns [..., D], in the shape of `places`.
  """

  @tf.custom_gradient
  def collect(x):
    def gradient(upstream):
      rows = tf.reshape(upstream, [-1, x.shape[-1]])
      return tf.gather(rows, numbers) * tf.cast(is_row, x.dtype)

    return tf.gather(tf.reshape(x, [-1, x.shape[-1]]), places), gradient

  return collect(x)


@tf.custom_gradient
def dense_lookup(table, numbers):
  """tf.gather of rows [V, H] at integers [S], with a dense gradient.

  As in the original: position embeddings are a slice, so the global norm
  that gradients are clipped by sees the sum over the batch.
  """
  count = table.shape[0]

  def gradient(upstream):
    return tf.math.unsorted_segment_sum(upstream, numbers, count), None

  return tf.gather(table, numbers), gradient


def transformer_layer(
  x, weights, config, *, rows, bias, streams, positions=None
):
  """One layer: attention, then feed-forward, each added and normalized.

  Args:
    x: [S, H], the rows that are computed, in the type to compute in.
    weights: {name below "layer_<n>/": tensor}.
    config: BertConfig.
    rows: PaddedRows or TokenRows, where in the batch they are.
    bias: float32, added to the scores [B, N, F, T], or None.
    streams: one of `layer_streams`, or None for no dropout.
    positions: integers [B, P]: the tokens whose output is needed. All of them
      are attended to, but only these attend. None for all.

  Returns:
    [S, H], or [B P, H] of `positions`, and the attention probabilities
    [B, N, F, T], F = P with `positions`.
  """
  rate = config.hidden_dropout_prob
  of_probs, of_attended, of_output = [None] * len(_LAYER_SITES)
  if streams is not None:
    seed, counters = streams
    of_probs, of_attended, of_output = [
      (seed, counter) for counter in tf.unstack(counters)
    ]
  context, probs = _attention(
    x, weights, config, rows=rows, bias=bias, stream=of_probs,
    positions=positions,
  )
  if positions is not None:
    # The residual connection needs the same rows as the context.
    x = rows.pick(x, positions)  # [B P, H]
  attended = dense(context, weights, "attention/output/dense")  # [S, H]
  attended = _drop(attended, rate, of_attended)
  # As in the original: normalized after the sum, not before the sub-layer.
  x = layer_norm(x + attended, weights, "attention/output/LayerNorm")  # [S, H]
  activation = get_activation(config.hidden_act)
  if streams is None:
    activation = _FUSED_ACTIVATIONS.get(activation, activation)
  inner = dense(x, weights, "intermediate/dense", activation)  # [S, I]
  output = dense(inner, weights, "output/dense")  # [S, H]
  output = _drop(output, rate, of_output)
  return layer_norm(x + output, weights, "output/LayerNorm"), probs


def layer_function(config, *, recompute, return_attention, share_trace=True):
  """Returns `transformer_layer` as a function of one layer's tensors.

  Args:
    config: BertConfig.
    recompute: whether only the input is kept for the gradient.
    return_attention: whether to return the attention probabilities.
    share_trace: whether a graph has one function for all layers. Not where XLA
      compiles gradients: those of a call take constants from it, so that XLA
      takes all its inputs for constants, and compiles each step anew.

  Returns:
    function of x, weights and the options of `transformer_layer`; returns
    rows, and attention probabilities or None.
  """

  def run_layer(x, weights, **options):
    def run(x, *values):
      output, probs = transformer_layer(
        x, dict(zip(weights, values)), config, **options
      )
      return (output, probs) if return_attention else output

    if recompute:
      run = tf.recompute_grad(run)
    # The weights as arguments: recompute_grad gives gradients of those.
    result = run(x, *[tf.convert_to_tensor(w) for w in weights.values()])
    return result if return_attention else (result, None)

  # In a graph one trace serves all layers: tracing is most of the start.
  if not (share_trace and tf.inside_function()):
    return run_layer
  traced = tf.function(run_layer, autograph=False)

  def call(x, weights, **options):
    tensors = {name: tf.convert_to_tensor(w) for name, w in weights.items()}
    return traced(x, tensors, **options)

  return call


def _attention(x, weights, config, *, rows, bias, stream, positions):
  """Returns [S or B P, H], probabilities [B, N, F, T]; see the caller."""
  heads = config.num_attention_heads  # N
  width = config.hidden_size // heads  # D
  attending, from_rows = x, rows
  if positions is not None:
    attending = rows.pick(x, positions)  # [B P, H]
    from_rows = PaddedRows(*sizes(positions))
    if bias is not None and bias.shape[2] != 1:
      bias = tf.gather(bias, positions[:, tf.newaxis], axis=2, batch_dims=2)

  def project(x, name, layout):
    projected = dense(x, weights, f"attention/self/{name}")
    return layout.split_heads(projected, heads)

  # [B, N, F, D], and [B, N, T, D] for the two others.
  query = project(attending, "query", from_rows)
  key, value = project(x, "key", rows), project(x, "value", rows)
  # Unlike the original: the query is scaled, and not its T scores.
  query = query * tf.cast(1.0 / math.sqrt(width), x.dtype)
  scores = tf.cast(tf.matmul(query, key, transpose_b=True), tf.float32)
  if bias is not None:
    scores = scores + bias
  # [B, N, F, T]. In float32: bfloat16 has 8 bits for a sum of exponentials.
  probs = tf.cast(tf.nn.softmax(scores), x.dtype)
  rate = config.attention_probs_dropout_prob
  kept = _drop(probs, rate, stream)  # [B, N, F, T]
  return from_rows.join_heads(tf.matmul(kept, value)), probs
