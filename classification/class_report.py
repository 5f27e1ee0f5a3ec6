"""The report of a training set before training: its classes, and doubts."""

import collections

from absl import logging

from classification import labelled_examples


def table(counts: dict, weights: list | None = None) -> list[str]:
  """Returns lines: each class, how many examples it has, and its weight.

  Args:
    weights: None: all count alike.
  """
  width = max(len("class"), *map(len, counts)) + 2
  weights = weights or [1.0] * len(counts)
  return [f"{'class':{width}}{'examples':>10}{'weight':>10}"] + [
    f"{label:{width}}{count:10d}{weight:10.4g}"
    for (label, count), weight in zip(counts.items(), weights, strict=True)
  ]


def doubts(counts: dict) -> list[str]:
  """Returns sentences about classes that look like mistakes."""
  by_lower_case = collections.defaultdict(list)
  for label in counts:
    # Not lower(), which keeps "ß" and "ss" different.
    by_lower_case[label.casefold()].append(label)
  found = [
    f"classes that differ only in case: {', '.join(map(repr, labels))}; if "
    "they are one class, write it in one way"
    for labels in by_lower_case.values()
    if len(labels) > 1
  ]
  rare = {
    0: "has no example to train on",
    1: "has a single example to train on; is it misspelt?",
  }
  return found + [
    f"class {label!r} {rare[count]}"
    for label, count in counts.items() if count in rare
  ]


def log(task, weights: list | None = None) -> None:
  """Logs the classes that a tasks.ClassifierTask is trained on, if any."""
  if "train" not in task.splits:
    return
  if task.labels:
    examples = task.splits["train"].examples
    counts = labelled_examples.class_counts(examples, task.labels)
    # Line by line, so that each has the log's prefix.
    for line in table(counts, weights):
      logging.info("  %s", line)
    for sentence in doubts(counts):
      logging.warning("%s", sentence)
  is_single = task.kind == labelled_examples.SINGLE and not task.official
  if (
    is_single and len(task.labels) > 2
    and labelled_examples.are_numbers(task.labels)
  ):
    logging.warning(
      "all %d classes are numbers; to predict a number instead of one of "
      "these classes, pass --task_kind=regression", len(task.labels),
    )
  if "eval" in task.splits and _inputs(task, "eval") <= _inputs(task, "train"):
    logging.warning(
      "all that is scored is trained on, too, so the scores say nothing about "
      "other texts; pass another --eval_file, or --eval_fraction=0.1 instead"
    )


def _inputs(task, name):
  return {(e.text_a, e.text_b, e.endings) for e in task.splits[name].examples}
