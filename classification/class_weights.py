"""Parses --class_weights, the weights of classes in the loss."""

import math
from collections.abc import Sequence

from classification import data
from common import errors


def parse(
  text: str, examples: list[data.Example], labels: Sequence[str], task_kind: str
) -> list[float]:
  """Returns the weight of each class in the loss.

  Raises InputError: the kind is not single or multi_label; `text` is invalid;
  all weights are 0; or "balanced" is impossible, because a class has no
  examples or, for multi_label, no counterexamples.

  Args:
    text: "balanced", numbers in the order of `labels` ("1,2.5"), or
      "name=number" for some classes; the other classes have weight 1. The
      balanced weight of a class is examples / (classes * examples of the
      class), as in scikit-learn's compute_class_weight: all classes have the
      same total weight. For multi_label it is negatives / positives, which
      gives a class's positives and negatives the same total weight.
    examples: the training data.
  """
  if task_kind not in (data.SINGLE, data.MULTI_LABEL):
    raise errors.InputError(
      f"--class_weights has no effect on {task_kind}; leave it out"
    )
  if text == "balanced":
    counts = data.class_counts(examples, labels)
    return _balanced(counts, len(examples), task_kind)
  parts = [part.strip() for part in text.split(",")]
  if all("=" in part for part in parts):
    # Split at the last "=", because a class name may contain "=".
    named = dict(part.rsplit("=", 1) for part in parts)
  elif len(parts) == len(labels):
    named = dict(zip(labels, parts))
  else:
    raise errors.InputError(
      f"class weights {text!r} do not fit the classes; pass a number for each "
      f"of {', '.join(labels)}, or name=number, or balanced"
    )
  for name in named:
    if name not in labels:
      raise errors.InputError(
        f"class weights {text!r}: {data.unknown_class(name, labels)}; pass "
        "only these names"
      )
  weights = [_weight(named.get(label, "1"), text) for label in labels]
  if not any(weights):
    raise errors.InputError(
      f"class weights {text!r}: all are 0, so nothing would be learned; pass "
      "a number above 0 for at least one class"
    )
  return weights


def _balanced(
  counts: dict[str, int], num_examples: int, task_kind: str
) -> list[float]:
  for label, count in counts.items():
    is_in_all = task_kind == data.MULTI_LABEL and count == num_examples
    if not count or is_in_all:
      holders = "every example" if count else "no example"
      raise errors.InputError(
        f"class weights balanced: {holders} has the class {label!r}; change "
        "the data, or pass numbers"
      )
  if task_kind == data.MULTI_LABEL:
    return [(num_examples - count) / count for count in counts.values()]
  return [num_examples / (len(counts) * count) for count in counts.values()]


def _weight(number: str, text: str) -> float:
  try:
    weight = float(number)
  except ValueError:
    weight = math.nan
  if not 0 <= weight < math.inf:
    raise errors.InputError(
      f"class weights {text!r}: {number!r} is not a number of at least 0; "
      "pass numbers such as 1,2.5"
    )
  return weight
