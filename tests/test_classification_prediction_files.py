"""Tests of predictions.tsv: names and inputs next to the numbers."""

import csv

import numpy as np
import pytest

from classification import labelled_examples, prediction_files
from classification.labelled_examples import Example

SINGLE, REGRESSION, MULTI_LABEL, CHOICE = labelled_examples.KINDS


@pytest.fixture
def written(tmp_path):
  """A function of what `rows` takes; returns the cells of the file."""

  def write(kind, labels, examples, outputs, **options):
    outputs = np.array(outputs, np.float32)
    with prediction_files.open_table(str(tmp_path / "p.tsv")) as write_rows:
      # In two parts, as they come.
      for part in (slice(0, 1), slice(1, None)):
        write_rows(prediction_files.rows(
          kind, labels, examples[part], outputs[part], **options
        ))
    with open(tmp_path / "p.tsv", encoding="utf-8", newline="") as stream:
      return list(csv.reader(stream, dialect="excel-tab"))

  return write


def test_a_class_has_its_name_its_probability_and_that_of_the_others(written):
  examples = [Example("test-1", "Well."), Example("test-2", "Ill.")]
  assert written(
    SINGLE, ["schlecht", "gut"], examples, [[0.1, 0.9], [0.75, 0.25]]
  ) == [
    ["id", "label", "probability", "schlecht", "gut", "text"],
    ["test-1", "gut", "0.9", "0.1", "0.9", "Well."],
    ["test-2", "schlecht", "0.75", "0.75", "0.25", "Ill."],
  ]


def test_what_is_right_stands_next_to_what_is_predicted(written):
  examples = [Example("1", "a", "b", "x"), Example("2", "c", "d", "label")]
  assert written(
    SINGLE, ["x", "label"], examples, [[0.25, 0.75]] * 2, gold=True
  ) == [
    ["id", "gold", "predicted", "probability", "x", "class label", "text",
     "text_b"],
    ["1", "x", "label", "0.75", "0.25", "0.75", "a", "b"],
    ["2", "label", "label", "0.75", "0.25", "0.75", "c", "d"],
  ]
  header, row = written(
    MULTI_LABEL, ["x", "y"], [Example("1", "a", None, ("x", "y"))], [[1, 0]],
    gold=True,
  )
  assert header == ["id", "gold", "predicted", "x", "y", "text"]
  assert row == ["1", "x,y", "x", "1.0", "0.0", "a"]
  assert written(
    REGRESSION, [], [Example("1", "a", None, 2.5)], [[3.25]], gold=True
  ) == [["id", "gold", "predicted", "text"], ["1", "2.5", "3.25", "a"]]


def test_a_choice_is_the_number_of_its_ending(written):
  endings = ("runs", "sits", "sees")
  examples = [Example("a", "He", endings=endings)]
  header, row = written(CHOICE, ["0", "1", "2"], examples, [[0.1, 0.2, 0.7]])
  assert header[-4:] == ["text", "ending_0", "ending_1", "ending_2"]
  assert row == ["a", "2", "0.7", "0.1", "0.2", "0.7", "He", *endings]


def test_regression_has_scores(written):
  examples = [Example("a", "x"), Example("b", "y")]
  assert written(REGRESSION, [], examples, [[3.25], [-0.1]]) == [
    ["id", "score", "text"], ["a", "3.25", "x"], ["b", "-0.1", "y"]
  ]


def test_several_classes_are_joined_and_each_has_its_probability(written):
  outputs = [[0.75, 0.5, 0.1], [0.2, 0.4, 0.3]]
  examples = [Example("x", "t"), Example("y", "u")]
  assert written(MULTI_LABEL, ["a", "b", "c"], examples, outputs) == [
    ["id", "labels", "a", "b", "c", "text"],
    ["x", "a,b", "0.75", "0.5", "0.1", "t"],
    ["y", "", "0.2", "0.4", "0.3", "u"],
  ]


def test_predictions_are_given_in_words():
  def found(kind, outputs, labels=("a", "b")):
    return prediction_files.predicted_labels(kind, outputs, labels)

  assert found(SINGLE, [[0.5, 0.5], [0.4, 0.6]]) == ["a", "b"]
  assert found(MULTI_LABEL, [[0.5, 0.6], [0.4, 0.4]]) == [("a", "b"), ()]
  assert found(REGRESSION, [[1], [2.5]], ()) == [1.0, 2.5]


def test_numbers_come_back_as_they_were(written):
  outputs = np.random.default_rng(0).random((50, 2)).astype(np.float32)
  examples = [Example(str(n), "t") for n in range(50)]
  rows = written(SINGLE, "ab", examples, outputs)[1:]
  read = np.array([row[3:5] for row in rows], np.float32)
  assert np.array_equal(read, outputs)
  assert [row[2] for row in rows] == [max(row[3:5], key=float) for row in rows]


def test_ids_and_texts_come_back_as_they_were(written):
  names = ["a\tb", "a b", "a\nb", "a\rb", 'a"b', " a", "a\u2028b", "a\r\nb"]
  examples = [Example(name, f"{name}\t") for name in names]
  rows = written(SINGLE, ["x"], examples, [[1]] * len(names))
  assert [(row[0], row[-1]) for row in rows[1:]] == [e[:2] for e in examples]


def test_an_output_for_every_example():
  with pytest.raises(ValueError, match="shorter"):
    list(prediction_files.rows(
      SINGLE, ["x", "y"], [Example("a", "t"), Example("b", "t")], [[0.5, 0.5]]
    ))
