"""Several short sequences in one row, for steps that have one fixed shape.

Where XLA compiles the step, all batches are padded to T positions. Packing lays
the sequences of a batch into fewer rows of T positions and computes those. The
examples of a step stay the same, and so do its loss and its gradient: a batch
keeps all of its tensors, and gets one more, the plan of its rows. Models call
`encode`, which follows the plan if there is one.

Attention does not cross from one sequence of a row to the next, and positions
count from 0 in each. Dropout draws one number for each position of a row, so
its masks are others than without packing.

Letters: B examples, S sequences of them (of windows or endings an example has
several), T positions of a row, R rows, Q sequences in the fullest row,
P positions that are read, H width.
"""

from typing import NamedTuple

import tensorflow as tf

import layers

# The plan in a batch: int32 [R, Q], the numbers of the sequences in each row,
# -1 behind the last. One tensor is enough: how long sequences are, and so
# where they start, follows from input_mask.
PLAN = "packed_rows"


# Which sequence is in which row


def extents(input_mask):
  """Returns how many positions each sequence takes, int32 [...].

  As in modeling.py, a sequence without tokens attends to all T positions, so it
  takes a row for itself.

  Args:
    input_mask: integers [..., T], 1 for tokens.
  """
  last = token_ends(input_mask)
  return tf.where(last > 0, last, tf.shape(input_mask)[-1])


def token_ends(input_mask):
  """Returns the last token's position plus one, int32 [...]; 0 without one.

  Not the number of tokens: some may be masked before the last.

  Args:
    input_mask: integers [..., T], 1 for tokens.
  """
  position = tf.range(tf.shape(input_mask)[-1]) + 1
  return tf.reduce_max(tf.where(input_mask > 0, position, 0), axis=-1)


def lengths_to_pack(input_mask, num_groups):
  """Returns int32 [G, S / G], what the sequences of a batch take of rows.

  Args:
    input_mask: integers [B, T], or [B, W, T] for W windows of an example.
      Windows that a text does not have take nothing: their states are not
      read. (Each example has its first.)
    num_groups: G, in how many equal parts, each packed on its own, the batch
      is cut.
  """
  lengths = extents(input_mask)
  if input_mask.shape.rank == 3:
    is_empty = tf.equal(tf.reduce_max(input_mask, axis=-1), 0)
    is_further = tf.range(tf.shape(input_mask)[1]) > 0
    lengths = tf.where(is_empty & is_further, 0, lengths)
  return tf.reshape(lengths, [num_groups, -1])


def first_fit(lengths, length):
  """Packs sequences, each into the first row with room, the longest first.

  First-fit decreasing needs at most 11/9 of the best number of rows, plus 6/9
  (Dósa, "The tight bound of first fit decreasing", 2007).

  Args:
    lengths: int32 [G, S], 0 to T each; the G groups have rows of their own.
      Length 0 takes no place, and its row and slot mean nothing.
    length: T.

  Returns:
    int32 [G, S] twice: the row of each sequence, and its slot, how many
    sequences are before it in the row.
  """
  lengths = tf.convert_to_tensor(lengths)
  groups, count = layers.sizes(lengths)
  order = tf.argsort(lengths, axis=1, direction="DESCENDING", stable=True)
  ordered = tf.transpose(tf.gather(lengths, order, batch_dims=1))  # [S, G]

  def place(number, free, used, rows, slots):
    size = ordered[number][:, tf.newaxis]  # [G, 1]
    fits = tf.cast(free >= size, tf.int32)
    row = tf.argmax(fits, axis=1, output_type=tf.int32)  # The first of them.
    chosen = tf.one_hot(row, count, dtype=tf.int32)  # [G, S]
    # How many are in that row already.
    slot = tf.reduce_sum(used * chosen, axis=1)
    return (
      number + 1,
      free - chosen * size,
      used + chosen,
      rows.write(number, row),
      slots.write(number, slot),
    )

  # As many rows as sequences, should none fit with another.
  nothing = tf.zeros([groups, count], tf.int32)
  places = [tf.TensorArray(tf.int32, count) for _ in range(2)]
  *_, rows, slots = tf.while_loop(
    lambda number, *_: number < count,
    place,
    [0, nothing + length, nothing, *places],
  )
  # The inverse permutation: to the order of the batch.
  back = tf.argsort(order, axis=1)
  return tuple(
    tf.gather(tf.transpose(found.stack()), back, batch_dims=1)
    for found in (rows, slots)
  )


