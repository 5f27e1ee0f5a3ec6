"""Tests of predictions.tsv: names next to the numbers."""

import numpy as np
import pytest

from classification import labelled_examples, prediction_files

SINGLE, REGRESSION, MULTI_LABEL, CHOICE = labelled_examples.KINDS


def written(kind, guids, outputs, labels):
  outputs = np.array(outputs, np.float32)
  rows = prediction_files.lines(kind, guids, outputs, labels)
  return "".join([prediction_files.header(kind, labels), *rows])


def test_a_class_has_its_name_and_probability():
  text = written(
    SINGLE, ["test-1", "test-2"], [[0.1, 0.9], [0.75, 0.25]],
    ["schlecht", "gut"],
  )
  assert text == (
    "id\tlabel\tprobability\ntest-1\tgut\t0.9\ntest-2\tschlecht\t0.75\n"
  )


def test_a_choice_is_the_number_of_its_ending():
  text = written(CHOICE, ["a"], [[0.1, 0.2, 0.7]], ["0", "1", "2"])
  assert text.split("\n")[1] == "a\t2\t0.7"


def test_regression_has_scores():
  text = written(REGRESSION, ["a", "b"], [3.25, -0.1], [])
  assert text == "id\tscore\na\t3.25\nb\t-0.1\n"


def test_several_classes_are_joined_and_each_has_its_probability():
  outputs = [[0.75, 0.5, 0.1], [0.2, 0.4, 0.3]]
  labels = ["a", "b", "c"]
  text = written(MULTI_LABEL, ["x", "y"], outputs, labels)
  assert text == (
    "id\tlabels\ta\tb\tc\nx\ta,b\t0.75\t0.5\t0.1\ny\t\t0.2\t0.4\t0.3\n"
  )


def test_predictions_are_given_in_words():
  def found(kind, outputs, labels=("a", "b")):
    return prediction_files.predicted_labels(kind, outputs, labels)

  assert found(SINGLE, [[0.5, 0.5], [0.4, 0.6]]) == ["a", "b"]
  assert found(MULTI_LABEL, [[0.5, 0.6], [0.4, 0.4]]) == [("a", "b"), ()]
  assert found(REGRESSION, [1, 2.5], ()) == [1.0, 2.5]


def test_numbers_come_back_as_they_were():
  outputs = np.random.default_rng(0).random((50, 2)).astype(np.float32)
  text = written(SINGLE, [str(n) for n in range(50)], outputs, "ab")
  read = [line.split("\t")[2] for line in text.split("\n")[1:-1]]
  assert np.array_equal(np.array(read, np.float32), outputs.max(-1))


def test_no_name_breaks_the_lines():
  text = written(
    SINGLE, ["a\tb\nc\u2028d"], [[1, 0]], ["one\ttwo", "x"]
  )
  assert text.split("\n")[1:] == ["a b c d\tone two\t1.0", ""]


def test_an_output_for_every_example():
  with pytest.raises(ValueError, match="1 outputs for 2 examples"):
    prediction_files.lines(SINGLE, ["a", "b"], [[0.5, 0.5]], ["x", "y"])
