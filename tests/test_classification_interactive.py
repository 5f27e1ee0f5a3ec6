"""Texts classified as they come."""

import functools
import io
import json
import re

import numpy as np
import pytest

import tiny_model
from classification import classifier, input_data, interactive, tasks
from common import errors

LABELS = {"single": ("no", "yes"), "multi_label": ("a", "b"),
          "regression": (), "choice": ("0", "1")}


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory):
  return tiny_model.write_vocabulary(tmp_path_factory.mktemp("vocabulary"))


def make(vocab_file, kind, max_seq_length=12, batches=None, **options):
  """Returns a function of texts; `batches` gets the lengths of their rows."""
  chosen = input_data.InputOptions(
    kind=kind, labels=LABELS[kind], vocab_file=vocab_file,
    max_seq_length=max_seq_length, **options,
  )
  logits = logits_of(kind)

  def noting(batch):
    assert batch["input_ids"].shape[1] == batch["input_mask"].sum(1).max()
    if batches is not None:
      batches.append(batch["input_mask"].sum(1).tolist())
    return logits(batch)

  return interactive.TextClassifier(noting, chosen).predict_texts


@functools.cache
def logits_of(kind):
  """The network, compiled once."""
  return interactive.logits_of(classifier.ClassifierModel(
    tiny_model.tiny(), kind, classifier.num_outputs(kind, LABELS[kind]), seed=3
  ))


def test_a_text_has_its_label_whatever_stands_beside_it(vocab_file):
  predict_texts = make(vocab_file, "single")
  texts = [("w1 w2",), ("w3", "w4 w5 w6"), ("w1 " * 30,)]
  together = predict_texts(texts)
  for text, prediction in zip(texts, together):
    (alone,) = predict_texts([text])
    assert alone.label == prediction.label
    np.testing.assert_allclose(
      list(alone.scores.values()), list(prediction.scores.values()), atol=1e-6
    )
    assert sum(prediction.scores.values()) == pytest.approx(1)
    assert prediction.label == max(
      prediction.scores, key=prediction.scores.get
    )


def test_short_texts_share_a_larger_batch(vocab_file):
  batches = []
  predict_texts = make(vocab_file, "single", 32, batches)
  assert len(predict_texts([("w1",)] * 10, 2)) == 10
  # Of 3 tokens, as if of 8, in the room of 2 * 32.
  assert batches == [[3] * 8, [3] * 2]


@pytest.mark.parametrize("options", [{}, {"doc_stride": 5}])
def test_batches_of_like_length_answer_in_order(vocab_file, options):
  batches = []
  predict_texts = make(vocab_file, "single", batches=batches, **options)
  texts = [
    (" ".join(f"w{(3 * n + i) % 20}" for i in range(length)),)
    for n, length in enumerate([1, 17, 2, 9, 3, 30, 8])
  ]
  expected = predict_texts(texts)
  batches.clear()
  found = predict_texts(texts, 3)
  assert max(map(len, batches)) == 3
  lengths = sum(batches, [])
  assert lengths == sorted(lengths, reverse=True)
  for ours, theirs in zip(found, expected):
    assert ours.label == theirs.label
    np.testing.assert_allclose(
      list(ours.scores.values()), list(theirs.scores.values()), atol=1e-6
    )


def test_long_texts_have_windows(vocab_file):
  predict_texts = make(vocab_file, "single", doc_stride=5)
  text = " ".join(f"w{number}" for number in range(20))
  long, short = predict_texts([(text,), ("w1",)])
  assert short.scores == pytest.approx(
    predict_texts([("w1",)])[0].scores, abs=1e-6
  )
  cut = make(vocab_file, "single")([(text,)])[0]
  assert cut.scores != pytest.approx(long.scores, abs=1e-4)


def test_every_kind_answers_in_its_form(vocab_file):
  number = make(vocab_file, "regression")([("w1",)])[0]
  assert isinstance(number.label, float) and number.scores == {}
  classes = make(vocab_file, "multi_label")([("w1",)])[0]
  assert classes.label == tuple(
    name for name, score in classes.scores.items() if score >= 0.5
  )
  ending = make(vocab_file, "choice")([("w1", "w2", "w3 w4")])[0]
  assert set(ending.scores) == {"0", "1"} and ending.label in "01"


