"""Compares answers from logits, and their files, with the original's."""

import functools
import gzip
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import small_corpus
import tiny_model
import tokenization
from common import errors, run_settings
from squad import answerer, answers, data, inputs, null_threshold, windowing

GOLDEN = pathlib.Path(__file__).parent / "golden"
RUNS = ["odd", "v1", "v1_ties", "v2", "xquad_ar", "xquad_tr", "xquad_zh"]


@pytest.fixture(scope="module")
def read_run(tmp_path_factory):
  folder = tmp_path_factory.mktemp("squad")

  vocabulary = functools.cache(
    lambda name: small_corpus.released_vocab(
      tmp_path_factory.mktemp("vocab"), name
    )
  )

  @functools.cache
  def read(name):
    packed = (GOLDEN / "squad" / "answers" / f"{name}.json.gz").read_bytes()
    golden = json.loads(gzip.decompress(packed))
    lower = golden["settings"].pop("do_lower_case")
    options = answers.AnswerOptions(**golden["settings"])
    (folder / "squad.json").write_text(json.dumps(golden["squad"]))
    questions = data.read(
      str(folder / "squad.json"), version_2=options.version_2_with_negative
    ).questions
    tokenizer = tokenization.FullTokenizer(
      vocabulary(golden["vocabulary"]), lower
    )
    lengths = windowing.Lengths(**golden["lengths"])
    windows = list(windowing.make_windows(questions, tokenizer, lengths))
    arrays = np.load(GOLDEN / "squad" / "answers" / f"{name}.npz")
    logits = {part: arrays[f"{part}_logits"] for part in ("start", "end")}
    return golden, (questions, windows, logits, options, tokenizer)

  return read


@pytest.mark.parametrize("name", RUNS)
def test_files_are_the_originals(read_run, tmp_path, name):
  golden, arguments = read_run(name)
  answers.write(str(tmp_path), answers.find_answers(*arguments))
  written = {path.stem: path.read_text() for path in tmp_path.iterdir()}
  results = {stem: json.loads(text) for stem, text in written.items()}
  for stem, text in written.items():
    # The format and the order equal the original's.
    assert text == json.dumps(results[stem], indent=4) + "\n"
    assert list(results[stem]) == list(golden[stem])
  assert results["predictions"] == golden["predictions"]
  for qas_id, golden_candidates in golden["nbest_predictions"].items():
    candidates = results["nbest_predictions"][qas_id]
    for candidate, expected in zip(candidates, golden_candidates, strict=True):
      assert list(candidate) == list(expected)
      assert candidate == pytest.approx(expected, abs=1e-9)
  assert ("null_odds" in results) == ("null_odds" in golden)
  if "null_odds" in results:
    assert results["null_odds"] == pytest.approx(golden["null_odds"], abs=1e-9)


def test_another_threshold_needs_no_logits(read_run):
  _, (*arguments, options, tokenizer) = read_run("v2")
  before = answers.find_answers(*arguments, options, tokenizer)
  after = []
  for threshold in (-1e9, -16.0, 1e9):
    changed = options._replace(null_score_diff_threshold=threshold)
    after.append(answers.find_answers(*arguments, changed, tokenizer))
    assert answers.with_threshold(before, threshold) == after[-1]
  none, some, every = [[a.text for a in results] for results in after]
  assert set(none) == {""} and "" not in every
  assert some != none and some != every


# A passage of three words, and a window with the whole passage:
# 0     1 2     3   4   5 6     7     8
# [CLS] q [SEP] one two , three [SEP] [PAD]
WORDS = ["One", "two,", "three"]
PASSAGE = windowing.Passage(
  ["one", "two", ",", "three"], np.arange(4), np.array([0, 1, 1, 2])
)
WINDOW = windowing.Window(
  0,
  0,
  0,
  ["q"],
  np.array([9]),
  PASSAGE,
  start=0,
  length=4,
  is_max_context=np.ones(4, bool),
)
QUESTION = data.Question("id1", "q", WORDS, place="dev.json, question 1")
LOW = -50.0
TOKENIZER = object.__new__(tokenization.FullTokenizer)  # Needs no vocabulary.
TOKENIZER.basic_tokenizer = tokenization.BasicTokenizer()


def answer(starts, ends, *, windows=(WINDOW,), **options):
  """Answers QUESTION; starts and ends are {position: logit}."""
  logits = {
    name: np.full((len(windows), 9), LOW, np.float32)
    for name in ("start", "end")
  }
  for values, position_values in zip(logits.values(), (starts, ends)):
    for position, value in position_values.items():
      values[:, position] = value
  (result,) = answers.find_answers(
    [QUESTION],
    list(windows),
    logits,
    answers.AnswerOptions(**options),
    TOKENIZER,
  )
  return result


