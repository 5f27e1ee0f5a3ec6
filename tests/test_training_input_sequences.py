"""input_features: [CLS] a [SEP] b [SEP]."""

import pytest

from training import input_sequences


@pytest.mark.parametrize(
  "length_a, length_b, max_length, kept",
  [
    (3, 2, 5, (3, 2)),
    (3, 2, 9, (3, 2)),
    (9, 2, 5, (3, 2)),
    (2, 9, 5, (2, 3)),
    (5, 5, 5, (3, 2)),  # The second loses first where both are equal.
    (2, 2, 1, (1, 0)),
    (1, 1, 0, (0, 0)),
  ],
)
def test_truncate_pair(length_a, length_b, max_length, kept):
  a, b = list(range(length_a)), list(range(length_b))
  input_sequences.truncate_pair(a, b, max_length)
  assert (a, b) == (list(range(kept[0])), list(range(kept[1])))


def test_one_text():
  ids, segments = input_sequences.build_inputs([5, 6], cls_id=1, sep_id=2)
  assert (ids, segments) == ([1, 5, 6, 2], [0, 0, 0, 0])


def test_two_texts():
  ids, segments = input_sequences.build_inputs([5], [6, 7], cls_id=1, sep_id=2)
  assert (ids, segments) == ([1, 5, 2, 6, 7, 2], [0, 0, 0, 1, 1, 1])


def test_an_empty_second_text_has_its_separator():
  ids, segments = input_sequences.build_inputs([5], [], cls_id=1, sep_id=2)
  assert (ids, segments) == ([1, 5, 2, 2], [0, 0, 0, 1])


def test_pad():
  assert input_sequences.pad([1, 2], 4) == [1, 2, 0, 0]
  assert input_sequences.pad((1, 2), 2, 9) == [1, 2]
  with pytest.raises(ValueError, match="3 values do not fit into 2"):
    input_sequences.pad([1, 2, 3], 2)
