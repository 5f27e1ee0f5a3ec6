"""Texts classified as they come, and files of predictions."""

import csv
import functools
import io
import json
import re

import numpy as np
import pytest

import tiny_model
from classification import answers, model, sequences
from classification.data import Example
from common import errors

LABELS = {"single": ("no", "yes"), "multi_label": ("a", "b"),
          "regression": (), "choice": ("0", "1")}


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory):
  return tiny_model.write_vocabulary(tmp_path_factory.mktemp("vocabulary"))


def make(vocab_file, kind, max_seq_length=12, batches=None, **options):
  """Returns a function of texts; `batches` gets the lengths of their rows."""
  chosen = sequences.InputOptions(
    task_kind=kind, labels=LABELS[kind], vocab_file=vocab_file,
    max_seq_length=max_seq_length, **options,
  )
  logits = logits_of(kind)

  def noting(batch):
    assert batch["input_ids"].shape[1] == batch["input_mask"].sum(1).max()
    if batches is not None:
      batches.append(batch["input_mask"].sum(1).tolist())
    return logits(batch)

  return functools.partial(answers.predict_texts, noting, chosen)


@functools.cache
def logits_of(kind):
  """The network, compiled once."""
  return model.logits_of(model.ClassifierModel(
    tiny_model.tiny(), kind, model.num_outputs(kind, LABELS[kind]), seed=3
  ))


def test_short_texts_share_a_larger_batch(vocab_file):
  batches = []
  predict_texts = make(vocab_file, "single", 32, batches)
  assert len(predict_texts([("w1",)] * 10, 2)) == 10
  # Of 3 tokens, as if of 8, in the room of 2 * 32.
  assert batches == [[3] * 8, [3] * 2]


@pytest.mark.parametrize("options", [{}, {"doc_stride": 5}])
def test_batches_of_like_length_answer_in_order(vocab_file, options):
  """A text has its label, whatever its neighbours are."""
  batches = []
  predict_texts = make(vocab_file, "single", batches=batches, **options)
  texts = [
    (" ".join(f"w{(3 * n + i) % 20}" for i in range(length)),)
    for n, length in enumerate([1, 17, 2, 9, 3, 30, 8])
  ] + [("w3", "w4 w5 w6")]
  expected = predict_texts(texts)
  for prediction in expected:
    assert sum(prediction.scores.values()) == pytest.approx(1)
    best = max(prediction.scores, key=prediction.scores.get)
    assert prediction.label == best
  batches.clear()
  for found, other in zip(predict_texts(texts, 3), expected, strict=True):
    assert found.label == other.label
    assert found.scores == pytest.approx(other.scores, abs=1e-6)
  assert max(map(len, batches)) == 3
  lengths = sum(batches, [])
  assert lengths == sorted(lengths, reverse=True)
  for text, other in zip(texts, expected):
    (found,) = predict_texts([text])
    assert found.label == other.label
    assert found.scores == pytest.approx(other.scores, abs=1e-6)


def test_long_texts_have_windows(vocab_file):
  text = (" ".join(tiny_model.WORDS),)
  (long,) = make(vocab_file, "single", doc_stride=5)([text])
  (cut,) = make(vocab_file, "single")([text])
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


@pytest.mark.parametrize("kind, parts, said", [
  ("single", ("w1", "w2", "w3"), "one text or two .* got "),
  ("choice", ("w1", "w2"), "a text and 2 endings"),
])
def test_a_wrong_number_of_texts_is_refused(vocab_file, kind, parts, said):
  with pytest.raises(errors.InputError, match=said):
    make(vocab_file, kind)([parts])


def test_a_tab_or_bars_part_texts():
  split = answers.split_texts
  assert split("one text") == ("one text",)
  assert split("one ||| two ") == ("one", "two")
  assert split("a ||| b\tc\td") == ("a ||| b", "c", "d")
  # A model of single texts, and one of pairs.
  for line in ("a ||| b", "a\tb"):
    assert split(line, text_pairs=False) == (line,)
    assert split(line, text_pairs=True) == ("a", "b")


@pytest.mark.parametrize("kind, labels, text_pairs, said", [
  ("single", ("bad", "good"), False,
   "Type a text; the answer is the class and the scores of bad, good."),
  ("regression", (), True, "Type two texts .*; the answer is a number."),
  ("single", ("a", "b"), None, "Type a text, or two with a tab"),
  ("choice", tuple("0123"), True, "Type a text and 4 endings"),
])
def test_the_greeting_says_what_to_type(kind, labels, text_pairs, said):
  assert re.match(said, answers.greeting(
    sequences.InputOptions(kind, labels, ""), text_pairs
  ))


