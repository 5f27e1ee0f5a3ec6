"""Tests of choosing stretches of the passage by their logits."""

import numpy as np
import pytest

from squad import answering, dataset, span_search

T = 10  # Positions of a window: [CLS] q [SEP] p p p p [SEP] and padding.
LOW = -9.0


def window(question=0, start=0, length=4, is_max_context=None):
  """A window of `length` pieces from `start` on, which begin at position 3."""
  if is_max_context is None:
    is_max_context = [True] * length
  return dataset.Window(
    unique_id=0,
    question_index=question,
    doc_span_index=0,
    question_tokens=["q"],
    question_ids=np.array([7]),
    passage=None,
    start=start,
    length=length,
    is_max_context=np.array(is_max_context),
  )


def row(**logits):
  """Logits [T]: row(p3=1.5) has 1.5 at position 3."""
  values = np.full(T, LOW, np.float32)
  for name, value in logits.items():
    values[int(name[1:])] = value
  return values


def spans(windows, starts, ends, num_questions=1, **settings):
  """Returns [(first piece, last piece), ...] of each question."""
  found = span_search.best_spans(
    windows,
    np.array(starts, np.float32).reshape(-1, T),
    np.array(ends, np.float32).reshape(-1, T),
    num_questions,
    answering.AnswerOptions(**settings),
  )
  return [
    list(zip(s.first_pieces.tolist(), s.last_pieces.tolist())) for s in found
  ]


def test_spans_come_by_the_sum_of_their_logits():
  starts, ends = row(p3=2, p4=1), row(p4=3, p6=2.5)
  assert spans([window()], [starts], [ends], n_best_size=2) == [
    [(0, 1), (0, 3), (1, 1), (1, 3)]
  ]


def test_sums_are_of_double_precision():
  # 2**24 - 1 + 1.5 is more than 2**24, but not as a float32.
  starts, ends = row(p3=2**24, p4=2**24 - 1), row(p3=0, p4=1.5)
  settings = {"n_best_size": 2, "max_answer_length": 1}
  assert spans([window()], [starts], [ends], **settings) == [[(1, 1), (0, 0)]]


def test_equal_sums_come_by_the_better_start_then_the_better_end():
  starts, ends = row(p3=1, p4=2), row(p5=2, p6=1)
  assert spans([window()], [starts], [ends], n_best_size=2) == [
    [(1, 2), (1, 3), (0, 2), (0, 3)]
  ]


def test_of_equal_logits_the_first_positions_are_taken():
  flat = np.zeros(T, np.float32)
  # Of positions 0 to 4 only 3 and 4 are in the passage.
  assert spans([window()], [flat], [flat], n_best_size=5) == [
    [(0, 0), (0, 1), (1, 1)]
  ]
  assert spans([window()], [flat], [flat], n_best_size=3) == [[]]


def test_of_many_equal_logits_the_first_positions_are_taken():
  logits = np.random.default_rng(0).integers(0, 3, (2, 64)).astype(np.float32)
  best = [sorted(range(64), key=lambda place: -row[place]) for row in logits]
  (found,) = span_search.best_spans(
    [window(length=60)], logits[:1], logits[1:], 1,
    answering.AnswerOptions(n_best_size=20, max_answer_length=64),
  )  # fmt: skip
  starts, ends = (places[:20] for places in best)
  pairs = [(s, e) for s in starts for e in ends if 3 <= s <= e < 63]
  pairs.sort(key=lambda pair: -logits[0, pair[0]] - logits[1, pair[1]])
  assert list(zip(found.first_pieces + 3, found.last_pieces + 3)) == pairs


def test_question_separator_and_padding_are_no_answers():
  for position in (0, 1, 2, 7, 8, 9):
    logits = row(**{f"p{position}": 5, "p4": 4})
    assert spans([window()], [logits], [logits], n_best_size=2) == [[(1, 1)]]


def test_no_span_ends_before_it_starts():
  assert spans([window()], [row(p5=1)], [row(p4=1)], n_best_size=1) == [[]]


@pytest.mark.parametrize("longest, found", [(2, []), (3, [(0, 2)])])
def test_no_span_is_longer_than_max_answer_length(longest, found):
  result = spans(
    [window()], [row(p3=1)], [row(p5=1)],
    n_best_size=1, max_answer_length=longest,
  )  # fmt: skip
  assert result == [found]


def test_a_span_starts_where_its_window_shows_most():
  only_last = window(is_max_context=[False, False, True, False])
  starts, ends = row(p3=3, p5=2), row(p6=1)
  assert spans([only_last], [starts], [ends], n_best_size=2) == [[(2, 3)]]


def test_windows_of_a_question_compete():
  windows = [window(), window(start=4), window(1, start=2)]
  starts = [row(p3=1), row(p4=2), row(p6=3)]
  ends = [row(p3=1), row(p4=2), row(p6=3)]
  assert spans(windows, starts, ends, 2, n_best_size=1) == [
    [(5, 5), (0, 0)], [(5, 5)]
  ]


def test_of_equal_spans_that_of_the_earlier_window_comes_first():
  windows = [window(start=4), window(start=0)]
  logits = [row(p3=1)] * 2
  assert spans(windows, logits, logits, n_best_size=1) == [[(4, 4), (0, 0)]]


def test_questions_without_windows_have_no_spans():
  logits = [row(p3=1)] * 2
  found = spans(
    [window(1), window(3)], logits, logits, 5,
    n_best_size=1, version_2_with_negative=True,
  )  # fmt: skip
  assert [len(some) for some in found] == [0, 2, 0, 2, 0]
  assert spans([], [], [], 2) == [[], []]


def test_no_answer_is_behind_equal_spans_and_has_the_lowest_window():
  windows = [window(), window(start=4), window(start=8)]
  starts = [row(p0=3), row(p0=1, p3=2), row(p0=2)]
  ends = [row(p0=3), row(p0=2, p3=1), row(p0=1)]
  (found,) = span_search.best_spans(
    windows, np.array(starts), np.array(ends), 1,
    answering.AnswerOptions(2, version_2_with_negative=True),
  )  # fmt: skip
  null = span_search.NULL_PIECE
  assert found.first_pieces.tolist()[:2] == [4, null]
  # Windows 1 and 2 both have 3: the first of them.
  assert found.start_logits[1] == 1 and found.end_logits[1] == 2


def test_blocks_change_nothing(monkeypatch):
  random = np.random.default_rng(1)
  questions = np.sort(random.integers(0, 12, 30))
  windows = [window(int(q), start=i) for i, q in enumerate(questions)]
  starts, ends = random.integers(0, 4, (2, 30, T)).astype(np.float32)
  settings = {"n_best_size": 6, "version_2_with_negative": True}
  whole = spans(windows, starts, ends, 13, **settings)
  monkeypatch.setattr(span_search, "_WINDOWS_PER_BLOCK", 4)
  assert spans(windows, starts, ends, 13, **settings) == whole
  assert sum(map(len, whole)) > 60 and whole[12] == []
