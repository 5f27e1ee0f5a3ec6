"""Tests which units the F1 of answers counts."""

import json

import pytest

import script_runner
from squad import answer_units, data, scores


@pytest.mark.parametrize(
  "answers, units",
  [
    (["the Cat", "北"], "words"),
    ([], "words"),
    (["1998", "--"], "words"),
    (["北京", "1998年", "PC"], "mixed"),
    (["東京タワー"], "characters"),
    (["서울특별시", "세종 대왕"], "characters"),
    (["กรุงเทพมหานคร"], "characters"),
    (["ພາສາລາວ"], "characters"),
    (["ភ្នំពេញ"], "characters"),
    (["ရန်ကုန်"], "characters"),
    (["Zürich", "Київ", "العربية", "दिल्ली"], "words"),
  ],
)
def test_units_by_the_script_of_the_answers(answers, units):
  assert answer_units.of_answers(answers) == units


@pytest.mark.parametrize(
  "answers, units",
  [
    # Half of the letters are enough for words, a tenth of kana for mixed.
    (["ab北京"], "words"),
    (["a北京"], "mixed"),
    (["北" * 9 + "タ"], "mixed"),
    (["北" * 8 + "タ"], "characters"),
  ],
)
def test_the_shares_that_decide_are_exact(answers, units):
  assert answer_units.of_answers(answers) == units


@pytest.mark.parametrize(
  "answer, fact",
  [
    ("東京タワー", "F1 counts characters (--f1_units=characters)"),
    ("北京", "F1 counts Han characters and words (--f1_units=mixed)"),
    ("Oslo", None),
  ],
)
def test_other_units_than_words_are_said_once(answer, fact, caplog):
  answer_units._say.cache_clear()
  caplog.set_level("INFO", logger="absl")
  for _ in range(2):
    answer_units.of_answers([answer])
  assert len(caplog.messages) == bool(fact)
  assert not fact or caplog.messages[0].endswith(fact)


# Counted by hand with the rules of MLQA's and KorQuAD's scripts.
CASES = [
  # MLQA: "北京市" has 3 units, "北京" 2, and 2 are common.
  ("北京", "北京市。", "mixed", 0, 2 * 2 / 5),
  ("《北京》", "北京", "mixed", 1, 1),
  # A number is one word.
  ("1998年", "1998 年5月", "mixed", 0, 2 * 2 / 6),
  ("the 北京", "北京", "mixed", 0, 2 * 2 / 5),
  # KorQuAD: 4 of 4 and 5 characters.
  ("세종대왕", "세종대왕은", "characters", 0, 2 * 4 / 9),
  ("‘세종’ 대왕!", "세종 대왕", "characters", 1, 1),
  # Spaces count only for the exact match.
  ("세종대왕", "세종 대왕", "characters", 0, 1),
  ("กรุงเทพ", "กรุงเทพฯ", "characters", 0, 2 * 7 / 15),
  ("東京タワー", "東京", "characters", 0, 2 * 2 / 7),
]


@pytest.mark.parametrize("predicted, gold, units, exact, f1", CASES)
@pytest.mark.parametrize("version_2", [False, True])
def test_exact_match_and_f1(predicted, gold, units, exact, f1, version_2):
  result = scores.compare(predicted, (gold,), version_2=version_2, units=units)
  assert result == pytest.approx((exact, f1), abs=1e-12)
  question = data.Question("1", "?", [], answers=(gold,), place="a.json")
  predictions, options = {"1": predicted}, {"version_2": version_2}
  if answer_units.of_answers([gold]) == units:
    points = scores.compare_all([question], predictions, **options)
    assert points["1"] == pytest.approx((exact, f1), abs=1e-12)
  options["units"] = "words"
  points = scores.compare_all([question], predictions, **options)
  assert points["1"][1] in (0, 1) or " " in gold


def test_the_threshold_has_the_best_f1_of_the_units():
  questions = [
    data.Question("1", "?", [], answers=("세종대왕은",)),
    data.Question("2", "?", [], answers=()),
  ]
  texts, odds = {"1": "세종대왕", "2": "x"}, {"1": -1.0, "2": 3.0}
  # By words, the first answer has no point.
  assert scores.best_threshold(questions, texts, odds) == -1.0
  assert scores.best_threshold(questions, texts, odds, units="words") < -1.0


def test_predictions_of_a_file_are_scored_by_characters(tmp_path):
  context = "세종대왕은 조선의 왕이다."
  file, predictions = tmp_path / "dev.json", tmp_path / "predictions.json"
  answers = [{"text": "세종대왕은", "answer_start": 0}]
  qas = [{"id": "1", "question": "누구?", "answers": answers}]
  file.write_text(
    json.dumps({"data": [{"paragraphs": [{"context": context, "qas": qas}]}]})
  )
  predictions.write_text(json.dumps({"1": "세종대왕"}))
  flags = {"predict_file": file, "predictions_file": predictions}
  for units, expected in (("auto", 800 / 9), ("words", 0.0)):
    done = script_runner.succeed(
      "run_squad.py", evaluate_only=True, f1_units=units, **flags
    )
    (f1,) = [n for n in done.out.splitlines() if n.startswith("f1 = ")]
    assert float(f1[5:]) == pytest.approx(expected)
    assert ("--f1_units=characters" in done.err) == (units == "auto")
