"""Computes tokens and not padding.

A batch is [B, T], and the layers compute rows [S, H]:

  PaddedRows   every position, padding included: S = B T
  TokenRows    tokens alone: everything but attention leaves padding out

XLA needs one shape for all batches. There, PackedBatch moves several sequences
into one of the network's sequences of T positions before anything is computed.

docs/padding.md lists the cases in which padding is computed after all. The
letters in the shapes are those of modeling.py; packing has R rows of T
positions, and Q sequences in the fullest row.
"""

from collections import namedtuple
from typing import NamedTuple

import tensorflow as tf

import layers

# The plan in a batch: int32 [R, Q], the numbers of the sequences in each row,
# -1 behind the last. One tensor is enough: how long sequences are, and so
# where they start, follows from input_mask.
PLAN = "packed_rows"


class PaddedRows(namedtuple("PaddedRows", "batch_size length")):
  """Every position is a row, padding included: S = B T, in order.

  Like TokenRows a tuple of tensors, which can be an argument of tf.functions.
  """

  @classmethod
  def like(cls, ids) -> "PaddedRows":
    """Returns the rows of a batch with the sizes [B, T] of `ids`."""
    return cls(*layers.sizes(ids))

  def unpad(self, values):
    """Returns the values [S] of the rows, from [B, T]."""
    return tf.reshape(values, [-1])

  def pad(self, rows):
    """Returns [B, T, H] of rows [S, H]; zeros where a position has no row."""
    return tf.reshape(rows, [self.batch_size, self.length, rows.shape[-1]])

  def pick(self, rows, positions):
    """Returns rows [B P, H] at positions [B, P], of rows [S, H]."""
    states = tf.gather(self.pad(rows), positions, batch_dims=1)  # [B, P, H]
    return tf.reshape(states, [-1, rows.shape[-1]])

  def add_by_position(self, rows, table):
    """Returns rows [S, H] plus row t of a table [T, H] at each position t."""
    added = self.pad(rows) + table[: self.length]  # [B, T, H]
    return tf.reshape(added, [-1, rows.shape[-1]])

  def split_heads(self, rows, heads):
    """Returns [B, N, T, D], for attention, of rows [S, H]."""
    shape = [self.batch_size, self.length, heads, rows.shape[-1] // heads]
    return tf.transpose(tf.reshape(rows, shape), [0, 2, 1, 3])

  def join_heads(self, x):
    """Returns rows [S, H] of [B, N, T, D]: the reverse of `split_heads`."""
    joined = tf.transpose(x, [0, 2, 1, 3])  # [B, T, N, D]
    return tf.reshape(joined, [-1, x.shape[1] * x.shape[3]])


class TokenRows(
  namedtuple("TokenRows", "places numbers is_row to_heads from_heads")
):
  """Only the tokens are rows, in the order of the batch.

  Its methods are those of PaddedRows. At a padding position, attention sees a
  copy of some token, which its mask hides: no number of a token changes.

  Attributes:
    places: int32 [S], b T + t of each row.
    numbers: int32 [B, T], the row of each position; of padding, some row.
    is_row: bool [B, T], False for padding.
    to_heads: int32 [B, N, T], where D numbers of a head are in [S N, D].
    from_heads: int32 [S, N], where they are in [B N T, D].
  """

  @classmethod
  def of_mask(cls, input_mask: tf.Tensor, heads: int) -> "TokenRows":
    """Makes it of a mask [B, T] and the number of attention heads."""
    mask = tf.cast(input_mask, tf.bool)  # [B, T]
    # To equal the padded numbers, two things are computed besides the tokens:
    # a sequence without tokens, which attends to all its positions, and the
    # first position, [CLS], which heads read even where it is masked.
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
      places=places, numbers=numbers, is_row=is_row,
      to_heads=numbers[:, tf.newaxis] * heads + head[:, tf.newaxis],
      from_heads=first + position[:, tf.newaxis],
    )

  def unpad(self, values):
    return tf.gather(tf.reshape(values, [-1]), self.places)

  def pad(self, rows):
    is_row = self.is_row[..., tf.newaxis]
    return _spread(rows, self.numbers, is_row, self.places)

  def pick(self, rows, positions):
    numbers = tf.gather(self.numbers, positions, batch_dims=1)  # [B, P]
    return tf.gather(rows, tf.reshape(numbers, [-1]))

  def add_by_position(self, rows, table):
    positions = self.places % tf.shape(self.numbers)[1]  # [S]
    return rows + layers.dense_lookup(tf.convert_to_tensor(table), positions)

  def split_heads(self, rows, heads):
    parts = tf.reshape(rows, [-1, rows.shape[-1] // heads])  # [S N, D]
    return _spread(parts, self.to_heads, None, self.from_heads)

  def join_heads(self, x):
    is_row = self.is_row[:, tf.newaxis, :, tf.newaxis]
    joined = _collect(x, self.from_heads, self.to_heads, is_row)  # [S, N, D]
    return tf.reshape(joined, [-1, x.shape[1] * x.shape[3]])


Rows = PaddedRows | TokenRows


def _spread(rows, numbers, is_row, places):
  """Gathers rows [M, D] to more places than there are rows, [..., T, D].

  TensorFlow's gradient of a gather adds rows up, one by one. Each row has one
  place of its own here, and the gradient of all other places is 0: where
  is_row is None because attention's mask hides them. So a gather will do.

  Args:
    numbers: int32 [..., T], the row of each place.
    is_row: bool [..., T, 1], False where zeros are to be; None to leave a copy
      of some row there.
    places: int32 with M elements: in flat [..., T], each row's own place.
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


def _collect(x, places, numbers, is_row):
  """Gathers each row's own place of x [..., T, D]: the reverse of `_spread`.

  The places may have any shape; is_row is False for those of no row (gradient
  0). Returns [..., D], in the shape of `places`.
  """

  @tf.custom_gradient
  def collect(x):
    def gradient(upstream):
      rows = tf.reshape(upstream, [-1, x.shape[-1]])
      return tf.gather(rows, numbers) * tf.cast(is_row, x.dtype)

    return tf.gather(tf.reshape(x, [-1, x.shape[-1]]), places), gradient

  return collect(x)


# Several sequences in a row of T positions, which the network takes for one
# sequence: B sequences in R rows, Q of them in the fullest.


def extents(input_mask: tf.Tensor) -> tf.Tensor:
  """Returns how many positions each sequence takes, int32 [...] of [..., T].

  One without tokens attends to all T positions: it takes a row for itself.
  """
  last = token_ends(input_mask)
  return tf.where(last > 0, last, tf.shape(input_mask)[-1])


def token_ends(input_mask: tf.Tensor) -> tf.Tensor:
  """Returns the last token's position plus one, int32 [...] of [..., T], or 0.

  Not the number of tokens: some may be masked before the last.
  """
  position = tf.range(tf.shape(input_mask)[-1]) + 1
  return tf.reduce_max(tf.where(input_mask > 0, position, 0), axis=-1)


class PackedBatch(NamedTuple):
  """Where the sequences [B, T] of a batch are in its packed rows [R, T].

  Attributes:
    plan: int32 [R, Q], see PLAN.
    starts: int32 [R, Q], where each of them starts.
    extents: int32 [B], how many positions each sequence takes.
    slot_of: int32 [R, T], which of a row's sequences a position is in; Q
      behind the last.
    sources: int32 [R, T], where in flat [B, T] each position comes from.
    places: int32 [B], where in flat [R, Q] each sequence is.
  """

  plan: tf.Tensor
  starts: tf.Tensor
  extents: tf.Tensor
  slot_of: tf.Tensor
  sources: tf.Tensor
  places: tf.Tensor

  @classmethod
  def of_batch(cls, batch: dict[str, tf.Tensor]) -> "PackedBatch":
    """Makes it of a batch with a PLAN, and input_mask, integers [B, T]."""
    plan, input_mask = batch[PLAN], batch["input_mask"]
    count, length = layers.sizes(input_mask)
    num_rows, fullest = layers.sizes(plan)
    sizes = extents(input_mask)
    is_there = plan >= 0
    number = tf.maximum(plan, 0)
    taken = tf.where(is_there, tf.gather(sizes, number), 0)  # [R, Q]
    starts = tf.cumsum(taken, axis=1, exclusive=True)
    ends = (starts + taken)[:, tf.newaxis]  # [R, 1, Q]
    position = tf.range(length)
    behind = tf.cast(ends <= position[:, tf.newaxis], tf.int32)  # [R, T, Q]
    slot_of = tf.reduce_sum(behind, axis=2)
    slot = tf.minimum(slot_of, fullest - 1)
    sources = position - tf.gather(starts, slot, batch_dims=1)
    sources += tf.gather(number, slot, batch_dims=1) * length
    # The slots that hold nothing are those of a sequence behind the last.
    owners = tf.reshape(tf.where(is_there, plan, count), [-1])
    places = tf.math.unsorted_segment_max(
      tf.range(num_rows * fullest), owners, count + 1
    )
    return cls(
      plan=plan,
      starts=starts,
      extents=sizes,
      slot_of=slot_of,
      sources=tf.where(slot_of < fullest, sources, 0),
      # Sequences that are in no row: any place will do.
      places=tf.maximum(places[:count], 0),
    )

  def is_used(self) -> tf.Tensor:
    """Returns bool [R, T], False behind the last sequence of a row."""
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
    """Returns integers [R, T] of [B, T], 0 where there is no sequence."""
    taken = tf.gather(tf.reshape(values, [-1]), self.sources)
    return tf.where(self.is_used(), taken, 0)

  def attention_mask(self, input_mask: tf.Tensor) -> tf.Tensor:
    """Returns bool [R, F, T]: each position sees its sequence's tokens."""
    is_token = self._pack(input_mask) > 0
    slot = self.slot_of[:, tf.newaxis]
    is_same = tf.equal(tf.transpose(slot, [0, 2, 1]), slot)
    return is_same & is_token[:, tf.newaxis]

  def _places(self, positions):
    """Returns int32 [R, Q, P], where in the rows positions [B, P] are."""
    number = tf.maximum(self.plan, 0)
    # A record's unused predictions are not read: they stay in range.
    last = self.extents[:, tf.newaxis] - 1
    within = tf.minimum(tf.cast(positions, tf.int32), last)
    places = tf.gather(within, number) + self.starts[:, :, tf.newaxis]
    return tf.where(self.plan[:, :, tf.newaxis] >= 0, places, 0)

  def positions_computed(self, positions) -> tf.Tensor | None:
    """Returns int32 [R, Q P] of positions [B, P]: what the rows must compute.

    None for all of [R, T]: without positions, and where Q P is not less.
    """
    if positions is None:
      return None
    num_rows, fullest = layers.sizes(self.plan)
    count = fullest * layers.sizes(positions)[1]
    if count >= layers.sizes(self.slot_of)[1]:
      return None
    return tf.reshape(self._places(positions), [num_rows, count])

  def unpack(self, states: tf.Tensor) -> tf.Tensor:
    """Returns [B, T, H] of the rows' states [R, T, H], zeros for padding."""
    length = layers.sizes(states)[1]
    position = tf.range(length)
    is_inside = position < self.extents[:, tf.newaxis]
    first = self.places // tf.shape(self.plan)[1] * length
    first += tf.gather(tf.reshape(self.starts, [-1]), self.places)
    numbers = tf.where(is_inside, first[:, tf.newaxis] + position, 0)
    unpacked = _collect(
      states, numbers, self.sources, self.is_used()[:, :, tf.newaxis]
    )
    return unpacked * tf.cast(is_inside[:, :, tf.newaxis], states.dtype)

  def unpack_positions(self, states: tf.Tensor, positions) -> tf.Tensor:
    """Returns [B, P, H] at positions [B, P], of what the rows computed.

    `states` are [R, Q P, H], or [R, T, H]; see `positions_computed`.
    """
    num_rows, fullest = layers.sizes(self.plan)
    count, width = layers.sizes(positions)[1], states.shape[-1]
    if self.positions_computed(positions) is None:
      places = tf.reshape(self._places(positions), [num_rows, fullest * count])
      states = tf.gather(states, places, batch_dims=1)
    states = tf.reshape(states, [num_rows, fullest, count * width])
    is_there = self.plan[:, :, tf.newaxis] >= 0
    number = tf.maximum(self.plan, 0)
    states = _collect(states, self.places, number, is_there)
    return tf.reshape(states, [-1, count, width])