def fake_predictions(texts, batch_size):
  assert batch_size in (1, 3, 8)
  return [
    answers.Prediction(text[0].upper(), {"A": 0.25, "B": 0.75})
    for text in texts
  ]


def test_numbers_and_lists_of_classes_are_written_plainly():
  show = answers.format_prediction
  number = answers.Prediction(2.5, {})
  assert show(number, "tsv") == "2.5"
  assert show(number, "json") == '{"label": 2.5}'
  several = answers.Prediction(("a", "b"), {"a": 0.5, "b": 1.0})
  assert show(several, "tsv") == "a,b\t0.5\t1"
  assert json.loads(show(several, "json"))["label"] == ["a", "b"]


@pytest.mark.parametrize("batch_size", [1, 3, 8])
def test_every_line_has_its_answer_or_what_is_wrong(batch_size):
  def one_text_each(texts, batch_size):
    for parts in texts:
      if len(parts) > 1:
        raise errors.InputError(f"expected one\ttext, got {len(parts)}")
    return fake_predictions(texts, batch_size)

  def answered(output_format):
    target = io.StringIO()
    assert 3 == answers.answer_lines(
      one_text_each, io.BytesIO(b"a\n\nb\r\nc\td\n\xff\n\xc3\xa9"), target,
      output_format=output_format, batch_size=batch_size,
    )
    return target.getvalue().splitlines()

  first, empty, *others = answered("tsv")
  assert empty.startswith("error\tthe line: an empty text")
  assert [first, *others] == [
    "A\t0.25\t0.75", "B\t0.25\t0.75", "error\texpected one text, got 2",
    "error\tnot UTF-8 (byte 0 of the line); send UTF-8", "\xc9\t0.25\t0.75",
  ]
  first, empty, _, pair, unreadable, _ = map(json.loads, answered("json"))
  assert first == {"label": "A", "scores": {"A": 0.25, "B": 0.75}}
  assert "an empty text" in empty["error"]
  assert pair == {"error": "expected one text, got 2"}
  assert unreadable["error"].startswith("not UTF-8")


def test_lines_before_a_fault_of_the_source_are_answered():
  def source():
    yield b"a\n"
    raise OSError("the pipe broke")

  target = io.StringIO()
  with pytest.raises(OSError, match="the pipe broke"):
    answers.answer_lines(
      fake_predictions, source(), target, output_format="tsv", batch_size=3
    )
  assert target.getvalue() == "A\t0.25\t0.75\n"


@pytest.fixture
def written(tmp_path):
  """A function of what `rows` takes; returns the cells of the file."""

  def write(kind, labels, examples, outputs, **options):
    outputs = np.array(outputs, np.float32)
    with answers.open_table(str(tmp_path / "p.tsv")) as write_rows:
      # In two parts, as they come.
      for part in (slice(0, 1), slice(1, None)):
        write_rows(answers.rows(
          sequences.InputOptions(kind, labels, ""), examples[part],
          outputs[part], **options,
        ))
    with open(tmp_path / "p.tsv", encoding="utf-8", newline="") as stream:
      return list(csv.reader(stream, dialect="excel-tab"))

  return write


