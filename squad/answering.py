"""SQuAD: logits of windows -> answers, best first, and the files of them.

  options = answering.AnswerOptions(version_2_with_negative=True)
  answers = list(answering.find_answers(
    questions, windows, start_logits, end_logits, options))
  answering.write(output_dir, answers)

Another threshold needs no second look at the logits: `with_threshold`.
"""

import json
import math
import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from common import errors, file_io
from squad import alignment, span_search

PREDICTIONS_FILE = "predictions.json"
N_BEST_FILE = "nbest_predictions.json"
NULL_ODDS_FILE = "null_odds.json"

# As in the original: the answer where there is none to give, without
# version_2_with_negative.
_NOTHING_FOUND = "empty"

# Null odds where there is no other answer: above every threshold.
# As in the original: what the null score is until a window was seen.
_NO_OTHER_ANSWER = 1e6


class AnswerOptions(NamedTuple):
  """What decides the answers besides the logits, named as the flags are.

  Attributes:
    n_best_size: how many start and end positions of a window are tried, and
      how many answers to a question are kept.
    max_answer_length: in word pieces.
    do_lower_case: as for the tokenizer, if `spelling` is not given.
    version_2_with_negative: whether a question may have no answer.
    null_score_diff_threshold: "no answer" is given where it is better than
      the best answer by more than this, in logits.
    spelling: of the tokenizer; None: of BERT's word pieces.
  """

  n_best_size: int = 20
  max_answer_length: int = 30
  do_lower_case: bool = True
  version_2_with_negative: bool = False
  null_score_diff_threshold: float = 0.0
  spelling: alignment.Spelling | None = None


class Candidate(NamedTuple):
  """One of the best answers to a question, whose probabilities sum to 1.

  Its text is as written in the passage; "" is "no answer".
  """

  text: str
  probability: float
  start_logit: float
  end_logit: float


class Answer(NamedTuple):
  """The answer to one question.

  Attributes:
    text: "" is "no answer".
    candidates: list of Candidate, the best first.
    best_text: the best answer but "", whatever the threshold; "" if there is
      no other.
    null_odds: by how many logits "no answer" is better than `best_text`; None
      without version_2_with_negative.
    score: the sum of the logits of `best_text`.
    place: where `best_text` is, see alignment.PassageText.place.
    null_score: that of "no answer"; None where it was not computed.
  """

  qas_id: str
  text: str
  candidates: list
  best_text: str
  null_odds: float | None = None
  score: float | None = None
  place: tuple[int, int] | None = None
  null_score: float | None = None


def find_answers(
  questions: list,
  windows: list,
  start_logits: np.ndarray,
  end_logits: np.ndarray,
  options: AnswerOptions,
) -> Iterator[Answer]:
  """Yields the Answer to every question, in order.

  As in the original: padding has logits and takes places among the
  `n_best_size` best positions of a window, although no answer can be there.
  Where they were not computed they are to be -inf.

  Args:
    questions: dataset.Questions.
    windows: N dataset.Windows, in the order of their questions.
    start_logits, end_logits: float32 [N, T], a row for each window.
    options: what decides.

  Raises:
    InputError: a logit is no finite number (the question is named).
    ValueError: there are not as many rows as windows.
  """
  if not len(windows) == len(start_logits) == len(end_logits):
    raise ValueError(
      f"{len(windows)} windows, but {len(start_logits)} rows of start logits "
      f"and {len(end_logits)} of end logits"
    )
  if not windows:  # Nothing was computed, in whatever shape.
    start_logits = end_logits = np.zeros((0, 1), np.float32)
  for logits in (start_logits, end_logits):
    _check_finite(questions, windows, logits)
  all_spans = span_search.best_spans(
    windows, start_logits, end_logits, len(questions), options
  )
  passages = {window.question_index: window.passage for window in windows}
  spelling = options.spelling or alignment.word_piece_spelling(
    options.do_lower_case
  )
  passage, text_of = None, None
  for index, (question, spans) in enumerate(zip(questions, all_spans)):
    # Questions about one passage follow one another.
    if index in passages and passages[index] is not passage:
      passage = passages[index]
      text_of = _SpanTexts(question.doc_tokens, passage, spelling)
    yield _answer(question.qas_id, spans, text_of, options)


def _check_finite(questions, windows, logits):
  """Raises InputError for a logit that is nan or infinite.

  Unlike the original: it sorted nan among the logits, and answered at random.
  """
  num_tokens = np.array([window.num_tokens for window in windows], int)
  # [N, T]; -inf is what `window_logits` of prediction.py gives to padding.
  is_padding = np.arange(np.shape(logits)[1]) >= num_tokens[:, None]
  is_good = np.isfinite(logits) | (is_padding & np.isneginf(logits))
  if is_good.all():
    return
  row, position = np.argwhere(~is_good)[0]
  question = questions[windows[row].question_index]
  raise errors.InputError(
    f"{question.place or question.qas_id}: the model gave "
    f"{logits[row, position]} for position {position} of a window of "
    f"question {question.qas_id!r}: its weights are damaged or training "
    "diverged, use an earlier checkpoint"
  )


