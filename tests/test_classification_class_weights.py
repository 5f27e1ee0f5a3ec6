"""class_weights.py: balanced weights, and weights from the command line."""

import numpy as np
import pytest
from sklearn.utils import class_weight

from classification import class_weights
from common import errors
from message_facts import says
from test_classification_data import labelled


def test_balanced_weights_are_those_of_scikit_learn():
  labels = ["b"] * 5 + ["a"] * 2 + ["c"]
  expected = class_weight.compute_class_weight(
    "balanced", classes=np.array(["a", "b", "c"]), y=labels
  )
  weights = class_weights.parse(
    "balanced", labelled(*labels), ["a", "b", "c"], "single"
  )
  assert weights == pytest.approx(list(expected))


def test_balanced_multi_label_weights_are_negatives_per_positive():
  """Positive and negative examples of a class then count the same in total."""

  def weights(*labels):
    return class_weights.parse(
      "balanced", labelled(*labels), ["a", "b"], "multi_label"
    )

  assert weights(("a", "b"), ("a",), (), ("a",)) == [1 / 3, 3]
  with pytest.raises(errors.InputError, match=says("'a'", "every")):
    weights(("a",), ("a", "b"))
  with pytest.raises(errors.InputError, match=says("'b'", "no")):
    weights(("a",), ())


@pytest.mark.parametrize(
  "flag, expected",
  [("1, 2.5", [1, 2.5]), ("yes=3", [1, 3]), ("yes=3, no=0", [0, 3])],
)
def test_weights_are_passed_in_order_or_by_name(flag, expected):
  assert class_weights.parse(flag, [], ["no", "yes"], "single") == expected


@pytest.mark.parametrize(
  "flag, message",
  [
    ("1", says("'1'", "not", "fit")),
    ("1,2,3", says("'1,2,3'", "not", "fit")),
    ("maybe=2", says("'maybe'", "'no'", "'yes'", "none")),
    ("1,much", says("'much'", "0", "not", "least")),
    ("1,-1", says("'-1'", "0", "not", "least")),
    ("no=inf", says("'inf'", "not")),
    ("0,0.0", "all are 0, so nothing would be learned"),
    ("balanced", says("'yes'", "no")),
  ],
)
def test_invalid_weights_are_refused(flag, message):
  with pytest.raises(errors.InputError, match=message):
    class_weights.parse(flag, labelled("no"), ["no", "yes"], "single")
  with pytest.raises(
    errors.InputError, match="has no effect on regression; leave"
  ):
    class_weights.parse(flag, labelled(1.0), [], "regression")
