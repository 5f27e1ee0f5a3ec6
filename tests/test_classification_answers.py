"""Classification of texts, and files of predictions."""

import csv
import functools

import numpy as np
import pytest
import tensorflow as tf

import tiny_model
from classification import answers, model, sequences
from classification.data import Example
from common import errors

LABELS = {
  "single": ("no", "yes"),
  "multi_label": ("a", "b"),
  "regression": (),
  "ranking": (),
}


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory):
  return tiny_model.write_vocabulary(tmp_path_factory.mktemp("vocabulary"))


def make(vocab_file, task_kind, max_seq_length=12, batches=None, **options):
  """Returns a function that classifies texts.

  The function appends each batch's lengths to `batches`.
  """
  input_options = sequences.InputOptions(
    task_kind=task_kind,
    labels=LABELS[task_kind],
    vocab_file=vocab_file,
    max_seq_length=max_seq_length,
    **options,
  )
  logits = logits_of(task_kind)

  def recording(batch):
    assert batch["input_ids"].shape[1] == batch["input_mask"].sum(1).max()
    if batches is not None:
      batches.append(batch["input_mask"].sum(1).tolist())
    return logits(batch)

  return functools.partial(answers.predict_texts, recording, input_options)


@functools.cache
def logits_of(task):
  """Returns a compiled network whose batches have one sequence per example."""
  network = model.ClassifierModel(
    tiny_model.tiny(), task, model.num_outputs(task, LABELS[task]), seed=3
  )
  return tf.function(
    lambda batch: network(
      {name: values[:, None] for name, values in batch.items()}
    ),
    reduce_retracing=True,
    autograph=False,
  )


def test_short_texts_share_a_larger_batch(vocab_file):
  batches = []
  predict_texts = make(vocab_file, "single", 32, batches)
  assert len(predict_texts([("w1",)] * 10, 2)) == 10
  # Rows of 3 tokens count as 8, and a batch has room for 2 * 32 tokens.
  assert batches == [[3] * 8, [3] * 2]


@pytest.mark.parametrize("options", [{}, {"doc_stride": 5}])
def test_batches_of_similar_length_answer_in_order(vocab_file, options):
  """A text's label does not depend on the other texts of its batch."""
  batches = []
  predict_texts = make(vocab_file, "single", batches=batches, **options)
  texts = [
    (" ".join(f"w{(3 * n + i) % 20}" for i in range(length)),)
    for n, length in enumerate([1, 17, 2, 9, 3, 30, 8])
  ] + [("w3", "w4 w5 w6")]
  expected = predict_texts(texts, 100)
  for answer in expected:
    assert sum(answer["probabilities"]) == pytest.approx(1)
    best = answer["labels"][np.argmax(answer["probabilities"])]
    assert answer["label"] == best
    assert answer["probability"] == max(answer["probabilities"])
  batches.clear()
  together = predict_texts(texts, 3)
  assert max(map(len, batches)) == 3
  lengths = sum(batches, [])
  assert lengths == sorted(lengths, reverse=True)
  alone = [predict_texts([text], 1)[0] for text in texts]
  for results in (together, alone):
    for answer, wanted in zip(results, expected, strict=True):
      assert answer["label"] == wanted["label"]
      assert answer["probabilities"] == pytest.approx(
        wanted["probabilities"], abs=1e-6
      )


def test_long_texts_have_windows(vocab_file):
  text = (" ".join(tiny_model.WORDS),)
  (long,) = make(vocab_file, "single", doc_stride=5)([text], 1)
  (cut,) = make(vocab_file, "single")([text], 1)
  assert cut["probability"] != pytest.approx(long["probability"], abs=1e-4)


def test_each_task_kind_has_its_form_of_answers(vocab_file):
  (number,) = make(vocab_file, "regression")([("w1",)], 1)
  assert number.keys() == {"score"} and isinstance(number["score"], float)
  (classes,) = make(vocab_file, "multi_label")([("w1",)], 1)
  assert classes.keys() == {"labels", "probabilities"}
  (pair,) = make(vocab_file, "ranking")([("w1", "w2")], 1)
  assert 0 < pair["score"] < 1
  with pytest.raises(errors.InputError, match="needs two texts"):
    make(vocab_file, "ranking")([("w1",)], 1)


@pytest.fixture
def written(tmp_path):
  """Returns a function that writes predictions and returns the cells."""

  def write(task_kind, labels, examples, outputs, **options):
    outputs = np.array(outputs, np.float32)
    with answers.open_table(str(tmp_path / "p.tsv")) as write_rows:
      # In two parts, as predictions arrive.
      for part in (slice(0, 1), slice(1, None)):
        write_rows(
          answers.rows(
            sequences.InputOptions(task_kind, labels, ""),
            examples[part],
            outputs[part],
            **options,
          )
        )
    with open(tmp_path / "p.tsv", encoding="utf-8", newline="") as stream:
      return list(csv.reader(stream, dialect="excel-tab"))

  return write


