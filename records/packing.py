"""Packs several short sequences into one row, for steps with a fixed shape.

If XLA compiles the step, all batches are padded to T positions. Packing puts
the sequences of a batch into fewer rows of T positions and computes those. The
examples of a step stay the same, and so do its loss and its gradient: a batch
keeps all of its tensors, and gets one more, the plan of its rows, which
modeling.BertModel.encode follows.

Attention does not cross from one sequence of a row to the next, and positions
count from 0 in each. Dropout draws one number for each position of a row, so
its masks differ from the masks without packing.

Letters: B examples, S sequences of them (an example may have several windows
or endings), T positions of a row, R rows, Q sequences in the fullest row,
P positions that are read, H width.
"""

from typing import NamedTuple

import tensorflow as tf

import layers
import unpadding

# Which sequence is in which row


def lengths_to_pack(input_mask: tf.Tensor, num_groups: int) -> tf.Tensor:
  """Returns int32 [G, S / G], the positions that each sequence takes in a row.

  Args:
    input_mask: integers [B, T], or [B, W, T] for W windows of an example.
      Missing windows of a text take no positions, because their states are not
      read. (Each example has its first window.)
    num_groups: G, the number of equal parts of the batch, which are packed
      separately.
  """
  lengths = unpadding.extents(input_mask)
  if input_mask.shape.rank == 3:
    is_empty = tf.equal(tf.reduce_max(input_mask, axis=-1), 0)
    is_further = tf.range(tf.shape(input_mask)[1]) > 0
    lengths = tf.where(is_empty & is_further, 0, lengths)
  return tf.reshape(lengths, [num_groups, -1])


def first_fit(lengths: tf.Tensor, length: int) -> tuple[tf.Tensor, tf.Tensor]:
  """Packs sequences into the first row with room, longest first.

  First-fit decreasing needs at most 11/9 of the best number of rows, plus 6/9
  (Dósa, "The tight bound of first fit decreasing", 2007).

  Args:
    lengths: int32 [G, S], 0 to T each; the G groups have separate rows.
      Length 0 takes no place; ignore its row and slot.
    length: T.

  Returns:
    [G, S] each: the row of each sequence, and its slot, how many sequences are
    before it in the row.
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
    # The slot counts the sequences that are in the row already.
    slot = tf.reduce_sum(used * chosen, axis=1)
    return (
      number + 1, free - chosen * size, used + chosen,
      rows.write(number, row), slots.write(number, slot),
    )

  # There are as many rows as sequences, in case no two fit into one row.
  nothing = tf.zeros([groups, count], tf.int32)
  places = [tf.TensorArray(tf.int32, count) for _ in range(2)]
  start = [0, nothing + length, nothing, *places]
  *_, rows, slots = tf.while_loop(lambda n, *_: n < count, place, start)
  # The inverse permutation restores the order of the batch.
  back = tf.argsort(order, axis=1)
  return tuple(
    tf.gather(tf.transpose(array.stack()), back, batch_dims=1)
    for array in (rows, slots)
  )


class Packing(NamedTuple):
  """How the batches of a run are packed, all into the same number of rows.

  Attributes:
    rows: R, the number of rows of each part.
    sequences: Q, the number of sequences in the fullest row.
    parts: the number of separately packed parts of a replica's share of a
      batch.
  """

  rows: int
  sequences: int
  parts: int

  def with_plan(self, batch: dict) -> dict:
    """Returns a replica's share of a batch with unpadding.PLAN [parts R, Q].

    The sequences are numbered within a part. The input_mask is [B, T] or
    [B, W, T].
    """
    mask = batch["input_mask"]
    lengths = lengths_to_pack(mask, self.parts)
    rows, slots = first_fit(lengths, mask.shape[-1])
    # [parts, S / parts], like the lengths.
    numbers = tf.zeros_like(lengths) + tf.range(tf.shape(lengths)[1])
    parts = tf.zeros_like(lengths) + tf.range(self.parts)[:, tf.newaxis]
    is_there = lengths > 0
    places = tf.stack([parts, rows, slots], axis=-1)
    plan = tf.tensor_scatter_nd_update(
      tf.fill([self.parts, self.rows, self.sequences], -1),
      tf.boolean_mask(places, is_there), tf.boolean_mask(numbers, is_there),
    )
    plan = tf.reshape(plan, [self.parts * self.rows, self.sequences])
    return {**batch, unpadding.PLAN: plan}


def measure(
  masks: tf.data.Dataset, *, group_size: int, parts: int
) -> Packing | None:
  """Finds how many rows the fullest batch needs.

  Returns None if no batch would be computed in fewer rows.

  Args:
    masks: input_mask, integers [N, T] or [N, W, T], N a multiple of
      group_size, in the order of training.
    group_size: how many consecutive examples are packed together.
    parts: see Packing.
  """

  @tf.autograph.experimental.do_not_convert
  def needed(mask):
    lengths = lengths_to_pack(mask, tf.shape(mask)[0] // group_size)
    rows, slots = first_fit(lengths, tf.shape(mask)[-1])
    is_there = tf.cast(lengths > 0, tf.int32)
    return [
      tf.reduce_max((rows + 1) * is_there),
      tf.reduce_max((slots + 1) * is_there), tf.shape(lengths)[1],
    ]

  demands = masks.map(needed, num_parallel_calls=tf.data.AUTOTUNE)
  # The maxima over batches: rows, sequences in a row, rows without packing.
  rows, sequences, plain_rows = (
    int(max(column)) for column in zip(*demands.as_numpy_iterator())
  )
  return Packing(rows, sequences, parts) if rows < plain_rows else None


def num_positions(batch: dict) -> tf.Tensor:
  """Returns how many positions of a batch are computed, int32."""
  mask = batch["input_mask"]
  if unpadding.PLAN not in batch:
    return tf.size(mask)
  return tf.shape(batch[unpadding.PLAN])[0] * tf.shape(mask)[-1]
