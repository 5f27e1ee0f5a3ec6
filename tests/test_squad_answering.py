"""Tests of answers and their files, against those of the original."""

import functools
import gzip
import json
import pathlib

import numpy as np
import pytest

import tokenization
from common import errors
from squad import answering, dataset, windowing

GOLDEN = pathlib.Path(__file__).parent / "golden"
RUNS = ["odd", "v1", "v1_ties", "v2", "xquad_ar", "xquad_tr", "xquad_zh"]


@pytest.fixture(scope="module")
def read_run(tmp_path_factory):
  """Returns a function: name -> (golden, arguments of find_answers)."""
  folder = tmp_path_factory.mktemp("squad")

  @functools.cache
  def vocabulary(name):
    packed = GOLDEN / "tokenization" / f"{name}_vocab.txt.gz"
    (folder / name).write_bytes(gzip.decompress(packed.read_bytes()))
    return str(folder / name)

  @functools.cache
  def read(name):
    packed = (GOLDEN / "squad" / "answers" / f"{name}.json.gz").read_bytes()
    golden = json.loads(gzip.decompress(packed))
    settings = answering.AnswerOptions(**golden["settings"])
    (folder / "squad.json").write_text(json.dumps(golden["squad"]))
    questions = dataset.read(
      str(folder / "squad.json"), version_2=settings.version_2_with_negative
    ).questions
    tokenizer = tokenization.FullTokenizer(
      vocabulary(golden["vocabulary"]), settings.do_lower_case
    )
    lengths = windowing.Lengths(**golden["lengths"])
    windows = list(windowing.make_windows(questions, tokenizer, lengths))
    logits = np.load(GOLDEN / "squad" / "answers" / f"{name}.npz")
    starts, ends = logits["start_logits"], logits["end_logits"]
    return golden, (questions, windows, starts, ends, settings)

  return read


@pytest.mark.parametrize("name", RUNS)
def test_files_are_the_originals(read_run, tmp_path, name):
  golden, arguments = read_run(name)
  answering.write(tmp_path, list(answering.find_answers(*arguments)))
  written = (tmp_path / "predictions.json").read_text()
  assert written == json.dumps(golden["predictions"], indent=4) + "\n"
  written = (tmp_path / "nbest_predictions.json").read_text()
  n_best = json.loads(written)
  # Form and order: read and written as the original would, nothing changes.
  assert written == json.dumps(n_best, indent=4) + "\n"
  assert list(n_best) == list(golden["nbest_predictions"])
  for qas_id, candidates in golden["nbest_predictions"].items():
    for ours, theirs in zip(n_best[qas_id], candidates, strict=True):
      assert list(ours) == list(theirs)
      assert ours == pytest.approx(theirs, abs=1e-9)
  odds = tmp_path / "null_odds.json"
  assert odds.exists() == ("null_odds" in golden)
  if odds.exists():
    found = json.loads(odds.read_text())
    assert odds.read_text() == json.dumps(found, indent=4) + "\n"
    assert list(found) == list(golden["null_odds"])
    assert found == pytest.approx(golden["null_odds"], abs=1e-9)


def test_another_threshold_needs_no_logits(read_run):
  _, (*arguments, settings) = read_run("v2")
  before = list(answering.find_answers(*arguments, settings))
  after = []
  for threshold in (-1e9, -16.0, 1e9):
    changed = settings._replace(null_score_diff_threshold=threshold)
    after.append(list(answering.find_answers(*arguments, changed)))
    assert list(answering.with_threshold(before, threshold)) == after[-1]
  none, some, every = [[a.text for a in answers] for answers in after]
  assert set(none) == {""} and "" not in every
  assert some != none and some != every


