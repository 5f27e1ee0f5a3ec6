"""Skips padding, so that the layers compute only tokens.

A batch is [B, T], and the layers compute rows [S, H]:

  PaddedRows   every position, padding included: S = B T; TpuRows on a TPU
  TokenRows    only tokens: everything but attention leaves padding out

XLA needs one shape for all batches. For XLA, PackedBatch packs sequences into
rows of T positions, and the network computes each row as one sequence.

docs/padding.md lists the cases in which padding is still computed. Shapes use
the letters of modeling.py; packing has R rows of T positions, and Q sequences
in the fullest row.
"""

from collections import namedtuple
from typing import NamedTuple

import tensorflow as tf

import layers

# The key of a batch's packing plan: int32 [R, Q], the numbers of the sequences
# in each row, -1 after the last. One tensor is enough: input_mask determines
# how long sequences are, and so where they start.
PLAN = "packed_rows"


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


# Packing: B sequences are packed into R rows of T positions, Q of them in the
# fullest row, and the network computes each row as one sequence.


def extents(input_mask: tf.Tensor) -> tf.Tensor:
  """Returns int32 [...], how many positions each sequence of [..., T] takes.

  A sequence without tokens attends to all T positions: it takes a whole row.
  """
  last = token_ends(input_mask)
  return tf.where(last > 0, last, tf.shape(input_mask)[-1])


def token_ends(input_mask: tf.Tensor) -> tf.Tensor:
  """Returns int32 [...], the last token's position in [..., T] plus 1, or 0.

  The number of tokens may be less: some may be masked before the last.
  """
  position = tf.range(tf.shape(input_mask)[-1]) + 1
  return tf.reduce_max(tf.where(input_mask > 0, position, 0), axis=-1)


