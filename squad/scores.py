"""Computes exact match and F1 as the official scripts of SQuAD 1.1 and 2.0 do.

  predictions = {answer.qas_id: answer.text for answer in answers}
  results = scores.score_v1(questions, predictions)
  results = scores.score_v2(questions, predictions, null_odds)
  threshold = scores.best_threshold(questions, best_texts, null_odds)

A prediction's score is the highest over all answers to its question (Rajpurkar
et al. 2016 and 2018). Scores of the two versions differ:

                                 1.1           2.0
  a missing prediction           scores 0      is ignored
  a question without an answer   is an error   needs the prediction ""
  an answer without words        has F1 = 0    is ignored

An answer "without words" consists only of punctuation and articles.
"""

import collections

import numpy as np
from absl import logging

from common import errors, json_files
from squad import answer_units


def read_by_id(path: str, value_type: type) -> dict:
  """Reads predictions.json (value_type str) or null_odds.json (float).

  Raises InputError: the file is missing, not JSON, or has a wrong value.
  """
  values = json_files.read(path)
  return {
    name: json_files.field(values, name, value_type, path) for name in values
  }


def f1(prediction: str, gold: str) -> float:
  """Returns the F1 of two normalized texts: 2 * common words / all words.

  A word that occurs twice in both texts counts twice.
  """
  counts = [collections.Counter(text.split()) for text in (prediction, gold)]
  common = (counts[0] & counts[1]).total()
  return 2 * common / sum(c.total() for c in counts) if common else 0.0


def compare(
  prediction: str,
  answers: tuple,
  *,
  version_2: bool,
  units: str = answer_units.WORDS,
) -> tuple:
  """Returns a prediction's best exact match and F1 over all answers, 0 to 1."""
  predicted = answer_units.normalized(prediction, units)
  golds = [answer_units.normalized(text, units) for text in answers]
  # As in the official script, only 2.0 ignores answers without words.
  if version_2:
    golds = [gold for gold in golds if gold]
    if not golds:
      return (float(not predicted),) * 2
  exact = float(predicted in golds)
  predicted, *golds = (
    answer_units.spaced(text, units) for text in (predicted, *golds)
  )
  return exact, max(f1(predicted, gold) for gold in golds)


def score_v1(
  questions: list,
  predictions: dict,
  points: dict | None = None,
  *,
  units: str = answer_units.AUTO,
) -> dict:
  """Returns SQuAD 1.1's scores: {"exact_match": percent, "f1": percent}.

  `predictions` is {question id: text}; `points` is the result of `compare_all`,
  if already computed. Raises InputError: see `compare_all`.
  """
  scores = points or compare_all(
    questions, predictions, version_2=False, units=units
  )
  # The mean is over all questions; a question without a prediction scores 0.
  exact, f1_score = np.sum(list(scores.values()), axis=0) / len(questions)
  return {"exact_match": float(100 * exact), "f1": float(100 * f1_score)}


def score_v2(
  questions: list,
  predictions: dict,
  null_odds: dict | None = None,
  points: dict | None = None,
  *,
  units: str = answer_units.AUTO,
) -> dict:
  """Returns SQuAD 2.0's scores by name; exact match and F1 are in percent.

  `predictions` is {question id: text}; `null_odds` is {question id: score of
  "no answer" minus the best answer's}; `points` is the result of `compare_all`,
  if already computed. Raises InputError: see `compare_all`.

  Returns:
    exact, f1 and total (number of scored questions); HasAns_exact, ... for
    questions with answers; NoAns_exact, ... for questions without, if any.
    With `null_odds`, best_exact is the highest exact match that a threshold can
    give: predictions whose odds exceed best_exact_thresh become "". best_f1 and
    best_f1_thresh are the same for F1. Unlike this function, the official
    script also applies a threshold, 1 by default, to the other scores, and
    fails if a prediction is missing.
  """
  scores = points or compare_all(
    questions, predictions, version_2=True, units=units
  )
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
      # As in the official script, whose odds are probabilities: if "" is best
      # for all questions, the threshold is 0.
      result[f"best_{name}"] = float(100 * sums[best] / len(points))
      result[f"best_{name}_thresh"] = float(odds[best]) if best else 0.0
  return result


