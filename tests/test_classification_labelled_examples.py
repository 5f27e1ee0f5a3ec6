"""Tests of what is asked of examples, whatever file they are from."""

import numpy as np
import pytest
from sklearn.utils import class_weight

from classification import labelled_examples
from common import errors

Example = labelled_examples.Example


def examples(*labels):
  return [
    Example(f"train-{n}", "A text.", label=label, place=f"data.tsv:{n}")
    for n, label in enumerate(labels, 1)
  ]


def test_training_needs_a_label_of_every_example():
  labelled_examples.check_labelled(examples("a", 0.0, ()))
  with pytest.raises(errors.InputError, match="data.tsv:2: no label"):
    labelled_examples.check_labelled(examples("a", None))


def test_an_id_that_comes_again_is_named_with_both_places():
  first = {}
  for example in examples("a", "a"):
    labelled_examples.check_new_id(example, first)
  with pytest.raises(
    errors.InputError,
    match="duplicate id 'train-1', first at data.tsv:1; give every row an id",
  ):
    labelled_examples.check_new_id(examples("b")[0], first)


def test_balanced_weights_are_those_of_scikit_learn():
  labels = ["b"] * 5 + ["a"] * 2 + ["c"]
  expected = class_weight.compute_class_weight(
    "balanced", classes=np.array(["a", "b", "c"]), y=labels
  )
  found = labelled_examples.class_weights(
    "balanced", examples(*labels), ["a", "b", "c"]
  )
  assert found == pytest.approx(list(expected))


def test_balanced_weights_of_several_classes_at_once_are_negatives_each():
  """So that being of a class counts as much as not being of it."""
  def found(*labels):
    return labelled_examples.class_weights(
      "balanced", examples(*labels), ["a", "b"],
      labelled_examples.MULTI_LABEL,
    )

  assert found(("a", "b"), ("a",), (), ("a",)) == [1 / 3, 3]
  with pytest.raises(errors.InputError, match="every example is of class 'a'"):
    found(("a",), ("a", "b"))
  with pytest.raises(errors.InputError, match="no example of class 'b'"):
    found(("a",), ())


@pytest.mark.parametrize(
  "given, expected",
  [("1, 2.5", [1, 2.5]), ("yes=3", [1, 3]), ("yes=3, no=0", [0, 3])],
)
def test_weights_are_given_in_order_or_by_name(given, expected):
  found = labelled_examples.class_weights(given, [], ["no", "yes"])
  assert found == expected


@pytest.mark.parametrize(
  "given, said",
  [
    ("1", "1 numbers for 2 classes; pass one for each of no, yes"),
    ("1,2,3", "3 numbers for 2 classes"),
    ("maybe=2", "label 'maybe' is none of 'no', 'yes'"),
    ("1,much", "'much' is not a number of at least 0"),
    ("1,-1", "'-1' is not a number of at least 0"),
    ("1,nan", "'nan' is not a number"),
    ("no=inf", "'inf' is not a number"),
    ("0,0.0", "all are 0, so that nothing is learned"),
    ("balanced", "no example of class 'yes'"),
  ],
)
def test_weights_that_cannot_be_meant_are_refused(given, said):
  with pytest.raises(errors.InputError, match=said):
    labelled_examples.class_weights(given, examples("no"), ["no", "yes"])


# A part to score.


def labelled(*labels):
  return [
    labelled_examples.Example(f"x{n}", "t", label=label)
    for n, label in enumerate(labels)
  ]


def test_each_class_is_divided_alike():
  examples = labelled(*["a"] * 40, *["b"] * 20, *["c"] * 10)
  train, dev = labelled_examples.split_off(examples, 0.2, seed=3)
  counts = labelled_examples.class_counts(dev, ["a", "b", "c"])
  assert counts == {"a": 8, "b": 4, "c": 2}
  assert sorted(train + dev) == sorted(examples)
  assert train == [e for e in examples if e not in dev]
  again = labelled_examples.split_off(examples, 0.2, seed=3)
  assert again == (train, dev)
  assert labelled_examples.split_off(examples, 0.2, seed=4)[1] != dev


def test_the_only_example_of_a_class_is_trained_on():
  examples = labelled("a", "a", "b", "a", "a")
  for seed in range(20):
    train, dev = labelled_examples.split_off(examples, 0.5, seed)
    assert examples[2] in train and len(dev) == 2


def test_numbers_are_divided_along_their_range():
  examples = labelled(*[float(n * 7 % 100) for n in range(100)])
  _, dev = labelled_examples.split_off(examples, 0.1, seed=0)
  assert sorted(e.label // 10 for e in dev) == list(range(10))


@pytest.mark.parametrize("fraction", [0.01, 1.0])
def test_a_part_without_examples_is_refused(fraction):
  with pytest.raises(errors.InputError, match="pass another fraction"):
    labelled_examples.split_off(labelled("a", "a", "b", "b"), fraction, 0)
