"""graph_inputs.py: what input_sequences.py does, for whole batches."""

import tensorflow as tf

from serving import graph_inputs
from text import input_sequences

SPECIAL = {"cls_id": 1, "sep_id": 2}


def ids(*lengths):
  """Ragged ids 10, 11, ... of rows of these lengths."""
  return tf.ragged.constant(
    [[10 + i for i in range(length)] for length in lengths],
    dtype=tf.int32,
    ragged_rank=1,
    row_splits_dtype=tf.int64,
  )


def expected(row_a, row_b=None):
  return input_sequences.build_inputs(row_a, row_b, cls_id=1, sep_id=2)


def check(inputs, rows):
  """Compares ModelInputs with (ids, segments) of each row."""
  longest = max(len(row) for row, _ in rows)
  assert inputs.input_ids.shape == (len(rows), longest)
  for number, (row, segments) in enumerate(rows):
    assert inputs.input_ids[number].numpy().tolist() == input_sequences.pad(
      row, longest
    )
    assert inputs.segment_ids[number].numpy().tolist() == input_sequences.pad(
      segments, longest
    )
    assert inputs.input_mask[number].numpy().tolist() == input_sequences.pad(
      [1] * len(row), longest
    )


def test_every_pair_is_truncated_as_in_input_features():
  room = 5
  lengths = [(a, b) for a in range(9) for b in range(9)]
  rows = []
  for a, b in lengths:
    row_a, row_b = ids(a, b).to_list()
    # As in the original: a second text without pieces counts as none.
    input_sequences.truncate_pair(row_a, row_b, room + (not row_b))
    rows.append(expected(row_a, row_b or None))
  inputs = graph_inputs.pair_inputs(
    ids(*[a for a, _ in lengths]),
    ids(*[b for _, b in lengths]),
    max_seq_length=room + 3,
    **SPECIAL,
  )
  check(inputs, rows)


def test_first_of():
  rows = graph_inputs.first_of(ids(3, 0, 1), tf.constant([1, 2, 3]))
  assert rows.to_list() == [[10], [], [10]]
  assert graph_inputs.first_of(ids(3, 0, 1), 2).to_list() == [
    [10, 11], [], [10],
  ]