def test_of_equal_texts_only_the_best_is_kept():
  # "two" and "two," are different texts, and each occurs once.
  result = answer({4: 2.0}, {4: 1.0, 5: 0.5}, n_best_size=2)
  assert [c.text for c in result.candidates] == ["two", "two,"]
  twice = answer({4: 2.0}, {4: 1.0}, windows=[WINDOW] * 2, n_best_size=1)
  assert [c.text for c in twice.candidates] == ["two"]


def test_the_best_answers_have_offsets_in_the_passage():
  """Offsets count the white space of the passage, which the words lack."""
  context, starts, ends = "One  two,\nthree", {3: 3.0, 4: 2.0}, {5: 1.0, 6: 0.5}
  best = answers.n_best(answer(starts, ends), context, 3)
  assert [item["score"] for item in best] == [4.0, 3.5, 3.0]
  assert [
    (item["answer"], context[item["start"] : item["end"]]) for item in best
  ] == [
    ("One two,", "One  two,"),
    ("One two, three", context),
    ("two,", "two,"),
  ]
  weights = np.exp([4.0, 3.5, 3.0, 2.5])
  np.testing.assert_allclose(
    [item["probability"] for item in best], weights[:3] / weights.sum()
  )
  (null, *_) = answers.n_best(
    answer({0: 9.0, **starts}, {0: 9.0, **ends}, version_2_with_negative=True),
    context,
    1,
  )
  assert (null["answer"], null["score"], null["end"]) == ("", 18.0, 0)
  (nothing,) = answers.n_best(answer({}, {}, windows=()), context, 5)
  assert (nothing["answer"], nothing["start"], nothing["end"]) == ("", 0, 0)


def test_large_logits_do_not_overflow():
  result = answer({3: 2000.0}, {3: 2000.0, 4: 2000.0}, n_best_size=2)
  assert [c.probability for c in result.candidates] == [0.5, 0.5]


def test_without_spans_the_answer_is_empty_as_in_the_original():
  result = answer({5: 1.0}, {4: 1.0}, n_best_size=1)
  assert result.text == "empty" and result.best_text == ""
  assert result.candidates == [("empty", 1.0, 0.0, 0.0)]
  assert result.null_odds is None and result.null_score == 2 * LOW
  assert answer({}, {}, windows=()).text == "empty"


def test_without_spans_there_is_no_answer_in_version_2():
  version_2 = {"version_2_with_negative": True}
  result = answer({5: 1.0}, {4: 1.0}, n_best_size=1, **version_2)
  assert result.text == result.best_text == ""
  assert result.candidates == [("", 1.0, LOW, LOW)]
  assert result.null_odds == 1e6  # As in the original.
  nothing = answer({}, {}, windows=(), **version_2)
  assert nothing == (
    "id1",
    "",
    [("", 1.0, 0.0, 0.0)],
    "",
    result.null_odds,
    None,
    {},
    0.0,
  )


def test_there_is_no_answer_only_above_the_threshold():
  starts, ends = {0: 2.0, 3: 1.0}, {0: 1.0, 3: 1.5}
  for threshold, text in ((0.5, "One"), (0.25, "")):
    result = answer(
      starts,
      ends,
      version_2_with_negative=True,
      null_score_diff_threshold=threshold,
    )
    assert result.null_odds == 0.5
    assert (result.text, result.best_text) == (text, "One")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("which", [0, 1])
def test_logits_that_are_not_finite_are_refused(value, which):
  logits = [{3: 1.0}, {3: 1.0}]
  logits[which][4] = value
  with pytest.raises(errors.InputError, match=r"^dev.json.*'id1'"):
    answer(*logits)


def test_padding_may_be_minus_infinity_but_not_nan():
  padding = {8: -np.inf}
  result = answer({3: 1.0, **padding}, {3: 1.0, **padding})
  assert result.text == "One"
  for position, value in ((7, -np.inf), (8, np.nan), (8, np.inf)):
    with pytest.raises(errors.InputError):
      answer({position: value}, {})


def test_text_is_escaped_as_json_and_of_equal_ids_the_last_counts(tmp_path):
  candidates = [
    answers.Candidate('"é\\\n\u2028😀\ud800', 0.75, 1e-7, 1.0),
    answers.Candidate("", 0.25, -3.0, 1e22),
  ]
  answers.write(
    str(tmp_path),
    [
      answers.Answer('"ü', "first", candidates[1:], ""),
      answers.Answer("b", "é", candidates, ""),
      answers.Answer('"ü', "last", candidates, ""),
    ],
  )
  expected = {'"ü': "last", "b": "é"}
  n_best = {key: [c._asdict() for c in candidates] for key in expected}
  for name, values in (
    ("predictions.json", expected),
    ("nbest_predictions.json", n_best),
  ):
    written = (tmp_path / name).read_text("ascii")
    assert written == json.dumps(values, indent=4) + "\n"
  assert len(list(tmp_path.iterdir())) == 2