class _SpanTexts:
  """The texts of spans of a passage; questions often share them."""

  def __init__(self, words, passage, spelling):
    """Takes the passage's `doc_tokens`, a Passage and a Spelling."""
    self._text = alignment.PassageText(words, spelling.of_word)
    self._joined = spelling.of_pieces
    self._tokens = passage.tokens
    self._words = passage.words.tolist()
    self._known = {(span_search.NULL_PIECE, span_search.NULL_PIECE): ""}

  def __getitem__(self, pieces):
    """Returns the text of (first piece, last piece)."""
    if pieces not in self._known:
      self._known[pieces] = self._text.answer(*self._words_of(*pieces))
    return self._known[pieces]

  def place(self, pieces):
    """Returns where (first piece, last piece) are, in the words."""
    return self._text.place(*self._words_of(*pieces))

  def _words_of(self, first, last):
    predicted = self._joined(self._tokens[first : last + 1])
    return predicted, self._words[first], self._words[last]


def _answer(qas_id, spans, text_of, options):
  """Returns the Answer that a question's Spans make."""
  # Different spans may have one text ("the river", twice in a passage): it
  # counts once, with the logits of its best span.
  # text -> (start logit, end logit), the best first.
  kept, best_pieces = _distinct(spans, text_of, options.n_best_size)
  best_text = text_of[best_pieces] if best_pieces else ""
  best = {}
  if best_text:
    best = {"score": sum(kept[best_text]), "place": text_of.place(best_pieces)}
  if not options.version_2_with_negative:
    # As in the original: the n-best file is never empty for a question.
    candidates = _candidates(kept or {_NOTHING_FOUND: (0.0, 0.0)})
    return Answer(qas_id, candidates[0].text, candidates, best_text, **best)
  # "" may be among the best already; else it is added behind them, so that
  # its probability is always in the n-best file.
  null_start, null_end = kept.setdefault("", _null_logits(spans))
  # Unlike the original: where "no answer" is all there is it is the answer;
  # the original ended in an error.
  null_odds = _NO_OTHER_ANSWER
  if best_text:
    best_start, best_end = kept[best_text]
    null_odds = null_start + null_end - best_start - best_end
  # The text is left to the threshold, which may be changed later.
  answer = Answer(qas_id, "", _candidates(kept), best_text, null_odds, **best)
  return _with_threshold(answer, options.null_score_diff_threshold)


def _distinct(spans, text_of, number):
  """Returns the first `number` texts of Spans, each once, the best first.

  They are a dict of text -> (start logit, end logit); also returned are the
  pieces of the first that is not "", None if there is none.
  """
  kept, best = {}, None
  logits = zip(spans.start_logits.tolist(), spans.end_logits.tolist())
  pieces = zip(spans.first_pieces.tolist(), spans.last_pieces.tolist())
  for span, pair in zip(pieces, logits):
    if len(kept) == number:
      break
    # The first of equal texts stays: spans come by falling score.
    kept.setdefault(text_of[span], pair)
    best = best or (span if text_of[span] else None)
  return kept, best


def _null_logits(spans):
  """Returns the logits of "no answer", zeros for a question without spans."""
  for row in np.flatnonzero(spans.first_pieces == span_search.NULL_PIECE):
    return float(spans.start_logits[row]), float(spans.end_logits[row])
  return 0.0, 0.0


def _candidates(logits):
  """Returns a Candidate for every text -> (start logit, end logit)."""
  # The highest is taken off so that no exponential overflows.
  highest = max(map(sum, logits.values()))
  # As in the original: the soft-max is over the kept candidates alone.
  weights = [math.exp(sum(pair) - highest) for pair in logits.values()]
  total = sum(weights)
  return [
    Candidate(text, weight / total, *pair)
    for weight, (text, pair) in zip(weights, logits.items())
  ]


def with_threshold(
  answers: Iterable[Answer], threshold: float
) -> Iterator[Answer]:
  """Yields answers of version_2_with_negative by another threshold."""
  return (_with_threshold(answer, threshold) for answer in answers)


def _with_threshold(answer, threshold):
  is_null = answer.null_odds > threshold
  return answer._replace(text="" if is_null else answer.best_text)


def write(folder: str, answers: list) -> None:
  """Writes the answers as the original does.

  predictions.json (id -> text), nbest_predictions.json (id -> candidates)
  and, if they have them, null_odds.json (id -> odds); without them one of
  other answers that is there is removed. As in the original: ASCII, four
  spaces of indent; of questions with the same id the last counts.
  """
  texts = {answer.qas_id: answer.text for answer in answers}
  odds = {answer.qas_id: answer.null_odds for answer in answers}
  contents = {
    PREDICTIONS_FILE: _json(texts),
    N_BEST_FILE: _json({
      answer.qas_id: [c._asdict() for c in answer.candidates]
      for answer in answers
    }),
  }
  if any(value is not None for value in odds.values()):
    contents[NULL_ODDS_FILE] = _json(odds)
  stale = os.path.join(folder, NULL_ODDS_FILE)
  # Of an earlier run: it would be scored with the answers of this one.
  if NULL_ODDS_FILE not in contents and tf.io.gfile.exists(stale):
    tf.io.gfile.remove(stale)
  for name, content in contents.items():
    file_io.write_text(os.path.join(folder, name), content)


def _json(values):
  return json.dumps(values, indent=4) + "\n"
