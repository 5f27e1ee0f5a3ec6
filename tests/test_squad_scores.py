"""Compares SQuAD scores with the results of the official scripts."""

import json
import logging
import re

import pytest

from common import errors
from message_facts import says
from squad import answer_units, data, scores


def question(qas_id, *answers):
  return data.Question(qas_id, "?", [], answers=answers, place="a.json")


@pytest.mark.parametrize(
  "text, normal",
  [
    ("  The Cat,\tsat\u00a0on\u3000A mat ", "cat sat on mat"),
    # Only whole words are articles; they are removed after the punctuation.
    ("Theatre and another", "theatre and another"),
    ("a-b The. (an)", "ab"),
    ("U.S.A.", "usa"),
    ("T.h.e", ""),
    # Punctuation joins the words around it: it leaves no space.
    ("1,000–2,000 well-known", "1000–2000 wellknown"),
    # Only ASCII punctuation is removed; other marks delimit articles.
    ("“the end”—a…", "“ end”— …"),
    ("$5 & 3%", "5 3"),
    ("ÉCOLE", "école"),
    ("一个,人。", "一个人。"),
    ("the a an", ""),
    # For \b, a letter of any script is part of a word.
    ("éa", "éa"),
  ],
)
def test_normalized(text, normal):
  assert answer_units.normalized(text) == normal


@pytest.mark.parametrize(
  "prediction, answers, exact, f1",
  [
    ("the Cat", ["cat!"], 1, 1),
    ("cat", ["dog"], 0, 0),
    # 2 * 1 common word / (2 + 1 words).
    ("black cat", ["cat"], 0, 2 / 3),
    # Words count as often as they occur in both.
    ("a b b b", ["b b c"], 0, 4 / 6),
    ("b c b", ["c b b"], 0, 1),
    # The best answer counts, separately for each score.
    ("cat mat", ["cat", "mat cat sat", "cat mat"], 1, 1),
    ("cat mat", ["cat", "mat cat"], 0, 1),
    ("", ["cat"], 0, 0),
  ],
)
@pytest.mark.parametrize("version_2", [False, True])
def test_the_best_answer_counts(version_2, prediction, answers, exact, f1):
  result = scores.compare(prediction, answers, version_2=version_2)
  assert result == pytest.approx((exact, f1), abs=1e-12)


@pytest.mark.parametrize(
  "prediction, answers, v1, v2",
  [
    # Neither has words: an exact match with F1 0 (1.1), or no answer (2.0).
    ("the", ["..."], (1, 0), (1, 1)),
    ("", ["an"], (1, 0), (1, 1)),
    ("cat", ["the"], (0, 0), (0, 0)),
    # An answer without words is ignored if there are others (2.0).
    ("", ["the", "cat"], (1, 0), (0, 0)),
    ("cat", ["the", "cat"], (1, 1), (1, 1)),
    # Without answers, only a prediction without words is right.
    ("", (), None, (1, 1)),
    ("The.", (), None, (1, 1)),
    ("cat", (), None, (0, 0)),
  ],
)
def test_texts_without_words(prediction, answers, v1, v2):
  assert scores.compare(prediction, answers, version_2=True) == v2
  if answers:
    assert scores.compare(prediction, answers, version_2=False) == v1


def test_version_1_counts_missing_predictions_as_0(caplog):
  questions = [question("1", "cat"), question("2", "dog"), question("3", "x y")]
  with caplog.at_level(logging.WARNING):
    result = scores.score_v1(questions, {"1": "a cat", "3": "x", "?": ""})
  assert result == pytest.approx(
    {"exact_match": 100 / 3, "f1": 100 * (1 + 2 / 3) / 3}, abs=1e-12
  )
  assert re.search(says("1", "3", "0", "have no"), caplog.text)


def test_version_1_refuses_questions_without_an_answer():
  questions = [question("1", "cat"), question("2")]
  with pytest.raises(errors.InputError, match="^a.json.*version_2"):
    scores.score_v1(questions, {"1": "cat", "2": ""})


# Two questions have answers, three have none.
QUESTIONS = [
  question("right", "cat"),
  question("half", "cat mat"),
  question("none", *[]),
  question("wrong"),
  question("wrong too"),
]
PREDICTIONS = {
  "right": "cat",
  "half": "cat cat",
  "none": "",
  "wrong": "x",
  "wrong too": "y",
}