class PackedBatch(NamedTuple):
  """Maps the sequences [B, T] of a batch to its packed rows [R, T].

  Attributes:
    plan: int32 [R, Q], see PLAN.
    starts: int32 [R, Q], the first position of each sequence in its row.
    extents: int32 [B], how many positions each sequence takes.
    slot_of: int32 [R, T], the index of a position's sequence in its row; Q
      after the last sequence.
    sources: int32 [R, T], the index in flat [B, T] of each position.
    flat_slots: int32 [B], the index in flat [R, Q] of each sequence.
  """

  plan: tf.Tensor
  starts: tf.Tensor
  extents: tf.Tensor
  slot_of: tf.Tensor
  sources: tf.Tensor
  flat_slots: tf.Tensor

  @classmethod
  def of_batch(cls, batch: dict[str, tf.Tensor]) -> "PackedBatch":
    """Maps a batch that has a PLAN and input_mask, integers [B, T]."""
    plan, input_mask = batch[PLAN], batch["input_mask"]
    count, length = layers.sizes(input_mask)
    num_rows, fullest = layers.sizes(plan)
    sizes = extents(input_mask)
    is_there = plan >= 0
    sequence = tf.maximum(plan, 0)
    taken = tf.where(is_there, tf.gather(sizes, sequence), 0)  # [R, Q]
    starts = tf.cumsum(taken, axis=1, exclusive=True)
    ends = (starts + taken)[:, tf.newaxis]  # [R, 1, Q]
    position = tf.range(length)
    # A position's slot is the number of sequences that end before it.
    is_behind = tf.cast(ends <= position[:, tf.newaxis], tf.int32)  # [R, T, Q]
    slot_of = tf.reduce_sum(is_behind, axis=2)
    slot = tf.minimum(slot_of, fullest - 1)
    sources = position - tf.gather(starts, slot, batch_dims=1)
    sources += tf.gather(sequence, slot, batch_dims=1) * length
    # Empty slots are assigned to an extra sequence after the last.
    owners = tf.reshape(tf.where(is_there, plan, count), [-1])
    flat_slots = tf.math.unsorted_segment_max(
      tf.range(num_rows * fullest), owners, count + 1
    )
    return cls(
      plan=plan,
      starts=starts,
      extents=sizes,
      slot_of=slot_of,
      sources=tf.where(slot_of < fullest, sources, 0),
      # Sequences without a row get slot 0: nothing reads it.
      flat_slots=tf.maximum(flat_slots[:count], 0),
    )

  def is_used(self) -> tf.Tensor:
    """Returns bool [R, T], False after the last sequence of a row."""
    return self.slot_of < tf.shape(self.plan)[1]

  def inputs(self, batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns the arguments of BertModel: integers [R, T], mask [R, F, T]."""
    positions = tf.zeros_like(batch["input_ids"]) + tf.range(
      layers.sizes(batch["input_ids"])[1]
    )
    return {
      "input_ids": self._pack(batch["input_ids"]),
      "input_mask": self.attention_mask(batch["input_mask"]),
      "token_type_ids": self._pack(batch["segment_ids"]),
      "position_ids": self._pack(positions),
    }

  def _pack(self, values):
    """Packs integers [B, T] into [R, T]; unused positions become 0."""
    taken = tf.gather(tf.reshape(values, [-1]), self.sources)
    return tf.where(self.is_used(), taken, 0)

  def attention_mask(self, input_mask: tf.Tensor) -> tf.Tensor:
    """Returns bool [R, F, T]: a position attends to its sequence's tokens."""
    is_token = self._pack(input_mask) > 0
    slot = self.slot_of[:, tf.newaxis]
    is_same = tf.equal(tf.transpose(slot, [0, 2, 1]), slot)
    return is_same & is_token[:, tf.newaxis]

  def _packed_positions(self, positions):
    """Returns int32 [R, Q, P], positions [B, P] in the packed rows."""
    sequence = tf.maximum(self.plan, 0)
    # Unused masked-LM positions may lie behind the tokens: keep them in range.
    last = self.extents[:, tf.newaxis] - 1
    within = tf.minimum(tf.cast(positions, tf.int32), last)
    packed = tf.gather(within, sequence) + self.starts[:, :, tf.newaxis]
    return tf.where(self.plan[:, :, tf.newaxis] >= 0, packed, 0)

  def positions_computed(self, positions) -> tf.Tensor | None:
    """Returns int32 [R, Q P], positions [B, P] in the packed rows.

    Returns None, for all of [R, T], without positions or if Q P >= T, where
    computing all is as cheap.
    """
    if positions is None:
      return None
    num_rows, fullest = layers.sizes(self.plan)
    count = fullest * layers.sizes(positions)[1]
    if count >= layers.sizes(self.slot_of)[1]:
      return None
    packed = self._packed_positions(positions)
    return tf.reshape(packed, [num_rows, count])

  def unpack(self, states: tf.Tensor) -> tf.Tensor:
    """Unpacks the rows' states [R, T, H] to [B, T, H], zeros for padding."""
    length = layers.sizes(states)[1]
    position = tf.range(length)
    is_inside = position < self.extents[:, tf.newaxis]
    first = self.flat_slots // tf.shape(self.plan)[1] * length
    first += tf.gather(tf.reshape(self.starts, [-1]), self.flat_slots)
    packed = tf.where(is_inside, first[:, tf.newaxis] + position, 0)
    unpacked = _collect(
      states, packed, self.sources, self.is_used()[:, :, tf.newaxis]
    )
    return unpacked * tf.cast(is_inside[:, :, tf.newaxis], states.dtype)

  def unpack_positions(self, states: tf.Tensor, positions) -> tf.Tensor:
    """Unpacks the rows' states to [B, P, H], at positions [B, P].

    `states` are [R, Q P, H], or [R, T, H]; see `positions_computed`.
    """
    num_rows, fullest = layers.sizes(self.plan)
    count, width = layers.sizes(positions)[1], states.shape[-1]
    if self.positions_computed(positions) is None:
      packed = self._packed_positions(positions)  # [R, Q, P]
      packed = tf.reshape(packed, [num_rows, fullest * count])
      states = tf.gather(states, packed, batch_dims=1)
    states = tf.reshape(states, [num_rows, fullest, count * width])
    is_there = self.plan[:, :, tf.newaxis] >= 0
    sequence = tf.maximum(self.plan, 0)
    states = _collect(states, self.flat_slots, sequence, is_there)
    return tf.reshape(states, [-1, count, width])
