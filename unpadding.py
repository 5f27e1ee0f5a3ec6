"""Which rows of a batch are computed, and where in the batch they lie.

A batch is [B, T], and the layers compute rows [S, H]:

  PaddedRows   every position, padding included: S = B T
  TokenRows    tokens alone: everything but attention leaves padding out
  PickedRows   some positions of each sequence: the last layer, for its heads

Where XLA wants one shape, sequences are moved before all that: several into one
of the network's sequences of T positions, see PackedBatch.

docs/padding.md lists what else keeps padding from being computed. The letters
in the shapes are those of modeling.py, and for packing R rows of T positions, Q
sequences in the fullest row.
"""

from collections import namedtuple
from typing import NamedTuple

import tensorflow as tf

import layers

# The plan in a batch: int32 [R, Q], the numbers of the sequences in each row,
# -1 behind the last. One tensor is enough: how long sequences are, and so
# where they start, follows from input_mask.
PLAN = "packed_rows"


class Rows:
  """What leads from a batch to its rows, and back.

  Every kind has

    restore(rows)                 [B, T, H] of rows [S, H], zeros for padding
                                  where that is no row
    split_heads(rows, heads)      [B, N, T, D] of rows [S, H]
    join_heads(x)                 rows [S, H] of [B, N, T, D]
    select, select_bias           below: which of another kind's rows attend

  and all but PickedRows, which no later layer reads,

    take(values)                  values [S] of the rows, from [B, T]
    pick(rows, positions)         rows [B P, H], at positions [B, P] of tokens
    add_by_position(rows, table)  rows [S, H] plus row t of a table [T, H] for
                                  each position t

  Kinds are tuples of tensors, which functions of TensorFlow can take.
  """

  def select(self, rows: tf.Tensor, source: "Rows") -> tf.Tensor:
    """Returns the rows that attend, of the source's: all of them."""
    del source
    return rows

  def select_bias(self, bias):
    """Returns the bias [B, 1, F or 1, T] of the rows that attend."""
    return bias


