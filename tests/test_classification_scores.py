"""Scores of classifiers, checked by hand, with scikit-learn and with SciPy."""

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from classification import scores
from classification.scores import Results
from common import errors

GOLD = np.array([0, 0, 1, 1, 1, 0, 1, 1])
# Probabilities of "yes", with a tie between a "yes" and a "no".
POSITIVE = np.array([0.1, 0.6, 0.6, 0.9, 0.3, 0.2, 0.7, 0.8])


def binary():
  outputs = np.stack([1 - POSITIVE, POSITIVE], axis=1)
  return Results("single", ["no", "yes"], GOLD, outputs)


def random_single(seed=0, num_classes=4, size=60):
  rng = np.random.RandomState(seed)
  outputs = rng.dirichlet(np.ones(num_classes), size).round(2) + 1e-3
  outputs /= outputs.sum(axis=1, keepdims=True)
  labels = [f"class {number}" for number in range(num_classes)]
  return Results("single", labels, rng.randint(0, num_classes, size), outputs)


def random_multi_label(seed=0):
  rng = np.random.RandomState(seed)
  gold = rng.randint(0, 2, [50, 3])
  return Results("multi_label", ["a", "b", "c"], gold, rng.rand(50, 3))


def random_regression(seed=0):
  rng = np.random.RandomState(seed)
  gold = rng.randint(0, 6, 40).astype(np.float32)  # Many ties.
  outputs = (gold + rng.randint(-2, 3, 40)).astype(np.float32)
  return Results("regression", [], gold, outputs[:, None])


def all_of(results):
  names = scores.METRICS[results.task_kind]
  if len(results.labels) != 2:
    names = set(names) - {"f1", "precision", "recall"}
  return scores.compute(results, names)


def test_two_classes_by_hand():
  # Right: 2 of 3 "no" and 4 of 5 "yes".
  values = all_of(binary())
  assert values["accuracy"] == 6 / 8
  assert values["precision"] == values["recall"] == values["f1"] == 4 / 5
  assert values["f1_micro"] == 6 / 8
  assert values["f1_macro"] == pytest.approx((4 / 5 + 2 / 3) / 2)
  # (TP TN - FP FN) / sqrt((TP+FP) (TP+FN) (TN+FP) (TN+FN))
  assert values["matthews"] == pytest.approx((4 * 2 - 1) / 15)
  # Of 15 pairs of a "yes" and a "no", one is reversed (0.3, 0.6) and one tied.
  wrong, tied = 1, 1
  assert values["auc"] == pytest.approx((15 - wrong - tied / 2) / 15)


def test_the_positive_class_may_be_the_first():
  first = all_of(binary()._replace(positive=0))
  assert first["f1"] == first["recall"] == pytest.approx(2 / 3)
  assert first["f1_macro"] == all_of(binary())["f1_macro"]


def test_an_absent_class_is_in_no_mean():
  """scikit-learn also leaves out c, which is neither gold nor predicted."""
  predicted = np.array([0, 1, 1, 1, 4])
  results = Results(
    "single", list("abcde"), np.array([0, 0, 1, 3, 3]), np.eye(5)[predicted]
  )
  values = all_of(results)
  # For a, b, d, e: precision 1, 1/3, 0, 0; recall 1/2, 1, 0, 0; F1 2/3, 1/2.
  assert values["precision_macro"] == pytest.approx((1 + 1 / 3) / 4)
  assert values["recall_macro"] == pytest.approx((1 / 2 + 1) / 4)
  assert values["f1_macro"] == pytest.approx((2 / 3 + 1 / 2) / 4)
  last = scores.report(results).splitlines()[6]
  assert last.split() == ["macro", "avg", "0.3333", "0.3750", "0.2917", "5"]
  # A multi-label mean is over all classes.
  gold = np.array([[1, 0], [1, 0]])
  values = all_of(Results("multi_label", ["a", "b"], gold, gold))
  assert values["f1_macro"] == 0.5


def test_loss_is_the_mean_over_batches_even_if_the_last_is_short():
  losses = np.array([1, 2, 3, 4, 10], np.float32)
  mean = scores.mean_over_batches
  assert mean(losses, 2) == (1.5 + 3.5 + 10) / 3
  assert mean(losses, 5) == mean(losses, 1) == mean(losses, 8) == 4
  assert mean(losses, 4) == (2.5 + 10) / 2
  assert mean(np.float32([1, 2**-24]), 2) == (1 + 2**-24) / 2


