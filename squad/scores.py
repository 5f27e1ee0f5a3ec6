"""SQuAD: exact match and F1 as the official scripts for 1.1 and 2.0 give them.

  predictions = {answer.qas_id: answer.text for answer in answers}
  found = scores.score_v1(questions, predictions)
  found = scores.score_v2(questions, predictions, null_odds)
  threshold = scores.best_threshold(questions, best_texts, null_odds)

A prediction is compared with every answer in the file, and the best counts
(Rajpurkar et al. 2016 and 2018). The two scripts differ:

                                 1.1           2.0
  no prediction                  counts as 0   is left out
  the question has no answer     is refused    "" is right
  an answer without a word       F1 is 0       means no answer

An answer "without a word" has only punctuation and articles.
"""

import collections
import re
import string

import numpy as np
from absl import logging

from common import errors, json_files

_PUNCTUATION_REMOVED = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:an?|the)\b")


def read_by_id(path: str, value_type: type) -> dict:
  """Returns predictions.json (value_type str) or null_odds.json (float).

  Raises InputError: the file is missing, not JSON, or holds something else.
  """
  values = json_files.read(path)
  return {
    name: json_files.field(values, name, value_type, path) for name in values
  }


def normalized(text: str) -> str:
  """Returns a text normalized for comparison.

  It is lower-cased, then loses ASCII punctuation (so "well-known" becomes one
  word; marks such as “ stay), then the words a, an and the.
  """
  text = text.lower().translate(_PUNCTUATION_REMOVED)
  return " ".join(_ARTICLE.sub(" ", text).split())


def f1(prediction: str, gold: str) -> float:
  """Returns 2 * common / all words of two normalized texts, or 0.0.

  A word that both texts have twice counts twice.
  """
  counts = [collections.Counter(text.split()) for text in (prediction, gold)]
  common = (counts[0] & counts[1]).total()
  return 2 * common / sum(c.total() for c in counts) if common else 0.0


def compare(prediction: str, answers: tuple, *, version_2: bool) -> tuple:
  """Returns (exact match, F1), 0 to 1, of a text with a question's answers."""
  predicted = normalized(prediction)
  golds = [normalized(text) for text in answers]
  # As in the official script for 1.1: golds without a word stay in the list.
  if version_2:
    golds = [gold for gold in golds if gold]
    if not golds:
      return (float(not predicted),) * 2
  return float(predicted in golds), max(f1(predicted, gold) for gold in golds)


def score_v1(
  questions: list, predictions: dict, points: dict | None = None
) -> dict:
  """Returns {"exact_match": percent, "f1": percent} of SQuAD 1.1.

  Predictions are by the question's id; `points` are `compare_all`'s, if they
  are known. Raises InputError: as of `compare_all`.
  """
  scores = points or compare_all(questions, predictions, version_2=False)
  # The mean is over all questions: without a prediction they score 0.
  exact, f1_score = np.sum(list(scores.values()), axis=0) / len(questions)
  return {"exact_match": float(100 * exact), "f1": float(100 * f1_score)}


def score_v2(
  questions: list, predictions: dict, null_odds: dict | None = None,
  points: dict | None = None,
) -> dict:
  """Returns the scores of SQuAD 2.0, in percent.

  Predictions and odds, how much better "no answer" is, are by question id;
  `points` are `compare_all`'s, if they are known. Raises InputError: as of
  `compare_all`.

  Returns:
    exact, f1 and total (a number of questions); the same for questions with
    answers and questions without, as HasAns_exact and so on and NoAns_exact
    and so on, if any; and with `null_odds` best_exact and best_f1, the scores
    that the predictions would reach if predictions with odds above
    best_exact_thresh and best_f1_thresh were "". The official script also
    counts odds above 1 as "" in the other scores, and ends in an error for a
    question without a prediction.
  """
  scores = points or compare_all(questions, predictions, version_2=True)
  has_answer = {q.qas_id: bool(q.answers) for q in questions}
  result = _means(scores)
  for name, expected in (("HasAns", True), ("NoAns", False)):
    part = {k: pair for k, pair in scores.items() if has_answer[k] == expected}
    if part:
      result |= {f"{name}_{key}": v for key, v in _means(part).items()}
  if null_odds is not None:
    for column, name in enumerate(("exact", "f1")):
      points = {qas_id: pair[column] for qas_id, pair in scores.items()}
      odds, sums = _points_by_odds(has_answer, predictions, points, null_odds)
      best = int(np.argmax(sums))
      # As in the official script, which takes odds for probabilities: where
      # all "" is best the threshold is 0.
      result[f"best_{name}"] = float(100 * sums[best] / len(points))
      result[f"best_{name}_thresh"] = float(odds[best]) if best else 0.0
  return result