@pytest.mark.parametrize(
  "task_kind, labels, examples, outputs, gold, expected",
  [
    # Of equal probabilities, the first is predicted.
    (
      "single",
      ["bad", "good"],
      [("1", "Well."), ("2", "Ill.")],
      [[0.1, 0.9], [0.5, 0.5]],
      False,
      [
        ["id", "label", "probability", "bad", "good", "text"],
        ["1", "good", "0.9", "0.1", "0.9", "Well."],
        ["2", "bad", "0.5", "0.5", "0.5", "Ill."],
      ],
    ),
    # The gold label stands next to the predicted one.
    (
      "single",
      ["x", "label"],
      [("1", "a", "b", "x")],
      [[0.25, 0.75]],
      True,
      [
        [
          "id",
          "gold",
          "predicted",
          "probability",
          "x",
          "class label",
          "text",
          "text_b",
        ],
        ["1", "x", "label", "0.75", "0.25", "0.75", "a", "b"],
      ],
    ),
    (
      "multi_label",
      ["x", "y"],
      [("1", "a", None, ("x", "y"))],
      [[1, 0]],
      True,
      [
        ["id", "gold", "predicted", "x", "y", "text"],
        ["1", "x,y", "x", "1.0", "0.0", "a"],
      ],
    ),
    (
      "regression",
      [],
      [("1", "a", None, 2.5)],
      [[3.25]],
      True,
      [["id", "gold", "predicted", "text"], ["1", "2.5", "3.25", "a"]],
    ),
    (
      "choice",
      ["0", "1"],
      [("a", "He", None, None, ("runs", "sits"))],
      [[0.25, 0.75]],
      False,
      [
        [
          "id",
          "label",
          "probability",
          "0",
          "1",
          "text",
          "ending_0",
          "ending_1",
        ],
        ["a", "1", "0.75", "0.25", "0.75", "He", "runs", "sits"],
      ],
    ),
  ],
)
def test_a_prediction_has_a_row(
  written, task_kind, labels, examples, outputs, gold, expected
):
  examples = [Example(*values) for values in examples]
  assert written(task_kind, labels, examples, outputs, gold=gold) == expected


def test_numbers_are_written_exactly(written):
  outputs = np.random.default_rng(0).random((50, 2)).astype(np.float32)
  examples = [Example(str(n), "t") for n in range(50)]
  rows = written("single", "ab", examples, outputs)[1:]
  read = np.array([row[3:5] for row in rows], np.float32)
  assert np.array_equal(read, outputs)
  assert [row[2] for row in rows] == [max(row[3:5], key=float) for row in rows]


def test_ids_and_texts_are_written_exactly(written):
  names = ["a\tb", "a b", "a\nb", "a\rb", 'a"b', " a", "a\u2028b", "a\r\nb"]
  examples = [Example(name, f"{name}\t") for name in names]
  rows = written("single", ["x"], examples, [[1]] * len(names))
  assert [(row[0], row[-1]) for row in rows[1:]] == [e[:2] for e in examples]


def test_missing_outputs_are_refused():
  with pytest.raises(ValueError, match="shorter"):
    list(
      answers.rows(
        sequences.InputOptions("single", ("x", "y"), ""),
        [Example("a", "t"), Example("b", "t")],
        [[0.5, 0.5]],
      )
    )


def write_predictions(folder, examples, parts, predicted=None):
  answers.write_predictions(
    str(folder),
    "_more",
    sequences.InputOptions("single", ("x", "y"), ""),
    examples,
    parts,
    predicted=predicted,
  )


def test_scores_are_written_with_and_without_names(tmp_path, caplog):
  """No example is read until the outputs of all earlier ones are written."""
  examples_read = []

  def examples():
    for number in range(1000):
      examples_read.append(number)
      yield Example(f"x{number}", "a b" + " b" * (number % 5))

  rows = np.linspace(0, 1, 1000, dtype=np.float32)
  rows = np.stack([rows, 1 - rows], axis=1)

  def parts():
    for start in range(0, 1000, 50):
      assert len(examples_read) == start
      yield rows[start : start + 50]

  predicted = []
  caplog.set_level("INFO", logger="absl")
  write_predictions(tmp_path, examples(), parts(), predicted=predicted)
  for name in ("predictions_more.tsv", "test_results_more.tsv"):
    assert str(tmp_path / name) in caplog.text
  assert predicted == ["y"] * 500 + ["x"] * 500
  named = (tmp_path / "predictions_more.tsv").read_text().splitlines()
  assert len(named) == 1001
  assert named[0] == "id\tlabel\tprobability\tx\ty\ttext"
  assert named[-1] == "x999\tx\t1.0\t1.0\t0.0\ta b b b b b"
  unnamed = (tmp_path / "test_results_more.tsv").read_text().splitlines()
  assert unnamed[0] == "0.0\t1.0"
  assert np.array_equal(
    np.array([line.split("\t") for line in unnamed], np.float32), rows
  )


def test_old_files_stay_until_all_is_written(tmp_path):
  names = ("predictions_more.tsv", "test_results_more.tsv")
  for name in names:
    (tmp_path / name).write_text("old\n")

  def parts():
    yield np.ones([600, 2], np.float32)
    assert {path.name for path in tmp_path.iterdir()} > set(names)
    raise KeyboardInterrupt

  with pytest.raises(KeyboardInterrupt):
    write_predictions(tmp_path, [Example("x", "a")] * 600, parts())
  assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
  for name in names:
    assert (tmp_path / name).read_text() == "old\n"