class Packing(NamedTuple):
  """How the batches of a run are packed: all into the same number of rows.

  Attributes:
    rows: R, of each part.
    sequences: Q, of the fullest row.
    parts: in how many parts, packed each on its own, a replica computes its
      share of a batch.
  """

  rows: int
  sequences: int
  parts: int

  def with_plan(self, batch):
    """Returns a replica's share of a batch with its plan.

    Args:
      batch: dict with input_mask, integers [B, T] or [B, W, T].

    Returns:
      The dict with PLAN [parts R, Q] too; the numbers of sequences are those
      within a part.
    """
    mask = batch["input_mask"]
    lengths = lengths_to_pack(mask, self.parts)
    rows, slots = first_fit(lengths, mask.shape[-1])
    # [parts, S / parts], as the lengths are.
    numbers = tf.zeros_like(lengths) + tf.range(tf.shape(lengths)[1])
    parts = tf.zeros_like(lengths) + tf.range(self.parts)[:, tf.newaxis]
    is_there = lengths > 0
    places = tf.stack([parts, rows, slots], axis=-1)
    plan = tf.tensor_scatter_nd_update(
      tf.fill([self.parts, self.rows, self.sequences], -1),
      tf.boolean_mask(places, is_there),
      tf.boolean_mask(numbers, is_there),
    )
    plan = tf.reshape(plan, [self.parts * self.rows, self.sequences])
    return {**batch, PLAN: plan}


class Measured(NamedTuple):
  """What packing makes of all batches of a run.

  Attributes:
    packing: Packing.
    fill_rate: share of the positions of its rows that hold tokens.
    plain_rows, plain_fill_rate: rows of a part and their share without
      packing.
  """

  packing: Packing
  fill_rate: float
  plain_rows: int
  plain_fill_rate: float

  def __str__(self):
    rows, sequences, parts = self.packing
    return (
      f"{rows * parts} rows on each device instead of "
      f"{self.plain_rows * parts}, with at most {sequences} sequences; fill "
      f"rate {self.fill_rate:.3f} instead of {self.plain_fill_rate:.3f}"
    )


def measure(masks, *, group_size, parts):
  """Finds how many rows the fullest batch needs.

  Args:
    masks: dataset of input_mask, integers [N, T] or [N, W, T], N a multiple
      of group_size, in the order of training.
    group_size: how many examples in a row are packed on their own.
    parts: see Packing.

  Returns:
    Measured; None if no batch would be computed in fewer rows.
  """

  @tf.autograph.experimental.do_not_convert
  def needed(mask):
    groups = tf.shape(mask)[0] // group_size
    length = tf.shape(mask)[-1]
    lengths = lengths_to_pack(mask, groups)
    rows, slots = first_fit(lengths, length)
    is_there = tf.cast(lengths > 0, tf.int32)
    # What the fullest of all batches needs: rows, sequences in a row, rows
    # without packing, positions in a row.
    largest = [
      tf.reduce_max((rows + 1) * is_there),
      tf.reduce_max((slots + 1) * is_there),
      tf.shape(lengths)[1],
      length,
    ]
    tokens = tf.math.count_nonzero(mask)
    return tf.stack(largest), tf.stack([tokens, tf.cast(groups, tf.int64)])

  found = list(
    masks.map(needed, num_parallel_calls=tf.data.AUTOTUNE).as_numpy_iterator()
  )
  rows, sequences, plain_rows, length = (
    int(max(column)) for column in zip(*(largest for largest, _ in found))
  )
  tokens, groups = (sum(column) for column in zip(*(sums for _, sums in found)))
  if rows >= plain_rows:
    return None
  return Measured(
    Packing(rows, sequences, parts),
    fill_rate=float(tokens / (groups * rows * length)),
    plain_rows=plain_rows,
    plain_fill_rate=float(tokens / (groups * plain_rows * length)),
  )


def num_positions(batch):
  """Returns how many positions are computed of a batch, an int32 scalar."""
  mask = batch["input_mask"]
  if PLAN not in batch:
    return tf.size(mask)
  return tf.shape(batch[PLAN])[0] * tf.shape(mask)[-1]


# Through the rows


