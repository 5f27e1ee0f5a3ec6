"""Skips padding, so that the layers compute only tokens.

A batch is [B, T], and the layers compute rows [S, H]:

  PaddedRows   every position, padding included: S = B T; TpuRows on a TPU
  TokenRows    only tokens: everything but attention leaves padding out

docs/padding.md lists the cases in which padding is still computed. Shapes use
the letters of modeling.py.
"""

from collections import namedtuple

import tensorflow as tf

import layers


class _Heads:
  """The dense layers that map rows to attention heads, and back."""

  def dense_to_heads(self, rows, weights, name, heads):
    """Returns [B, N, T, D] of rows [S, H], for N heads; see layers.dense."""
    return self.split_heads(layers.dense(rows, weights, name), heads)

  def dense_of_heads(self, x, weights, name):
    """Returns rows [S, H] of x [B, N, T, D]; see layers.dense."""
    return layers.dense(self.join_heads(x), weights, name)


class PaddedRows(_Heads, namedtuple("PaddedRows", "batch_size length")):
  """Every position is a row, padding included: S = B T, in order.

  Like TokenRows it is a tuple of tensors, which a tf.function can take.
  """

  @classmethod
  def like(cls, ids) -> "PaddedRows":
    """Returns the rows of a batch with the sizes [B, T] of `ids`."""
    return cls(*layers.sizes(ids))

  def unpad(self, values):
    """Converts values [B, T] to rows [S]."""
    return tf.reshape(values, [-1])

  def pad(self, rows):
    """Converts rows [S, H] to [B, T, H]; positions without a row are 0."""
    return tf.reshape(rows, [self.batch_size, self.length, rows.shape[-1]])

  def pick(self, rows, positions):
    """Selects rows [B P, H] at positions [B, P] from rows [S, H]."""
    states = tf.gather(self.pad(rows), positions, batch_dims=1)  # [B, P, H]
    return tf.reshape(states, [-1, rows.shape[-1]])

  def add_by_position(self, rows, table):
    """Adds row t of a table [T, H] to the rows [S, H] at position t."""
    added = self.pad(rows) + table[: self.length]  # [B, T, H]
    return tf.reshape(added, [-1, rows.shape[-1]])

  def split_heads(self, rows, heads):
    """Converts rows [S, H] to [B, N, T, D], for attention."""
    shape = [self.batch_size, self.length, heads, rows.shape[-1] // heads]
    return tf.transpose(tf.reshape(rows, shape), [0, 2, 1, 3])

  def join_heads(self, x):
    """Converts [B, N, T, D] to rows [S, H], the inverse of `split_heads`."""
    joined = tf.transpose(x, [0, 2, 1, 3])  # [B, T, N, D]
    return tf.reshape(joined, [-1, x.shape[1] * x.shape[3]])


class TpuRows(PaddedRows):
  """PaddedRows whose attention a TPU computes without copies.

  The products of attention have the axes [B, T]. With one axis [S], XLA would
  spend a seventh of a step on copying queries, keys, values and contexts.
  """

  def dense_to_heads(self, rows, weights, name, heads):
    kernel = tf.cast(weights[f"{name}/kernel"], rows.dtype)  # [H, N D]
    kernel = tf.reshape(kernel, [kernel.shape[0], heads, -1])
    bias = tf.cast(weights[f"{name}/bias"], rows.dtype)
    bias = tf.reshape(bias, [heads, 1, -1])
    return tf.einsum("bth,hnd->bntd", self.pad(rows), kernel) + bias

  def dense_of_heads(self, x, weights, name):
    kernel = tf.cast(weights[f"{name}/kernel"], x.dtype)  # [N D, H]
    kernel = tf.reshape(kernel, [x.shape[1], x.shape[3], -1])
    bias = tf.cast(weights[f"{name}/bias"], x.dtype)
    states = tf.einsum("bntd,ndh->bth", x, kernel) + bias
    return tf.reshape(states, [-1, states.shape[-1]])


class TokenRows(
  _Heads,
  namedtuple("TokenRows", "position_of row_of is_row to_heads from_heads"),
):
  """Only the tokens are rows, in the order of the batch.

  It has the methods of PaddedRows. At a padding position, attention gets a copy
  of some token, which the mask hides: the states of tokens do not change.

  Attributes:
    position_of: int32 [S], the flat position b T + t of each row.
    row_of: int32 [B, T], the row of each position; any row for padding.
    is_row: bool [B, T], False for padding.
    to_heads: int32 [B, N, T], the index in [S N, D] of each head's D values.
    from_heads: int32 [S, N], their index in [B N T, D].
  """

  @classmethod
  def of_mask(cls, input_mask: tf.Tensor, heads: int) -> "TokenRows":
    """Makes the rows from a mask [B, T] and the number of attention heads."""
    mask = tf.cast(input_mask, tf.bool)  # [B, T]
    # To give the same outputs as PaddedRows, further positions are rows: all
    # positions of a sequence without tokens, which attends everywhere, and the
    # first position, [CLS], which heads read even if it is masked.
    is_row = mask | ~tf.reduce_any(mask, axis=1, keepdims=True)
    is_row |= tf.range(tf.shape(mask)[1]) == 0
    # A mask [[1, 1, 0], [1, 0, 0]] gives position_of [0, 1, 3] and row_of
    # [[0, 1, 1], [2, 2, 2]].
    flat = tf.reshape(is_row, [-1])  # [B T]
    position_of = tf.cast(tf.where(flat)[:, 0], tf.int32)  # [S]
    # Padding gets the row before it; every sequence begins with a row.
    row_of = tf.cumsum(tf.cast(flat, tf.int32)) - 1
    row_of = tf.reshape(row_of, tf.shape(mask))  # [B, T]
    head, length = tf.range(heads), tf.shape(mask)[1]
    sequence, position = position_of // length, position_of % length  # [S]
    # The index in [B N T] of position 0 of the row's sequence, for each head.
    first = (sequence[:, tf.newaxis] * heads + head) * length  # [S, N]
    return cls(
      position_of=position_of, row_of=row_of, is_row=is_row,
      to_heads=row_of[:, tf.newaxis] * heads + head[:, tf.newaxis],
      from_heads=first + position[:, tf.newaxis],
    )

  def unpad(self, values):
    return tf.gather(tf.reshape(values, [-1]), self.position_of)

  def pad(self, rows):
    is_row = self.is_row[..., tf.newaxis]
    return _spread(rows, self.row_of, is_row, self.position_of)

  def pick(self, rows, positions):
    row_of = tf.gather(self.row_of, positions, batch_dims=1)  # [B, P]
    return tf.gather(rows, tf.reshape(row_of, [-1]))

  def add_by_position(self, rows, table):
    positions = self.position_of % tf.shape(self.row_of)[1]  # [S]
    return rows + layers.dense_lookup(tf.convert_to_tensor(table), positions)

  def split_heads(self, rows, heads):
    parts = tf.reshape(rows, [-1, rows.shape[-1] // heads])  # [S N, D]
    return _spread(parts, self.to_heads, None, self.from_heads)

  def join_heads(self, x):
    is_row = self.is_row[:, tf.newaxis, :, tf.newaxis]
    joined = _collect(x, self.from_heads, self.to_heads, is_row)  # [S, N, D]
    return tf.reshape(joined, [-1, x.shape[1] * x.shape[3]])


Rows = PaddedRows | TokenRows


def _spread(rows, row_of, is_row, position_of):
  """Gathers rows [M, D] into more positions than rows, [..., T, D].

  TensorFlow's gradient of a gather adds rows up, one by one. Here each row has
  one real position, and the gradient at all others is 0 (with is_row None,
  because attention's mask hides them). So the gradient can be a gather, too.

  Args:
    row_of: int32 [..., T], the row of each position.
    is_row: bool [..., T, 1], False for positions that become 0; None keeps a
      copy of some row there.
    position_of: int32 with M elements, each row's position in flat [..., T].
  """

  @tf.custom_gradient
  def spread(rows):
    def gradient(upstream):
      flat = tf.reshape(upstream, [-1, rows.shape[-1]])
      return tf.gather(flat, tf.reshape(position_of, [-1]))

    spread_rows = tf.gather(rows, row_of)  # [..., T, D]
    if is_row is not None:
      spread_rows *= tf.cast(is_row, rows.dtype)
    return spread_rows, gradient

  return spread(rows)


def _collect(x, position_of, row_of, is_row):
  """Gathers each row from its position in x [..., T, D]: undoes `_spread`.

  `position_of` may have any shape [...], and the result is [..., D]. is_row is
  False for positions without a row, whose gradient is 0.
  """

  @tf.custom_gradient
  def collect(x):
    def gradient(upstream):
      rows = tf.reshape(upstream, [-1, x.shape[-1]])
      return tf.gather(rows, row_of) * tf.cast(is_row, x.dtype)

    return tf.gather(tf.reshape(x, [-1, x.shape[-1]]), position_of), gradient

  return collect(x)


def token_ends(input_mask: tf.Tensor) -> tf.Tensor:
  """Returns int32 [...], the last token's position in [..., T] plus 1, or 0.

  The number of tokens may be less: some may be masked before the last.
  """
  position = tf.range(tf.shape(input_mask)[-1]) + 1
  return tf.reduce_max(tf.where(input_mask > 0, position, 0), axis=-1)
