"""From a model's logits to answers, with a model that can be followed."""

import json

import numpy as np
import pytest
import tensorflow as tf

import tokenization
from squad import (
  answering,
  dataset,
  input_data,
  null_threshold,
  prediction,
  windowing,
)

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "f", "b", "c", "d", "e"]
LENGTHS = windowing.Lengths(12, 4, 4)
CONTEXT = "f b c d e b d c b f"


def model(batch):
  """The last letter of the alphabet begins and ends the answer.

  Padding has the highest logits of all.
  """
  ids = tf.cast(batch["input_ids"], tf.float32)
  logits = tf.where(batch["input_mask"] > 0, ids, 100.0)
  return logits, logits - 1.0


@pytest.fixture
def tokenizer(tmp_path):
  path = tmp_path / "vocab.txt"
  path.write_text("".join(f"{token}\n" for token in VOCAB))
  return tokenization.FullTokenizer(str(path))


@pytest.fixture
def make(tokenizer):
  """A function of (trim, threshold text, version 2, ...) -> Answerer."""

  def make_answerer(
    trim=True, threshold=None, version_2=False, mask_padding=True, n_best=20
  ):
    return prediction.Answerer(
      model,
      strategy=tf.distribute.get_strategy(),
      tokenizer=tokenizer,
      lengths=LENGTHS,
      options=answering.AnswerOptions(
        n_best_size=n_best,
        max_answer_length=2,
        version_2_with_negative=version_2,
      ),
      threshold=null_threshold.NullThreshold(threshold, lambda: "a"),
      trim=trim,
      mask_padding=mask_padding,
    )

  return make_answerer


@pytest.fixture
def prepare(tokenizer, tmp_path):
  """A function of (question, context, answer) rows -> SquadInput."""

  def prepare_rows(*rows):
    paragraphs = [
      {"context": context, "qas": [
        {"id": str(number), "question": question, "is_impossible": not answer,
         "answers": [{"text": answer, "answer_start": 0}] if answer else []}
      ]}
      for number, (question, context, answer) in enumerate(rows)
    ]
    path = tmp_path / "dev.json"
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    return input_data.prepare(
      dataset.read(str(path), version_2=True), tokenizer, LENGTHS,
      records=str(tmp_path / "dev.tf_record"),
    )

  return prepare_rows


def make_batch(tokenizer, context):
  questions = dataset.from_texts([("who", context)])
  windows = list(windowing.make_windows(questions, tokenizer, LENGTHS))
  batch = input_data.make_batch(windows, tokenizer, 12)
  return {name: tf.constant(value) for name, value in batch.items()}


def test_padding_is_no_candidate_trimmed_or_not(tokenizer):
  batch = make_batch(tokenizer, "f b")
  for trim in (False, True):
    outputs = prediction.window_logits(model, batch, trim=trim)
    expected = [[2, 4, 3, 5, 6, 3] + [-np.inf] * 6]
    np.testing.assert_array_equal(outputs["start"], expected)
    np.testing.assert_array_equal(outputs["end"], np.array(expected) - 1)


def test_padding_has_the_models_logits_where_it_competes(tokenizer):
  batch = make_batch(tokenizer, "f b")
  outputs = prediction.window_logits(
    model, batch, trim=False, mask_padding=False
  )
  expected = [[2, 4, 3, 5, 6, 3] + [100] * 6]
  np.testing.assert_array_equal(outputs["start"], expected)


def test_padding_takes_places_where_it_competes(make, prepare):
  """As in the original: six padded positions leave one of seven places."""
  data = prepare(("who", "f b", "f"))
  texts = []
  for mask_padding in (True, False):
    answerer = make(trim=False, mask_padding=mask_padding, n_best=7)
    (answer,) = answerer.answers(data, 1)
    texts.append([candidate.text for candidate in answer.candidates])
  assert texts == [["b", "f b", "f"], ["b"]]


def test_only_what_is_cut_off_is_not_computed(tokenizer):
  seen = []

  def watched(batch):
    seen.append(batch["input_ids"].shape[1])
    return model(batch)

  batch = make_batch(tokenizer, "f b")
  for trim in (False, True):
    prediction.window_logits(watched, batch, trim=trim)
  assert seen == [12, 8]  # Cut to a multiple of eight.


@pytest.mark.parametrize("trim", [False, True])
@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_every_question_gets_its_answer(make, prepare, trim, batch_size):
  data = prepare(
    ("who", CONTEXT, "e"), ("", "f", "f"), ("who", "\u200b", "x"),
    ("who who who who who", "c b", "b"),
  )
  answerer = make(trim)
  answers = answerer.answers(data, batch_size)
  texts = ["e", "f", "empty", "c"]
  assert [answer.text for answer in answers] == texts
  assert answerer.scores(data.file, answers) == {
    "exact_match": 50.0, "f1": 50.0
  }
  assert answerer.result_names(data.file) == ["exact_match", "f1"]
  rows = [("who", CONTEXT), ("", "f"), ("who", "\u200b"), ("who", "c b")]
  for (question, context), answer in zip(rows, answers):
    alone = answerer.answer(question, context, batch_size)
    assert alone._replace(qas_id=answer.qas_id, null_score=None) == answer
    # 2 + 1, of [CLS]; 0 without a window.
    assert alone.null_score == (3.0 if alone.best_text else 0.0)


def test_a_threshold_is_found_where_asked_for(make, prepare):
  # "No answer" scores 2 + 1, a letter 5 + 4 and more: odds of -6, -14.
  data = prepare(("who", "f", ""), ("who", "e", "e"))
  found = make(threshold="auto", version_2=True)
  answers = found.answers(data, 2, find_threshold=True)
  assert [answer.text for answer in answers] == ["", "e"]
  assert -14 <= found.threshold.value < -6
  results = found.scores(data.file, answers)
  assert results["f1"] == 100.0
  assert results.keys() == set(found.result_names(data.file))
  assert results["null_score_diff_threshold"] == found.threshold.value
  assert found.answer("who", "f", 1).text == ""

  given = make(threshold="0", version_2=True)
  answers = given.answers(data, 2)
  assert [answer.text for answer in answers] == ["f", "e"]
  assert given.scores(data.file, answers)["f1"] == 50.0
