"""Skips padding: all layers except attention process only tokens.

A batch is [B, T], and the layers compute rows [S, H]:

  PaddedRows   all positions, including padding, S = B T (on a TPU: TpuRows)
  TokenRows    only tokens

`pad` and `unpad` convert rows to [B, T, H] and back. Only attention needs
[B, T, H]: see `dense_to_heads` and `dense_of_heads`.

docs/padding.md lists the computations that skip padding. Shapes use the letters
of modeling.py.
"""

from collections import namedtuple
from collections.abc import Callable

import tensorflow as tf

import kernels
import layers


class _Rows:
  """The dense layers before and after attention; subclasses pad and unpad."""

  pad: Callable
  unpad: Callable

  def dense_to_heads(
    self, rows: tf.Tensor, weights: dict[str, tf.Tensor], name: str, heads: int
  ) -> tf.Tensor:
    """Returns [B, N, T, D] from rows [S, H], for N heads; see layers.dense."""
    x = self.pad(layers.dense(rows, weights, name))  # [B, T, H]
    *shape, width = layers.sizes(x)
    x = tf.reshape(x, [*shape, heads, width // heads])  # [B, T, N, D]
    return tf.transpose(x, [0, 2, 1, 3])

  def dense_of_heads(
    self, x: tf.Tensor, weights: dict[str, tf.Tensor], name: str
  ):
    """Returns rows [S, H] from x [B, N, T, D]; see layers.dense."""
    x = tf.transpose(x, [0, 2, 1, 3])  # [B, T, N, D]
    *shape, heads, width = layers.sizes(x)
    x = tf.reshape(x, [*shape, heads * width])  # [B, T, H]
    return layers.dense(self.unpad(x), weights, name)


class PaddedRows(_Rows, namedtuple("PaddedRows", "batch_size length")):
  """Rows for all positions, including padding: S = B T, in order.

  Like TokenRows, it is a tuple, so it can be passed to a tf.function.
  """

  def unpad(self, values: tf.Tensor) -> tf.Tensor:
    """Converts values [B, T, ...] to rows [S, ...]."""
    return tf.reshape(values, [-1, *values.shape[2:]])

  def pad(self, rows: tf.Tensor) -> tf.Tensor:
    """Converts rows [S, H] to [B, T, H]."""
    return tf.reshape(rows, [self.batch_size, self.length, rows.shape[-1]])

  def add_by_position(self, rows: tf.Tensor, table: tf.Tensor):
    """Adds row t of a table [T, H] to the rows [S, H] at position t."""
    return self.unpad(self.pad(rows) + table[: self.length])


class TpuRows(PaddedRows):
  """PaddedRows whose attention a TPU computes without copies.

  The dense products of attention have the axes [B, T]. With one axis [S], XLA
  would spend a seventh of a step on copying queries, keys, values and contexts.
  """

  def dense_to_heads(
    self, rows: tf.Tensor, weights: dict[str, tf.Tensor], name: str, heads: int
  ):
    """Computes PaddedRows.dense_to_heads with one einsum."""
    kernel = tf.cast(weights[f"{name}/kernel"], rows.dtype)  # [H, N D]
    kernel = tf.reshape(kernel, [kernel.shape[0], heads, -1])
    bias = tf.cast(weights[f"{name}/bias"], rows.dtype)
    bias = tf.reshape(bias, [heads, 1, -1])
    return tf.einsum("bth,hnd->bntd", self.pad(rows), kernel) + bias

  def dense_of_heads(
    self, x: tf.Tensor, weights: dict[str, tf.Tensor], name: str
  ):
    """Computes PaddedRows.dense_of_heads with one einsum."""
    kernel = tf.cast(weights[f"{name}/kernel"], x.dtype)  # [N D, H]
    kernel = tf.reshape(kernel, [x.shape[1], x.shape[3], -1])
    bias = tf.cast(weights[f"{name}/bias"], x.dtype)
    return self.unpad(tf.einsum("bntd,ndh->bth", x, kernel) + bias)


class TokenRows(_Rows, namedtuple("TokenRows", "position_of row_of is_row")):
  """Rows for the tokens only, in the order of the batch.

  Attributes:
    position_of: int32 [S], the flat position b T + t of each row.
    row_of: int32 [B, T], the row of each position; arbitrary if it has none.
    is_row: bool [B, T], whether the position has a row.
  """

  @classmethod
  def of_mask(cls, input_mask: tf.Tensor) -> "TokenRows":
    """Returns the rows for a mask [B, T]."""
    mask = tf.cast(input_mask, tf.bool)  # [B, T]
    # For the same outputs as PaddedRows, some masked positions need rows: all
    # positions of a sequence without tokens, which attends everywhere, and the
    # first position, [CLS], which heads read even if it is masked.
    is_row = mask | ~tf.reduce_any(mask, axis=1, keepdims=True)
    is_row |= tf.range(tf.shape(mask)[1]) == 0
    # A mask [[1, 1, 0], [1, 0, 0]] gives position_of [0, 1, 3] and row_of
    # [[0, 1, 1], [2, 2, 2]].
    flat = tf.reshape(is_row, [-1])  # [B T]
    position_of = tf.cast(tf.where(flat)[:, 0], tf.int32)  # [S]
    row_of = tf.cumsum(tf.cast(flat, tf.int32)) - 1
    return cls(position_of, tf.reshape(row_of, tf.shape(mask)), is_row)

  # TensorFlow's gradient of a gather sums rows one by one. In this class, each
  # row has one position, so the gradient of `unpad` is `pad`, and vice versa.

  def unpad(self, values: tf.Tensor):
    """Converts values [B, T, ...] to rows [S, ...]."""

    @tf.custom_gradient
    def unpad(values: tf.Tensor) -> tuple:
      flat = tf.reshape(values, [-1, *values.shape[2:]])
      return tf.gather(flat, self.position_of), self.pad

    return unpad(values)

  def pad(self, rows: tf.Tensor):
    """Converts rows [S, H] to [B, T, H]; positions without a row are 0."""

    @tf.custom_gradient
    def pad(rows: tf.Tensor) -> tuple:
      is_row = tf.cast(self.is_row, rows.dtype)[..., tf.newaxis]
      return tf.gather(rows, self.row_of) * is_row, self.unpad

    return pad(rows)

  def add_by_position(self, rows: tf.Tensor, table: tf.Tensor):
    """Adds row t of a table [T, H] to the rows [S, H] at position t."""
    positions = self.position_of % tf.shape(self.row_of)[1]  # [S]
    return rows + kernels.dense_lookup(tf.convert_to_tensor(table), positions)


Rows = PaddedRows | TokenRows


def token_ends(input_mask: tf.Tensor) -> tf.Tensor:
  """Returns int32 [...]: 1 + the last token's position in [..., T], or 0.

  The number of tokens may be smaller, because the mask may have gaps.
  """
  position = tf.range(tf.shape(input_mask)[-1]) + 1
  return tf.reduce_max(tf.where(input_mask > 0, position, 0), axis=-1)
