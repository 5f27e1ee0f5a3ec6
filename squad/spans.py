"""Finds the best answer spans from start and end logits.

The original loops over K x K pairs of positions in each window (by default, K
is 20). This module computes an array [windows, K, K] for many windows at once.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

# With fewer windows, the overhead of NumPy's calls dominates; more windows do
# not fit into a processor's cache.
_WINDOWS_PER_BLOCK = 128
# Stands for the index of the first and last piece of "no answer".
NULL_PIECE = -1


class Spans(NamedTuple):
  """S candidates for answers.

  Attributes:
    questions: int [S], the index of each span's question.
    first_pieces, last_pieces: int [S], indices of a span's first and last word
      piece in the passage; NULL_PIECE for "no answer".
    start_logits, end_logits: float64 [S].
  """

  questions: np.ndarray
  first_pieces: np.ndarray
  last_pieces: np.ndarray
  start_logits: np.ndarray
  end_logits: np.ndarray

  def take(self, which: Any) -> "Spans":
    """Returns the Spans that a slice, a mask or an array of indices selects."""
    return Spans(*(values[which] for values in self))


def best_spans(
  windows: list, logits: dict, num_questions: int, options: Any
) -> Iterator[Spans]:
  """Yields the ranked Spans of every question, in the order of the questions.

  The score is start logit + end logit; the highest score comes first. A span
  starts at one of the `n_best_size` highest start logits of a window and ends
  at one of its highest end logits; lower positions win ties. Spans must lie in
  the passage, must not be longer than `max_answer_length`, and must not start
  at a piece that has more context in another window. "No answer" has the logits
  of [CLS] in the window where their sum is smallest.

  As in the original: padding and the question compete for the best positions of
  a window, although spans cannot lie there. Equal scores are ordered by window,
  then by start logit, then by end logit, with "no answer" last.
  Logits are float32 [N, T], for N windows in the order of their questions; a
  question without a window has no spans.
  """
  # Ascending, because windows are in the order of their questions.
  questions = np.array([window.question_index for window in windows], int)
  # Question q has the windows from bounds[q] to bounds[q + 1], exclusive.
  bounds = np.searchsorted(questions, np.arange(num_questions + 1))
  for first, last in _blocks(bounds.tolist()):
    rows = slice(bounds[first], bounds[last])
    pair = logits["start"][rows], logits["end"][rows]
    candidates = _spans(windows[rows], questions[rows], *pair, options)
    # "No answer" comes last, and a stable sort keeps it after equal spans.
    nulls = _null_spans(questions[rows], *pair)
    spans = Spans(*map(np.concatenate, zip(candidates, nulls)))
    sums = spans.start_logits + spans.end_logits
    # lexsort sorts by question, then by score. It is stable, so equal scores
    # keep the order of their windows, like the original's sort.
    spans = spans.take(np.lexsort((-sums, spans.questions)))
    block = np.arange(first, last + 1)
    ends = np.searchsorted(spans.questions, block).tolist()
    for start, end in zip(ends, ends[1:]):
      yield spans.take(slice(start, end))


def _blocks(bounds: np.ndarray) -> Iterator[tuple[int, int]]:
  """Yields ranges [first, last) of questions that together have enough windows.

  Question q has the windows from bounds[q] to bounds[q + 1], exclusive.
  """
  first = 0
  for last in range(1, len(bounds)):
    is_full = bounds[last] - bounds[first] >= _WINDOWS_PER_BLOCK
    if is_full or last == len(bounds) - 1:
      yield first, last
      first = last


def _spans(
  windows: list,
  questions: np.ndarray,
  start_logits: np.ndarray,
  end_logits: np.ndarray,
  options: Any,
) -> "Spans":
  """Returns the valid Spans of B windows, without "no answer".

  They are ordered by window, then by start logit, then by end logit.
  """
  # B windows, K best positions, T positions of a window.
  starts, start_scores = _best_positions(start_logits, options.n_best_size)
  ends, end_scores = _best_positions(end_logits, options.n_best_size)
  # A span may start only at a piece whose context is largest in this window.
  # Otherwise all windows with this piece would give the same span, with
  # different logits. A span may end at any piece of the passage.
  may_start = np.zeros(start_logits.shape, bool)  # [B, T]
  for row, window in zip(may_start, windows):
    row[window.first_position :][: window.length] = window.is_max_context
  may_start = np.take_along_axis(may_start, starts, 1)  # [B, K]
  passage_ends = np.array([w.first_position + w.length for w in windows])
  may_end = ends < passage_ends[:, None]  # [B, K]
  lengths = ends[:, None, :] - starts[:, :, None] + 1  # [B, K, K]
  # np.nonzero returns the valid pairs of all windows in the order of the
  # original's loops: window, start, end.
  is_valid = (lengths > 0) & (lengths <= options.max_answer_length)
  is_valid &= may_start[:, :, None] & may_end[:, None, :]
  window, start, end = np.nonzero(is_valid)
  # Adding a shift converts a position in the input to an index in the passage.
  shifts = np.array([w.start - w.first_position for w in windows])[window]
  return Spans(
    questions[window],
    starts[window, start] + shifts,
    ends[window, end] + shifts,
    start_scores[window, start],
    end_scores[window, end],
  )


def _best_positions(
  logits: np.ndarray, number: int
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the positions [B, K] of the highest logits [B, T], and the logits.

  The highest logit comes first, and among equal logits the lower position.
  """
  # A partial sort would suffice for K logits, but NumPy's is not stable.
  positions = np.argsort(-logits, axis=1, kind="stable")[:, :number]
  values = np.take_along_axis(logits, positions, 1)
  # As in the original: logits are added as Python floats (float64).
  return positions, values.astype(np.float64)


def _null_spans(
  questions: np.ndarray, start_logits: np.ndarray, end_logits: np.ndarray
) -> "Spans":
  """Returns the Spans of "no answer", one for each question with windows."""
  starts = start_logits[:, 0].astype(np.float64)  # [B]
  ends = end_logits[:, 0].astype(np.float64)
  # Choose each question's window with the smallest sum; the first wins ties.
  order = np.lexsort((starts + ends, questions))  # [B]
  _, firsts = np.unique(questions[order], return_index=True)
  chosen = order[firsts]
  piece = np.full(len(chosen), NULL_PIECE)
  return Spans(questions[chosen], piece, piece, starts[chosen], ends[chosen])