def test_null_odds_of_earlier_answers_are_removed(tmp_path):
  result = answers.Answer("a", "x", [], "x", null_odds=1.0)
  answers.write(str(tmp_path), [result])
  assert (tmp_path / "null_odds.json").exists()
  answers.write(str(tmp_path), [result._replace(null_odds=None)])
  names = {path.name for path in tmp_path.iterdir()}
  assert names == {"predictions.json", "nbest_predictions.json"}


SETTINGS = {
  "max_seq_length": 12,
  "doc_stride": 4,
  "max_query_length": 4,
  "n_best_size": 20,
  "max_answer_length": 2,
  "version_2_with_negative": False,
  "pad_to_max_length": False,
  "f1_units": "auto",
}
LENGTHS = windowing.Lengths(12, 4, 4)
CONTEXT = "f b c d e b d c b f"


def model(batch):
  """Larger ids have larger logits, and padding has the largest logits."""
  ids = tf.cast(batch["input_ids"], tf.float32)
  logits = tf.where(batch["input_mask"] > 0, ids, 100.0)
  return logits, logits - 1.0


def network(**batch):
  start, end = model({n: tf.constant(value) for n, value in batch.items()})
  return {"start_logits": start.numpy(), "end_logits": end.numpy()}


@pytest.fixture
def tokenizer(tmp_path):
  return tokenization.FullTokenizer(
    tiny_model.write_vocabulary(tmp_path, ["who", *"fbcde"])
  )


@pytest.fixture
def make(tokenizer):
  return lambda threshold=None, **settings: answerer.Answerer(
    run_settings.Settings({**SETTINGS, **settings}),
    model,
    tokenizer,
    tf.distribute.get_strategy(),
    null_threshold.NullThreshold(threshold, lambda: "a"),
  )


@pytest.fixture
def prepare(tokenizer, tmp_path):
  def prepare_rows(*rows):
    paragraphs = [
      {
        "context": context,
        "qas": [
          {
            "id": str(number),
            "question": question,
            "is_impossible": not answer,
            "answers": [{"text": answer, "answer_start": 0}] if answer else [],
          }
        ],
      }
      for number, (question, context, answer) in enumerate(rows)
    ]
    path = tmp_path / "dev.json"
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    return inputs.prepare(
      data.read(str(path), version_2=True),
      tokenizer,
      LENGTHS,
      records=str(tmp_path / "dev.tf_record"),
    )

  return prepare_rows


def test_padding_is_cut_off_unless_it_competes(tokenizer):
  widths = []

  def watched(batch):
    widths.append(batch["input_ids"].shape[1])
    return model(batch)

  questions = data.from_texts([("who", "f b")])
  windows = list(windowing.make_windows(questions, tokenizer, LENGTHS))
  batch = windowing.make_batch(windows, tokenizer, 12)
  batch = {name: tf.constant(value) for name, value in batch.items()}
  for trim, mask_padding, padding in (
    (False, True, -np.inf),
    (True, True, -np.inf),
    (False, False, 100),
  ):
    outputs = answerer.window_logits(
      watched, batch, trim=trim, mask_padding=mask_padding
    )
    expected = np.array([[2, 5, 3, 6, 7, 3] + [padding] * 6])
    np.testing.assert_array_equal(outputs["start"], expected)
    np.testing.assert_array_equal(outputs["end"], expected - 1)
  assert widths == [12, 8, 12]  # Cut to a multiple of eight.


def test_padding_displaces_candidates_where_it_competes(make, prepare):
  """As in the original: six padded positions leave one of seven candidates."""
  file = prepare(("who", "f b", "f"))
  for pads, texts in ((False, ["b", "f b", "f"]), (True, ["b"])):
    answerer = make(pad_to_max_length=pads, n_best_size=7)
    (result,) = answerer.answers(file, 1)
    assert [candidate.text for candidate in result.candidates] == texts


@pytest.mark.parametrize("pads", [False, True])
@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_every_question_gets_its_answer(
  make, prepare, tokenizer, pads, batch_size
):
  rows = [
    ("who", CONTEXT, "e"),
    ("", "f", "f"),
    ("who", "\u200b", "x"),
    ("who who who who who", "c b", "b"),
  ]
  file = prepare(*rows)
  squad_answerer = make(pad_to_max_length=pads)
  results = squad_answerer.answers(file, batch_size)
  assert [result.text for result in results] == ["e", "f", "empty", "c"]
  # The logits of [CLS] are 2 and 1. Without a window, the score is 0.
  assert [result.null_score for result in results] == [3.0, 3.0, 0.0, 3.0]
  scores = {"exact_match": 50.0, "f1": 50.0}
  assert squad_answerer.scores(file.file, results)[0] == scores
  assert squad_answerer.result_names(file.file) == list(scores)
  if not pads:
    texts = answers.answer_texts(
      [row[:2] for row in rows],
      network,
      tokenizer,
      LENGTHS,
      answers.options_of(run_settings.Settings(SETTINGS)),
      batch_size=batch_size,
    )
    for text_answer, file_answer in zip(texts, results, strict=True):
      assert text_answer[1:] == file_answer[1:]