@pytest.mark.parametrize(
  "kind, parts, sentence",
  [
    ("single", ("w1", "w2", "w3"), "one text or two .* and these are 3"),
    ("choice", ("w1", "w2"), "a text and 2 endings"),
  ],
)
def test_too_many_or_too_few_texts_are_refused(
  vocab_file, kind, parts, sentence
):
  with pytest.raises(errors.InputError, match=sentence):
    make(vocab_file, kind)([parts])


def test_a_tab_or_bars_part_texts():
  split = interactive.split_texts
  assert split("one text") == ("one text",)
  assert split("one ||| two ") == ("one", "two")
  assert split("a ||| b\tc\td") == ("a ||| b", "c", "d")


def test_a_single_text_is_not_split():
  for line in ("a ||| b", "a\tb"):
    assert interactive.split_texts(line, text_pairs=False) == (line,)
    assert interactive.split_texts(line, text_pairs=True) == ("a", "b")


@pytest.mark.parametrize(
  "kind, labels, text_pairs, said",
  [
    ("single", ("bad", "good"), False,
     "Type a text; the answer is the class and the scores of bad, good."),
    ("regression", (), True, "Type two texts .*; the answer is a number."),
    ("single", ("a", "b"), None, "Type a text, or two with a tab"),
    ("choice", tuple("0123"), True, "Type a text and 4 endings"),
  ],
)
def test_the_greeting_says_what_to_type_and_names_the_classes(
  kind, labels, text_pairs, said
):
  task = tasks.ClassifierTask(
    "own data", kind, labels, (), {}, text_pairs=text_pairs
  )
  assert re.match(said, interactive.greeting(task))


def fake_predictions(texts, batch_size):
  assert batch_size in (1, 3, 8)
  return [
    interactive.Prediction(text[0].upper(), {"A": 0.25, "B": 0.75})
    for text in texts
  ]


def answers(data, output_format="tsv", **options):
  target = io.StringIO()
  interactive.answer_lines(
    fake_predictions, io.BytesIO(data), target, output_format=output_format,
    batch_size=3, **options,
  )
  return target.getvalue()


def test_every_line_has_an_answer_in_its_place():
  data = b"a\n\nb\r\nc\td\n\xc3\xa9"
  first, empty, *others = answers(data).splitlines()
  assert empty.startswith("error\tthe line: an empty text")
  assert [first, *others] == [f"{text}\t0.25\t0.75" for text in "ABC\xc9"]
  first, empty, *_ = map(json.loads, answers(data, "json").splitlines())
  assert first == {"label": "A", "scores": {"A": 0.25, "B": 0.75}}
  assert "an empty text" in empty["error"]


def test_numbers_and_lists_of_classes_are_written_plainly():
  show = interactive.format_prediction
  number = interactive.Prediction(2.5, {})
  assert show(number, "tsv") == "2.5"
  assert show(number, "json") == '{"label": 2.5}'
  several = interactive.Prediction(("a", "b"), {"a": 0.5, "b": 1.0})
  assert show(several, "tsv") == "a,b\t0.5\t1"
  assert json.loads(show(several, "json"))["label"] == ["a", "b"]


def one_text_each(texts, batch_size):
  for parts in texts:
    if len(parts) > 1:
      raise errors.InputError(f"expected one\ttext, got {len(parts)}")
  return fake_predictions(texts, batch_size)


@pytest.mark.parametrize("batch_size", [1, 8])
def test_a_line_that_cannot_be_read_takes_no_other_with_it(batch_size):
  data = b"a\n\xff\nb\tc\nd\n"
  found = {}
  for output_format in interactive.FORMATS:
    target = io.StringIO()
    bad = interactive.answer_lines(
      one_text_each, io.BytesIO(data), target, output_format=output_format,
      batch_size=batch_size,
    )
    assert bad == 2
    found[output_format] = target.getvalue().split("\n")
  assert found["tsv"] == [
    "A\t0.25\t0.75", "error\tnot UTF-8 (byte 0 of the line); send UTF-8",
    "error\texpected one text, got 2", "D\t0.25\t0.75", "",
  ]
  first, second, third = map(json.loads, found["json"][:3])
  assert first["label"] == "A" and third == {
    "error": "expected one text, got 2"
  }
  assert second["error"].startswith("not UTF-8")


def test_lines_before_a_fault_of_the_source_are_answered():
  def source():
    yield b"a\n"
    raise OSError("the pipe broke")

  target = io.StringIO()
  with pytest.raises(OSError, match="the pipe broke"):
    interactive.answer_lines(
      fake_predictions, source(), target, output_format="tsv", batch_size=3
    )
  assert target.getvalue() == "A\t0.25\t0.75\n"
