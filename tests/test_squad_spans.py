"""Compares the best spans of a passage with plain loops over its logits."""

import numpy as np
import pytest

from squad import answers, spans, windowing


def window(question=0, start=0, length=4, is_max_context=None, first=3):
  """Returns a window of pieces from `start` on, at position `first` on."""
  if is_max_context is None:
    is_max_context = np.ones(length, bool)
  return windowing.Window(
    0,
    question,
    0,
    ["q"] * (first - 2),
    np.array([7] * (first - 2)),
    None,
    start,
    length,
    is_max_context,
  )


def plain(windows, logits, num_questions, options):
  """Yields [(first piece, last piece, start logit, end logit)] by question.

  These are the loops of the original, in Python floats.
  """
  starts, ends = logits["start"], logits["end"]
  for question in range(num_questions):
    candidates, null = [], None
    for row, w in enumerate(windows):
      if w.question_index != question:
        continue
      best = [
        sorted(range(len(values[row])), key=lambda n: -values[row][n])[
          : options.n_best_size
        ]
        for values in (starts, ends)
      ]
      # The positions of the passage.
      inside = range(w.first_position, w.first_position + w.length)
      for start in best[0]:
        for end in best[1]:
          if (
            start in inside
            and end in inside
            and (
              w.is_max_context[start - w.first_position]
              and 0 <= end - start < options.max_answer_length
            )
          ):
            shift = w.start - w.first_position
            pair = float(starts[row][start]), float(ends[row][end])
            candidates.append((start + shift, end + shift, *pair))
      null_pair = float(starts[row][0]), float(ends[row][0])
      if null is None or sum(null_pair) < sum(null):
        null = null_pair
    if null:
      candidates.append((spans.NULL_PIECE, spans.NULL_PIECE, *null))
    # The sort is stable: equal sums keep their order.
    yield sorted(candidates, key=lambda span: -span[2] - span[3])


def listed(result):
  return list(zip(*(values.tolist() for values in result[1:])))


@pytest.mark.parametrize("n_best_size, longest", [(1, 30), (3, 2), (20, 5)])
def test_spans_are_those_of_plain_loops(n_best_size, longest, monkeypatch):
  """With few different values, many logits and sums are equal."""
  random = np.random.default_rng(n_best_size)
  windows = [
    window(
      int(question),
      int(start),
      int(length),
      random.random(length) < 0.6,
      first=int(first),
    )
    for question, start, length, first in zip(
      np.sort(random.integers(0, 11, 40)),
      random.integers(0, 9, 40),
      random.integers(0, 30, 40),
      random.integers(2, 6, 40),
    )
  ]
  starts, ends = (random.integers(0, 4, (2, 40, 40)) / 2).astype(np.float32)
  # With some end logits, these start logits have equal sums in float32.
  starts[:9, 7], starts[:9, 8] = 2**24, 2**24 - 1
  options = answers.AnswerOptions(n_best_size, longest)
  arguments = windows, {"start": starts, "end": ends}, 12, options
  expected = list(plain(*arguments))
  assert sum(map(len, expected)) > n_best_size
  # First in one block, then in several.
  for size in (128, 4):
    monkeypatch.setattr(spans, "_WINDOWS_PER_BLOCK", size)
    result = list(map(listed, spans.best_spans(*arguments)))
    assert result == expected


def test_without_windows_there_are_no_spans():
  nothing = np.zeros([0, 5], np.float32)
  results = spans.best_spans(
    [], {"start": nothing, "end": nothing}, 2, answers.AnswerOptions()
  )
  assert [listed(result) for result in results] == [[], []]