class _Rows(NamedTuple):
  """Where the S sequences [S, T] of a batch are in its rows [R, T].

  Attributes:
    plan: int32 [R, Q], see PLAN.
    starts: int32 [R, Q], where each of them starts.
    extents: int32 [S], how many positions each sequence takes.
    slot_of: int32 [R, T], which of a row's sequences a position is in; Q
      behind the last.
    sources: int32 [R, T], where in flat [S, T] each position comes from.
    places: int32 [S], where in flat [R, Q] each sequence is.
  """

  plan: tf.Tensor
  starts: tf.Tensor
  extents: tf.Tensor
  slot_of: tf.Tensor
  sources: tf.Tensor
  places: tf.Tensor

  @classmethod
  def of_plan(cls, plan, input_mask):
    """Makes it of a plan [R, Q] and input_mask, integers [S, T]."""
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

  def is_used(self):
    """Returns bool [R, T], False behind the last sequence of a row."""
    return self.slot_of < tf.shape(self.plan)[1]

  def take(self, values):
    """Returns integers [R, T] of [S, T], 0 where there is no sequence."""
    taken = tf.gather(tf.reshape(values, [-1]), self.sources)
    return tf.where(self.is_used(), taken, 0)

  def attention_mask(self, input_mask):
    """Returns bool [R, F, T]: each position sees its sequence's tokens."""
    is_token = self.take(input_mask) > 0
    slot = self.slot_of[:, tf.newaxis]
    is_same = tf.equal(tf.transpose(slot, [0, 2, 1]), slot)
    return is_same & is_token[:, tf.newaxis]

  def positions(self, positions):
    """Returns int32 [R, Q, P], where in the rows positions [S, P] are."""
    number = tf.maximum(self.plan, 0)
    # Of a record's unused predictions nothing is read: they stay in range.
    last = self.extents[:, tf.newaxis] - 1
    within = tf.minimum(tf.cast(positions, tf.int32), last)
    found = tf.gather(within, number) + self.starts[:, :, tf.newaxis]
    return tf.where(self.plan[:, :, tf.newaxis] >= 0, found, 0)

  def restore(self, states):
    """Returns [S, T, H] of the rows' states [R, T, H], zeros for padding."""
    length = layers.sizes(states)[1]
    position = tf.range(length)
    is_inside = position < self.extents[:, tf.newaxis]
    first = self.places // tf.shape(self.plan)[1] * length
    first += tf.gather(tf.reshape(self.starts, [-1]), self.places)
    numbers = tf.where(is_inside, first[:, tf.newaxis] + position, 0)
    found = layers.collect(
      states, numbers, self.sources, self.is_used()[:, :, tf.newaxis]
    )
    return found * tf.cast(is_inside[:, :, tf.newaxis], states.dtype)

  def restore_slots(self, states):
    """Returns [S, D] of what was computed for each slot, [R, Q, D]."""
    is_there = self.plan[:, :, tf.newaxis] >= 0
    number = tf.maximum(self.plan, 0)
    return layers.collect(states, self.places, number, is_there)


def encode(encoder, batch, dropout_seed=None, *, positions=None):
  """Encodes a batch, in rows if it has a plan: see modeling.BertModel.encode.

  Args:
    encoder: modeling.BertModel.
    batch: dict of input_ids, input_mask and segment_ids, int32 [S, T]; with
      PLAN, they are computed in its rows.
    dropout_seed: int32 [2] in training, else None.
    positions: integers [S, P], the tokens whose states are needed, 0 first
      where the pooled output is; None for all.

  Returns:
    modeling.BertOutput. With a plan, sequence_output ([S, T, H], zeros for
    padding, or [S, P, H]) and pooled_output are those of the sequences, and
    everything else is of the rows.
  """
  if PLAN not in batch:
    return encoder.encode(batch, dropout_seed, positions=positions)
  rows = _Rows.of_plan(batch[PLAN], batch["input_mask"])
  count, length = layers.sizes(batch["input_ids"])
  own_positions = tf.zeros([count, 1], tf.int32) + tf.range(length)
  needed = None
  if positions is not None:
    places = rows.positions(positions)  # [R, Q, P]
    num_rows, fullest, read = layers.sizes(places)
    # More than the row has, where its sequences are short: then all of it.
    if fullest * read < length:
      needed = tf.reshape(places, [num_rows, fullest * read])
  output = encoder(
    rows.take(batch["input_ids"]),
    rows.attention_mask(batch["input_mask"]),
    rows.take(batch["segment_ids"]),
    training=dropout_seed is not None,
    dropout_seed=dropout_seed,
    position_ids=rows.take(own_positions),
    positions=needed,
  )
  states = output.sequence_output
  if positions is None:
    states = rows.restore(states)
  else:
    if needed is None:
      places = tf.reshape(places, [num_rows, fullest * read])
      states = tf.gather(states, places, batch_dims=1)
    width = states.shape[-1]
    states = tf.reshape(states, [num_rows, fullest, read * width])
    states = tf.reshape(rows.restore_slots(states), [count, read, width])
  return output._replace(
    sequence_output=states, pooled_output=encoder.pool(states[:, 0])
  )