def best_threshold(questions: list, best_texts: dict, null_odds: dict) -> float:
  """Returns the null_score_diff_threshold with the highest F1 of SQuAD 2.0.

  "No answer" is to be given where the odds are above it. Unlike the official
  script's best_f1_thresh: it is searched with the best answers, so that one
  which is "" under the present threshold counts, too; of questions with equal
  odds all are answered or none; and where it is best to answer none it is
  below all odds. Texts, the best but "", and odds are by question id. Raises
  InputError: no question has a text, or one has a text and no odds.
  """
  scores = compare_all(questions, best_texts, version_2=True)
  points = {qas_id: f1_score for qas_id, (_, f1_score) in scores.items()}
  has_answer = {q.qas_id: bool(q.answers) for q in questions}
  odds, sums = _points_by_odds(has_answer, best_texts, points, null_odds)
  # sums[i] answers all up to i, so of equal odds only the last is reachable.
  sums[:-1][odds[:-1] == odds[1:]] = -1.0  # No threshold separates equal odds.
  best = int(np.argmax(sums))
  # "No answer" is given above the threshold, so the smallest float below the
  # lowest odds gives it to all.
  return float(odds[best] if best else np.nextafter(odds[1], -np.inf))


def _points_by_odds(has_answer, predictions, points, null_odds):
  """Returns the points for answering only questions with low null odds.

  Args:
    has_answer, predictions, null_odds: by question id.
    points: question id -> 0 to 1, for each of Q questions.

  Returns:
    (odds [Q + 1], sums [Q + 1]): odds rise from -inf, and sums[i] are the
    points of all questions if those with odds[0] to odds[i] are answered.
  """
  missing = [qas_id for qas_id in points if qas_id not in null_odds]
  if missing:
    raise errors.InputError(
      f"{len(missing)} of {len(points)} questions have a prediction and no "
      f"null odds, {missing[0]!r} for one; give the two files of one run"
    )
  # Two questions, one answered rightly at odds -2, one without an answer at
  # odds 1: nothing answered gives 1 point, the first alone 2, both 1.
  ids = [qas_id for qas_id in null_odds if qas_id in points]
  # Answering gains an answerable question's points, and loses the point that
  # an unanswerable one has as long as nothing is answered.
  gains = [
    points[qas_id] if has_answer[qas_id] else -float(predictions[qas_id] != "")
    for qas_id in ids
  ]
  odds = np.array([null_odds[qas_id] for qas_id in ids], np.float64)
  order = np.argsort(odds, kind="stable")
  unanswerable = sum(not has_answer[qas_id] for qas_id in points)
  # [Q + 1], from nothing answered to everything answered.
  sums = np.cumsum([unanswerable, *np.array(gains)[order]])
  return np.concatenate([[-np.inf], odds[order]]), sums


def compare_all(
  questions: list, predictions: dict, *, version_2: bool
) -> dict:
  """Returns a dict of question id -> (exact match, F1), warning of gaps.

  Raises InputError: no question has a prediction, or one of 1.1 no answer.
  """
  for question in questions:
    if not (question.answers or version_2):
      raise errors.InputError(
        f"{question.place or question.qas_id}: no answer to compare with; "
        "SQuAD 2.0 needs --version_2_with_negative"
      )
  answered = [q for q in questions if q.qas_id in predictions]
  if not answered:
    raise errors.InputError(
      f"none of the {len(questions)} questions has a prediction; give the "
      "predictions for this file"
    )
  if len(answered) < len(questions):
    logging.warning(
      "%d of %d questions have no prediction and %s.",
      len(questions) - len(answered), len(questions),
      "are left out" if version_2 else "score 0",
    )
  return {
    q.qas_id: compare(predictions[q.qas_id], q.answers, version_2=version_2)
    for q in answered
  }


def _means(scores):
  exact, f1_score = np.mean(list(scores.values()), axis=0)
  return {
    "exact": float(100 * exact), "f1": float(100 * f1_score),
    "total": len(scores),
  }