# A passage of three words, and a window of all of it:
# 0     1 2     3   4   5 6     7     8
# [CLS] q [SEP] one two , three [SEP] [PAD]
WORDS = ["One", "two,", "three"]
PASSAGE = dataset.Passage(
  tokens=["one", "two", ",", "three"],
  ids=np.arange(4),
  words=np.array([0, 1, 1, 2]),
  first_pieces=np.array([0, 1, 3]),
)
WINDOW = dataset.Window(
  unique_id=0,
  question_index=0,
  doc_span_index=0,
  question_tokens=["q"],
  question_ids=np.array([9]),
  passage=PASSAGE,
  start=0,
  length=4,
  is_max_context=np.ones(4, bool),
)
QUESTION = dataset.Question("id1", "q", WORDS, place="dev.json, question 1")
LOW = -50.0


def answer(starts, ends, *, windows=(WINDOW,), **settings):
  """Answers QUESTION; starts and ends are dicts of position -> logit."""
  logits = np.full((2, len(windows), 9), LOW, np.float32)
  for values, given in zip(logits, (starts, ends)):
    for position, value in given.items():
      values[:, position] = value
  (found,) = answering.find_answers(
    [QUESTION], list(windows), *logits, answering.AnswerOptions(**settings)
  )
  return found


def test_of_one_text_only_the_best_is_kept():
  # "two" and "two ," are not one text; both are found, each once.
  found = answer({4: 2.0}, {4: 1.0, 5: 0.5}, n_best_size=2)
  assert [c.text for c in found.candidates] == ["two", "two,"]
  twice = answer({4: 2.0}, {4: 1.0}, windows=[WINDOW] * 2, n_best_size=1)
  assert [c.text for c in twice.candidates] == ["two"]


def test_probabilities_are_among_the_candidates():
  found = answer({3: 1.0}, {3: 1.0, 4: 0.0, 6: -1.0}, n_best_size=3)
  shares = np.exp([2.0, 1.0, 0.0])
  assert [c.probability for c in found.candidates[:3]] == pytest.approx(
    shares / shares.sum(), abs=1e-12
  )


def test_without_any_span_the_answer_is_the_originals_word():
  found = answer({5: 1.0}, {4: 1.0}, n_best_size=1)
  assert found.text == "empty" and found.best_text == ""
  assert found.candidates == [("empty", 1.0, 0.0, 0.0)]
  assert found.null_odds is None
  assert answer({}, {}, windows=()).text == "empty"
  settings = answering.AnswerOptions()
  (found,) = answering.find_answers([QUESTION], [], [], [], settings)
  assert found.text == "empty"


def test_without_any_span_there_is_no_answer_in_version_2():
  found = answer({5: 1.0}, {4: 1.0}, n_best_size=1,
                 version_2_with_negative=True)  # fmt: skip
  assert found.text == found.best_text == ""
  assert found.candidates == [("", 1.0, LOW, LOW)]
  assert found.null_odds > 1000
  nothing = answer({}, {}, windows=(), version_2_with_negative=True)
  assert nothing[:5] == (
    "id1", "", [("", 1.0, 0.0, 0.0)], "", found.null_odds
  )


def test_no_answer_is_among_the_candidates_of_version_2():
  settings = {"version_2_with_negative": True, "n_best_size": 2}
  found = answer({0: 3.0, 3: 2.0}, {0: 3.0, 3: 2.5}, **settings)
  assert [c.text for c in found.candidates] == ["", "One"]
  # It comes last, and is one more, where others are better.
  found = answer({3: 4.0, 4: 3.9, 0: 3.8}, {4: 2.0, 3: 1.0}, **settings)
  assert [c.text for c in found.candidates] == ["One two", "two", ""]
  assert found.null_odds == pytest.approx(3.8 + LOW - 4.0 - 2.0, abs=1e-6)


def test_large_logits_have_probabilities():
  found = answer({3: 2000.0}, {3: 2000.0, 4: 2000.0}, n_best_size=2)
  assert [c.probability for c in found.candidates] == [0.5, 0.5]