def best_threshold(
  questions: list,
  best_texts: dict,
  null_odds: dict,
  *,
  units: str = answer_units.AUTO,
) -> float:
  """Returns the null_score_diff_threshold with the highest F1 of SQuAD 2.0.

  A question with odds above the threshold gets "no answer". The result differs
  from the official script's best_f1_thresh in three ways. The search uses the
  best texts, even for questions with the prediction "". It answers all
  questions with equal odds or none of them. If answering no question is best,
  the threshold is below all odds. `best_texts` is {question id: best text other
  than ""}, `null_odds` is {question id: odds}. Raises InputError: no question
  has a text, or a text has no odds.
  """
  scores = compare_all(questions, best_texts, version_2=True, units=units)
  points = {qas_id: f1_score for qas_id, (_, f1_score) in scores.items()}
  has_answer = {q.qas_id: bool(q.answers) for q in questions}
  odds, sums = _points_by_odds(has_answer, best_texts, points, null_odds)
  # No threshold separates equal odds, so only the last of their sums counts.
  sums[:-1][odds[:-1] == odds[1:]] = -1.0
  best = int(np.argmax(sums))
  # To answer none, take the largest float below the lowest odds.
  return float(odds[best] if best else np.nextafter(odds[1], -np.inf))


def _points_by_odds(
  has_answer: dict[str, bool],
  predictions: dict[str, str],
  points: dict[str, float],
  null_odds: dict[str, float],
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the total scores for answering only questions with low null odds.

  Args:
    has_answer, predictions, null_odds: dicts by question id.
    points: {question id: score from 0 to 1}, for each of Q questions.

  Returns:
    (odds [Q + 1], sums [Q + 1]): odds rise from -inf, and sums[i] is the total
    score if only the i questions with the lowest odds are answered.
  """
  missing = [qas_id for qas_id in points if qas_id not in null_odds]
  if missing:
    raise errors.InputError(
      f"{len(missing)} of {len(points)} questions have a prediction but no "
      f"null odds, for example {missing[0]!r}; pass both files of the same run"
    )
  # Example: a correctly answered question has odds -2, a question without an
  # answer has odds 1. Answering neither scores 1, answering only the first one
  # scores 2, and answering both scores 1.
  ids = [qas_id for qas_id in null_odds if qas_id in points]
  # Answering gains the points of an answerable question; for an unanswerable
  # question it loses 1, because "no answer" is correct.
  gains = [
    points[qas_id] if has_answer[qas_id] else -float(predictions[qas_id] != "")
    for qas_id in ids
  ]
  odds = np.array([null_odds[qas_id] for qas_id in ids], np.float64)
  order = np.argsort(odds, kind="stable")
  unanswerable = sum(not has_answer[qas_id] for qas_id in points)
  # [Q + 1], from no question answered to all questions answered.
  sums = np.cumsum([unanswerable, *np.array(gains)[order]])
  return np.concatenate([[-np.inf], odds[order]]), sums


def compare_all(
  questions: list,
  predictions: dict,
  *,
  version_2: bool,
  units: str = answer_units.AUTO,
) -> dict:
  """Returns {question id: (exact match, F1)}; logs missing predictions.

  `units` is one of answer_units.UNITS; "auto" derives it from the answers.
  Raises InputError: no question has a prediction, or a question of SQuAD 1.1
  has no answer.
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
      f"none of the {len(questions)} questions has a prediction; pass the "
      "predictions for this file"
    )
  if len(answered) < len(questions):
    logging.warning(
      "%d of %d questions have no prediction and %s.",
      len(questions) - len(answered),
      len(questions),
      "are left out" if version_2 else "score 0",
    )
  if units == answer_units.AUTO:
    units = answer_units.of_answers(a for q in questions for a in q.answers)
  return {
    q.qas_id: compare(
      predictions[q.qas_id], q.answers, version_2=version_2, units=units
    )
    for q in answered
  }


def _means(scores: dict[str, tuple]) -> dict[str, float]:
  exact, f1_score = np.mean(list(scores.values()), axis=0)
  return {
    "exact": float(100 * exact),
    "f1": float(100 * f1_score),
    "total": len(scores),
  }
