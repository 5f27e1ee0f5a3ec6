"""class_weights.py: balanced weights, and weights from the command line."""

import numpy as np
import pytest
from sklearn.utils import class_weight

from classification import class_weights
from common import errors
from test_classification_data import labelled


def test_balanced_weights_are_those_of_scikit_learn():
  labels = ["b"] * 5 + ["a"] * 2 + ["c"]
  expected = class_weight.compute_class_weight(
    "balanced", classes=np.array(["a", "b", "c"]), y=labels
  )
  found = class_weights.parse(
    "balanced", labelled(*labels), ["a", "b", "c"], "single"
  )
  assert found == pytest.approx(list(expected))


def test_balanced_weights_of_several_classes_at_once_are_negatives_each():
  """So that being of a class counts as much as not being of it."""

  def found(*labels):
    return class_weights.parse(
      "balanced", labelled(*labels), ["a", "b"], "multi_label"
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
  assert class_weights.parse(given, [], ["no", "yes"], "single") == expected


@pytest.mark.parametrize(
  "given, said",
  [
    ("1", "1 numbers for 2 classes; pass one for each of no, yes"),
    ("1,2,3", "3 numbers for 2 classes"),
    ("maybe=2", "label 'maybe' is none of 'no', 'yes'"),
    ("1,much", "'much' is not a number of at least 0"),
    ("1,-1", "'-1' is not a number of at least 0"),
    ("no=inf", "'inf' is not a number"),
    ("0,0.0", "all are 0, so nothing would be learned"),
    ("balanced", "no example of class 'yes'"),
  ],
)
def test_weights_that_cannot_be_meant_are_refused(given, said):
  with pytest.raises(errors.InputError, match=said):
    class_weights.parse(given, labelled("no"), ["no", "yes"], "single")
  with pytest.raises(errors.InputError, match="which regression lacks; leave"):
    class_weights.parse(given, labelled(1.0), [], "regression")