def test_no_answer_is_given_above_the_threshold_only():
  starts, ends = {0: 2.0, 3: 1.0}, {0: 1.0, 3: 1.5}
  for threshold, text in ((0.5, "One"), (0.25, "")):
    found = answer(starts, ends, version_2_with_negative=True,
                   null_score_diff_threshold=threshold)  # fmt: skip
    assert found.null_odds == 0.5
    assert (found.text, found.best_text) == (text, "One")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("which", [0, 1])
def test_logits_that_are_no_numbers_are_refused(value, which):
  logits = [{3: 1.0}, {3: 1.0}]
  logits[which][4] = value
  with pytest.raises(errors.InputError, match=r"^dev.json.*'id1'"):
    answer(*logits)


def test_padding_may_be_left_uncomputed_but_not_be_nan():
  padding = {8: -np.inf}
  found = answer({3: 1.0, **padding}, {3: 1.0, **padding})
  assert found.text == "One"
  for position, value in ((7, -np.inf), (8, np.nan), (8, np.inf)):
    with pytest.raises(errors.InputError):
      answer({position: value}, {})


def test_as_many_rows_as_windows_are_needed():
  rows = np.zeros((2, 9), np.float32)
  for starts, ends in ((rows, rows[:1]), (rows[:1], rows)):
    with pytest.raises(ValueError, match="1 windows"):
      list(
        answering.find_answers(
          [QUESTION], [WINDOW], starts, ends, answering.AnswerOptions()
        )
      )


def test_questions_about_several_passages():
  other = PASSAGE._replace(tokens=["four", "five", "##s", "six"])
  questions = [
    QUESTION,
    QUESTION._replace(qas_id="id2", doc_tokens=["Four", "FiveS", "Six"]),
    QUESTION._replace(qas_id="id3"),
  ]
  windows = [
    WINDOW._replace(question_index=index, passage=passage)
    for index, passage in enumerate([PASSAGE, other, PASSAGE])
  ]
  logits = np.full((3, 9), LOW, np.float32)
  logits[:, 4:6] = 1.0
  found = answering.find_answers(
    questions, windows, logits, logits, answering.AnswerOptions(n_best_size=3)
  )
  texts = [[c.text for c in answer.candidates] for answer in found]
  assert [some[:3] for some in texts] == [
    ["two", "two,", ","], ["Five", "FiveS", "S"], ["two", "two,", ","]
  ]


def test_text_is_escaped_as_json_and_of_equal_ids_the_last_counts(tmp_path):
  candidates = [
    answering.Candidate('"é\\\n\u2028😀\ud800', 0.75, 1e-7, 1.0),
    answering.Candidate("", 0.25, -3.0, 1e22),
  ]
  answers = [
    answering.Answer('"ü', "first", candidates[1:], ""),
    answering.Answer("b", "é", candidates, ""),
    answering.Answer('"ü', "last", candidates, ""),
  ]
  answering.write(tmp_path, answers)
  expected = {'"ü': "last", "b": "é"}
  n_best = {key: [c._asdict() for c in candidates] for key in expected}
  for name, values in (
    ("predictions.json", expected), ("nbest_predictions.json", n_best)
  ):
    written = (tmp_path / name).read_text("ascii")
    assert written == json.dumps(values, indent=4) + "\n"
  assert len(list(tmp_path.iterdir())) == 2


def test_odds_of_other_answers_do_not_stay(tmp_path):
  answers = [answering.Answer("a", "x", [], "x", null_odds=1.0)]
  answering.write(tmp_path, answers)
  assert (tmp_path / "null_odds.json").exists()
  answering.write(tmp_path, [answers[0]._replace(null_odds=None)])
  names = {path.name for path in tmp_path.iterdir()}
  assert names == {"predictions.json", "nbest_predictions.json"}


def test_no_questions_give_empty_files(tmp_path):
  answering.write(tmp_path, [])
  for name in ("predictions.json", "nbest_predictions.json"):
    assert (tmp_path / name).read_text() == "{}\n"