def test_version_2_separates_questions_with_and_without_answers():
  result = scores.score_v2(QUESTIONS, PREDICTIONS)
  expected = {
    "exact": 40.0,
    "f1": 50.0,
    "total": 5,
    "HasAns_exact": 50.0,
    "HasAns_f1": 75.0,
    "HasAns_total": 2,
    "NoAns_exact": 100 / 3,
    "NoAns_f1": 100 / 3,
    "NoAns_total": 3,
  }
  assert list(result) == list(expected)
  assert result == pytest.approx(expected, abs=1e-12)
  assert json.dumps(result)


def test_version_2_has_no_part_without_questions():
  for part, other in ((QUESTIONS[:2], "NoAns"), (QUESTIONS[2:], "HasAns")):
    result = scores.score_v2(part, PREDICTIONS)
    assert len(result) == 6 and not any(other in name for name in result)


def test_version_2_leaves_missing_predictions_out(caplog):
  some = {key: PREDICTIONS[key] for key in ("right", "wrong")}
  with caplog.at_level(logging.WARNING):
    result = scores.score_v2(QUESTIONS, some, {"right": 0, "wrong": 1})
  assert result["total"] == 2 and result["exact"] == 50
  assert (result["HasAns_total"], result["NoAns_total"]) == (1, 1)
  assert (result["best_exact"], result["best_exact_thresh"]) == (100, 0)
  assert re.search(says("3", "5", "have no", "left"), caplog.text)


def test_predictions_of_another_file_are_refused():
  for score in (scores.score_v1, scores.score_v2):
    with pytest.raises(errors.InputError, match="none of the 2 questions"):
      score(QUESTIONS[:2], {"x": "cat"})


@pytest.mark.parametrize(
  "odds, exact, f1",
  [
    # Sums of F1 (and exact) if the first 0, 1, ... questions are answered:
    # 3, 4 (4), 4.5 (4), 4.5, 3.5, 2.5.
    ([-5, -4, -3, -2, -1], (80, -5), (90, -4)),
    # 3, 3, 2, 1, 2, 2.5: answering none is best; the script reports 0.
    ([-2, -1, -5, -4, -3], (60, 0), (60, 0)),
    # The script may split equal odds: after the first -4, the F1 sum is 4.5.
    ([-5, -4, 0, -4, -4], (80, -5), (90, -4)),
  ],
)
def test_best_scores_are_those_of_the_official_script(odds, exact, f1):
  null_odds = dict(zip(PREDICTIONS, odds))
  result = scores.score_v2(QUESTIONS, PREDICTIONS, null_odds)
  result = {name: result[name] for name in result if name.startswith("best")}
  assert result == {
    "best_exact": exact[0],
    "best_exact_thresh": exact[1],
    "best_f1": f1[0],
    "best_f1_thresh": f1[1],
  }


def f1_above(threshold, odds):
  texts = {
    key: "" if odds[key] > threshold else text
    for key, text in PREDICTIONS.items()
  }
  return scores.score_v2(QUESTIONS, texts)["f1"]


@pytest.mark.parametrize(
  "odds, f1",
  [
    ([-5, -4, -3, -2, -1], 90),
    ([-5, 1, -3, 2, -5], 70),
    ([3, 4, 2, 1, 1], 60),
    ([-2, -1, -5, -4, -3], 60),
    # Equal odds are not split.
    ([-5, -4, 0, -4, -4], 80),
    ([7, 7, 7, 7, 7], 60),
    ([-1e30, 0, 0, 0, 1e30], 80),
  ],
)
def test_the_best_threshold_gives_the_best_f1(odds, f1):
  null_odds = dict(zip(PREDICTIONS, odds))
  threshold = scores.best_threshold(QUESTIONS, PREDICTIONS, null_odds)
  assert isinstance(threshold, float)
  assert f1_above(threshold, null_odds) == f1
  tried = [*odds, min(odds) - 1e31]
  assert f1 == max(f1_above(value, null_odds) for value in tried)


def test_odds_are_needed_for_every_prediction():
  odds = dict.fromkeys(["right", "half", "none", "wrong"], 0.0)
  for function in (scores.score_v2, scores.best_threshold):
    with pytest.raises(errors.InputError, match="1 of 5.*'wrong too'"):
      function(QUESTIONS, PREDICTIONS, odds)


def test_files_are_read(tmp_path):
  path = tmp_path / "some.json"
  for value_type, values, fault in (
    (str, {"a": "é", "b": ""}, "expected a number"),
    (float, {"a": 1, "b": -0.5}, "expected a string"),
  ):
    path.write_text(json.dumps(values))
    assert scores.read_by_id(str(path), value_type) == values
    with pytest.raises(errors.InputError, match=f"some.json: a is .*; {fault}"):
      scores.read_by_id(str(path), float if value_type is str else str)