@pytest.mark.parametrize(
  "kind, labels, examples, outputs, gold, expected",
  [
    # Of equals the first.
    ("single", ["bad", "good"], [("1", "Well."), ("2", "Ill.")],
     [[0.1, 0.9], [0.5, 0.5]], False,
     [["id", "label", "probability", "bad", "good", "text"],
      ["1", "good", "0.9", "0.1", "0.9", "Well."],
      ["2", "bad", "0.5", "0.5", "0.5", "Ill."]]),
    # What is right stands next to what is predicted.
    ("single", ["x", "label"], [("1", "a", "b", "x")], [[0.25, 0.75]], True,
     [["id", "gold", "predicted", "probability", "x", "class label", "text",
       "text_b"], ["1", "x", "label", "0.75", "0.25", "0.75", "a", "b"]]),
    ("multi_label", ["x", "y"], [("1", "a", None, ("x", "y"))], [[1, 0]], True,
     [["id", "gold", "predicted", "x", "y", "text"],
      ["1", "x,y", "x", "1.0", "0.0", "a"]]),
    ("multi_label", ["a", "b", "c"], [("x", "t"), ("y", "u")],
     [[0.75, 0.5, 0.1], [0.2, 0.4, 0.3]], False,
     [["id", "labels", "a", "b", "c", "text"],
      ["x", "a,b", "0.75", "0.5", "0.1", "t"],
      ["y", "", "0.2", "0.4", "0.3", "u"]]),
    ("regression", [], [("1", "a", None, 2.5)], [[3.25]], True,
     [["id", "gold", "predicted", "text"], ["1", "2.5", "3.25", "a"]]),
    ("regression", [], [("a", "x"), ("b", "y")], [[3.25], [-0.1]], False,
     [["id", "score", "text"], ["a", "3.25", "x"], ["b", "-0.1", "y"]]),
    ("choice", ["0", "1"], [("a", "He", None, None, ("runs", "sits"))],
     [[0.25, 0.75]], False,
     [["id", "label", "probability", "0", "1", "text", "ending_0", "ending_1"],
      ["a", "1", "0.75", "0.25", "0.75", "He", "runs", "sits"]]),
  ],
)
def test_a_prediction_has_a_row(
  written, kind, labels, examples, outputs, gold, expected
):
  examples = [Example(*values) for values in examples]
  assert written(kind, labels, examples, outputs, gold=gold) == expected


def test_numbers_come_back_as_they_were(written):
  outputs = np.random.default_rng(0).random((50, 2)).astype(np.float32)
  examples = [Example(str(n), "t") for n in range(50)]
  rows = written("single", "ab", examples, outputs)[1:]
  read = np.array([row[3:5] for row in rows], np.float32)
  assert np.array_equal(read, outputs)
  assert [row[2] for row in rows] == [max(row[3:5], key=float) for row in rows]


def test_ids_and_texts_come_back_as_they_were(written):
  names = ["a\tb", "a b", "a\nb", "a\rb", 'a"b', " a", "a\u2028b", "a\r\nb"]
  examples = [Example(name, f"{name}\t") for name in names]
  rows = written("single", ["x"], examples, [[1]] * len(names))
  assert [(row[0], row[-1]) for row in rows[1:]] == [e[:2] for e in examples]


def test_an_output_for_every_example():
  with pytest.raises(ValueError, match="shorter"):
    list(answers.rows(
      sequences.InputOptions("single", ("x", "y"), ""),
      [Example("a", "t"), Example("b", "t")], [[0.5, 0.5]],
    ))


def write_predictions(folder, examples, parts, found=None):
  answers.write_predictions(
    str(folder), "_more", sequences.InputOptions("single", ("x", "y"), ""),
    examples, parts, predicted=found,
  )


def test_scores_are_written_with_and_without_names(tmp_path):
  """Whatever was given is written: its names were taken, and no others."""
  taken = []

  def examples():
    for number in range(1000):
      taken.append(number)
      yield Example(f"x{number}", "a b" + " b" * (number % 5))

  rows = np.linspace(0, 1, 1000, dtype=np.float32)
  rows = np.stack([rows, 1 - rows], axis=1)

  def parts():
    for start in range(0, 1000, 50):
      assert len(taken) == start
      yield rows[start : start + 50]

  found = []
  write_predictions(tmp_path, examples(), parts(), found=found)
  assert found == ["y"] * 500 + ["x"] * 500
  named = (tmp_path / "predictions_more.tsv").read_text().splitlines()
  assert len(named) == 1001
  assert named[0] == "id\tlabel\tprobability\tx\ty\ttext"
  assert named[-1] == "x999\tx\t1.0\t1.0\t0.0\ta b b b b b"
  unnamed = (tmp_path / "test_results_more.tsv").read_text().splitlines()
  assert unnamed[0] == "0.0\t1.0"
  assert np.array_equal(
    np.array([line.split("\t") for line in unnamed], np.float32), rows
  )


def test_what_was_there_stays_until_all_is_written(tmp_path):
  names = ("predictions_more.tsv", "test_results_more.tsv")
  for name in names:
    (tmp_path / name).write_text("of before\n")

  def parts():
    yield np.ones([600, 2], np.float32)
    assert {path.name for path in tmp_path.iterdir()} > set(names)
    raise KeyboardInterrupt

  with pytest.raises(KeyboardInterrupt):
    write_predictions(tmp_path, [Example("x", "a")] * 600, parts())
  assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
  for name in names:
    assert (tmp_path / name).read_text() == "of before\n"