@pytest.mark.parametrize(
  "results", [*map(random_single, range(3)), random_multi_label()]
)
def test_scores_of_classes_equal_those_of_scikit_learn(results):
  gold, predicted = results.gold, results.predicted
  values = all_of(results)
  assert values["accuracy"] == metrics.accuracy_score(gold, predicted)
  assert values["auc"] == pytest.approx(
    metrics.roc_auc_score(gold, results.scores, multi_class="ovr")
  )
  for average in ("macro", "micro"):
    expected = metrics.precision_recall_fscore_support(
      gold, predicted, average=average, zero_division=0
    )
    for name, value in zip(("precision", "recall", "f1"), expected):
      assert values[f"{name}_{average}"] == pytest.approx(value)
  if results.task_kind == "single":
    assert values["matthews"] == pytest.approx(
      metrics.matthews_corrcoef(gold, predicted)
    )
    matrix = results.confusions()
    assert (matrix == metrics.confusion_matrix(gold, predicted)).all()


@pytest.mark.parametrize("seed", range(3))
def test_correlations_equal_those_of_scipy(seed):
  results = random_regression(seed)
  values = all_of(results)
  pair = results.predicted, results.gold
  assert values["pearson"] == pytest.approx(stats.pearsonr(*pair)[0])
  assert values["spearman"] == pytest.approx(stats.spearmanr(*pair)[0])


def test_undefined_scores_are_numbers():
  """A run compares scores to find its best model, and NaN would break that."""
  outputs = np.tile([[0.8, 0.2]], [4, 1])
  values = all_of(Results("single", ["0", "1"], np.zeros(4, int), outputs))
  assert values["matthews"] == 0 and values["f1"] == 0
  assert values["auc"] == 0.5
  constant, distinct = np.full([4], 2.7, np.float32), np.arange(4.0)
  for gold, outputs in ((distinct, constant), (constant, distinct)):
    values = all_of(Results("regression", [], gold, outputs[:, None]))
    assert values == {"pearson": 0, "spearman": 0}


def test_metrics_that_a_task_does_not_have_are_refused():
  check = scores.check_metrics
  check(["f1", "auc"], "single", 2)
  with pytest.raises(errors.InputError, match="--metrics=f1: .*f1_macro"):
    check(["f1"], "single", 3)
  with pytest.raises(errors.InputError, match="pearson, spearman"):
    check(["accuracy"], "regression", 0)


def test_every_kind_has_its_defaults():
  for task_kind in scores.METRICS:
    for size in (2, 3):
      names = scores.default_metrics(task_kind, size)
      scores.check_metrics(names, task_kind, size)


def test_the_report_has_a_row_for_each_class_and_the_confusions():
  name = "yes" * 6
  results = binary()._replace(labels=["no", name])
  lines = scores.report(results).splitlines()
  assert lines[1].split() == ["no", "0.6667", "0.6667", "0.6667", "3"]
  assert lines[2].split() == [name, "0.8000", "0.8000", "0.8000", "5"]
  assert [line.split() for line in lines[-3:]] == [
    ["no", name],
    ["no", "2", "1"],
    [name, "1", "4"],
  ]


def test_the_report_of_numbers_says_how_far_off_they_are():
  gold = np.array([1.0, 2, 3, 4])
  outputs = gold[:, None] + [[3], [1], [-1], [1]]
  results = Results("regression", [], gold, outputs)
  text = scores.report(results)
  assert "4 examples" in text
  assert "mean error                    1.0000" in text
  assert "root mean squared error       1.7321" in text


def test_a_multi_label_report_has_no_confusions():
  """An example with two classes counts twice, as in scikit-learn."""
  gold = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 1]])
  results = Results("multi_label", ["a", "b", "c"], gold, gold)
  *lines, mean = scores.report(results).splitlines()
  assert len(lines) == 4 and not any("rows: correct" in line for line in lines)
  expected = metrics.classification_report(gold, gold, output_dict=True)
  assert float(mean.split()[-1]) == expected["macro avg"]["support"] == 5


def test_error_sizes_by_hand():
  probabilities = np.array([[0.75, 0.25], [0.25, 0.75]], np.float32)
  single = scores.Results("single", ["a", "b"], np.array([0, 0]), probabilities)
  assert scores.error_sizes(single).tolist() == [0, 0.75]
  several = single._replace(
    task_kind="multi_label", gold=np.array([[1, 0], [1, 1]])
  )
  assert scores.error_sizes(several).tolist() == [0, 0.75]
  numbers = single._replace(
    task_kind="regression",
    labels=[],
    gold=np.array([1.0, 2.0]),
    scores=np.array([[1.5], [0.0]]),
  )
  assert scores.error_sizes(numbers).tolist() == [0.5, 2.0]
  assert not scores.error_sizes(numbers._replace(task_kind="retrieval")).any()
