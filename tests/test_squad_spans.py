"""Stretches of the passage by their logits, against the rule in plain loops."""

import numpy as np
import pytest

from squad import answers, spans, windowing


def window(question=0, start=0, length=4, is_max_context=None, first=3):
  """A window of `length` pieces from `start` on, which begin at `first`."""
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

  As best_spans says it: the loops of the original, in Python's own numbers.
  """
  starts, ends = logits["start"], logits["end"]
  for question in range(num_questions):
    found, null = [], None
    for row, w in enumerate(windows):
      if w.question_index != question:
        continue
      best = [
        sorted(range(len(values[row])), key=lambda n: -values[row][n])[
          : options.n_best_size
        ]
        for values in (starts, ends)
      ]
      # Positions of the passage.
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
            found.append((start + shift, end + shift, *pair))
      of_null = float(starts[row][0]), float(ends[row][0])
      if null is None or sum(of_null) < sum(null):
        null = of_null
    if null:
      found.append((spans.NULL_PIECE, spans.NULL_PIECE, *null))
    # Stable: equal sums stay in the order in which they were found.
    yield sorted(found, key=lambda span: -span[2] - span[3])


def listed(found):
  return list(zip(*(values.tolist() for values in found[1:])))


@pytest.mark.parametrize("n_best_size, longest", [(1, 30), (3, 2), (20, 5)])
def test_spans_are_those_of_plain_loops(n_best_size, longest, monkeypatch):
  """There are few values, so that many logits and sums are equal."""
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
  # A sum that float32 cannot tell from the next one.
  starts[:9, 7], starts[:9, 8] = 2**24, 2**24 - 1
  options = answers.AnswerOptions(n_best_size, longest)
  arguments = windows, {"start": starts, "end": ends}, 12, options
  expected = list(plain(*arguments))
  assert sum(map(len, expected)) > n_best_size
  # In one block, and in several.
  for size in (128, 4):
    monkeypatch.setattr(spans, "_WINDOWS_PER_BLOCK", size)
    found = list(map(listed, spans.best_spans(*arguments)))
    assert found == expected


def test_without_windows_there_are_no_spans():
  nothing = np.zeros([0, 5], np.float32)
  found = spans.best_spans(
    [], {"start": nothing, "end": nothing}, 2, answers.AnswerOptions()
  )
  assert [listed(each) for each in found] == [[], []]