class PaddedRows(Rows, namedtuple("PaddedRows", "batch_size length")):
  """Every position is a row, padding included: S = B T, in order."""

  def take(self, values):
    return tf.reshape(values, [-1])

  def restore(self, rows):
    return tf.reshape(rows, [self.batch_size, self.length, rows.shape[-1]])

  def pick(self, rows, positions):
    states = tf.gather(self.restore(rows), positions, batch_dims=1)  # [B, P, H]
    return tf.reshape(states, [-1, rows.shape[-1]])

  def add_by_position(self, rows, table):
    added = self.restore(rows) + table[: self.length]  # [B, T, H]
    return tf.reshape(added, [-1, rows.shape[-1]])

  def split_heads(self, rows, heads):
    shape = [self.batch_size, self.length, heads, rows.shape[-1] // heads]
    return tf.transpose(tf.reshape(rows, shape), [0, 2, 1, 3])

  def join_heads(self, x):
    joined = tf.transpose(x, [0, 2, 1, 3])  # [B, T, N, D]
    return tf.reshape(joined, [-1, x.shape[1] * x.shape[3]])


class TokenRows(
  Rows, namedtuple("TokenRows", "places numbers is_row to_heads from_heads")
):
  """Only the tokens are rows, in the order of the batch.

  Everything but attention runs on S rows, and attention finds at a padding
  position a copy of some token, which its mask hides. So no number of a token
  changes.

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

  def take(self, values):
    return tf.gather(tf.reshape(values, [-1]), self.places)

  def restore(self, rows):
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


class PickedRows(Rows, namedtuple("PickedRows", "positions")):
  """Rows of some positions: what the last layer computes if no more is read.

  They attend to all tokens, and no later layer attends to them; `restore` gives
  [B, P, H].

  Attributes:
    positions: int32 [B, P].
  """

  def select(self, rows, source):
    return source.pick(rows, self.positions)

  def select_bias(self, bias):
    if bias is None or bias.shape[2] == 1:
      return bias
    places = self.positions[:, tf.newaxis]
    return tf.gather(bias, places, axis=2, batch_dims=2)

  @property
  def _grid(self):
    return PaddedRows(*layers.sizes(self.positions))

  def restore(self, rows):
    return self._grid.restore(rows)

  def split_heads(self, rows, heads):
    return self._grid.split_heads(rows, heads)

  def join_heads(self, x):
    return self._grid.join_heads(x)


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
  def of_plan(cls, plan: tf.Tensor, input_mask) -> "PackedBatch":
    """Makes it of a plan [R, Q] and input_mask, integers [B, T]."""
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

  def take(self, values: tf.Tensor) -> tf.Tensor:
    """Returns integers [R, T] of [B, T], 0 where there is no sequence."""
    taken = tf.gather(tf.reshape(values, [-1]), self.sources)
    return tf.where(self.is_used(), taken, 0)

  def attention_mask(self, input_mask: tf.Tensor) -> tf.Tensor:
    """Returns bool [R, F, T]: each position sees its sequence's tokens."""
    is_token = self.take(input_mask) > 0
    slot = self.slot_of[:, tf.newaxis]
    is_same = tf.equal(tf.transpose(slot, [0, 2, 1]), slot)
    return is_same & is_token[:, tf.newaxis]

  def positions(self, positions: tf.Tensor) -> tf.Tensor:
    """Returns int32 [R, Q, P], where in the rows positions [B, P] are."""
    number = tf.maximum(self.plan, 0)
    # Of a record's unused predictions nothing is read: they stay in range.
    last = self.extents[:, tf.newaxis] - 1
    within = tf.minimum(tf.cast(positions, tf.int32), last)
    found = tf.gather(within, number) + self.starts[:, :, tf.newaxis]
    return tf.where(self.plan[:, :, tf.newaxis] >= 0, found, 0)

  def restore(self, states: tf.Tensor) -> tf.Tensor:
    """Returns [B, T, H] of the rows' states [R, T, H], zeros for padding."""
    length = layers.sizes(states)[1]
    position = tf.range(length)
    is_inside = position < self.extents[:, tf.newaxis]
    first = self.places // tf.shape(self.plan)[1] * length
    first += tf.gather(tf.reshape(self.starts, [-1]), self.places)
    numbers = tf.where(is_inside, first[:, tf.newaxis] + position, 0)
    found = _collect(
      states, numbers, self.sources, self.is_used()[:, :, tf.newaxis]
    )
    return found * tf.cast(is_inside[:, :, tf.newaxis], states.dtype)

  def restore_slots(self, states: tf.Tensor) -> tf.Tensor:
    """Returns [B, D] of what was computed for each slot, [R, Q, D]."""
    is_there = self.plan[:, :, tf.newaxis] >= 0
    number = tf.maximum(self.plan, 0)
    return _collect(states, self.places, number, is_there)


def encode_packed(
  encoder, batch: dict[str, tf.Tensor], dropout_seed=None, *, positions=None
):
  """Encodes a batch in the rows of its plan, for modeling.BertModel.encode.

  Returns:
    modeling.BertOutput, whose sequence_output ([B, T, H], zeros for padding, or
    [B, P, H]) and pooled_output are those of the sequences, and without
    positions the states of all layers; everything else is of the rows.
  """
  packed = PackedBatch.of_plan(batch[PLAN], batch["input_mask"])
  count, length = layers.sizes(batch["input_ids"])
  own_positions = tf.zeros([count, 1], tf.int32) + tf.range(length)
  needed = None
  if positions is not None:
    places = packed.positions(positions)  # [R, Q, P]
    num_rows, fullest, read = layers.sizes(places)
    # More than the row has, where its sequences are short: then all of it.
    if fullest * read < length:
      needed = tf.reshape(places, [num_rows, fullest * read])
  output = encoder(
    packed.take(batch["input_ids"]), packed.attention_mask(batch["input_mask"]),
    packed.take(batch["segment_ids"]), training=dropout_seed is not None,
    dropout_seed=dropout_seed, position_ids=packed.take(own_positions),
    positions=needed,
  )
  states = output.sequence_output
  if positions is None:
    restored = tuple(map(packed.restore, output.all_encoder_layers))
    output = output._replace(all_encoder_layers=restored)
    states = packed.restore(states)
    pooled = encoder.pooled_states(states, batch["input_mask"])
  else:
    if needed is None:
      places = tf.reshape(places, [num_rows, fullest * read])
      states = tf.gather(states, places, batch_dims=1)
    width = states.shape[-1]
    states = tf.reshape(states, [num_rows, fullest, read * width])
    states = tf.reshape(packed.restore_slots(states), [count, read, width])
    pooled = states[:, 0]
  return output._replace(
    sequence_output=states, pooled_output=encoder.pool(pooled)
  )
