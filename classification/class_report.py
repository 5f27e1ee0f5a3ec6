"""The report of a training set's classes before training starts."""

import collections

from absl import logging

from classification import labelled_examples


def table(counts, weights=None):
  """Returns lines: each class, how many examples it has, and its weight.

  Args:
    counts: dict from class to number of examples.
    weights: list of as many floats, or None: all count alike.
  """
  width = max(len("class"), *(len(label) for label in counts)) + 2
  lines = [f"{'class':{width}}{'examples':>10}{'weight':>10}"]
  for number, (label, count) in enumerate(counts.items()):
    weight = 1.0 if weights is None else weights[number]
    lines.append(f"{label:{width}}{count:10d}{weight:10.4g}")
  return lines


def doubts(counts):
  """Returns sentences about classes that look like mistakes.

  Args:
    counts: dict from class to number of examples.
  """
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
  for label, count in counts.items():
    if count == 1:
      found.append(
        f"class {label!r} has a single example to train on; is it misspelt?"
      )
    elif not count:
      found.append(f"class {label!r} has no example to train on")
  return found


def log(task, weights=None):
  """Logs the classes that a tasks.ClassifierTask is trained on, if any.

  Args:
    task: tasks.ClassifierTask.
    weights: as of `table`.
  """
  if "train" not in task.splits or not task.labels:
    return
  examples = task.splits["train"].examples
  counts = labelled_examples.class_counts(examples, task.labels)
  # Line by line, so that each has the log's prefix.
  for line in table(counts, weights):
    logging.info("  %s", line)
  for sentence in doubts(counts):
    logging.warning("%s", sentence)
  is_single = task.kind == labelled_examples.SINGLE and not task.official
  if is_single and len(counts) > 2 and labelled_examples.are_numbers(counts):
    logging.warning(
      "all %d classes are numbers; to predict a number instead of one of "
      "these classes, pass --task_kind=regression", len(counts),
    )


def warn_of_overlap(task):
  """Says so where all that is scored is trained on, too.

  Args:
    task: tasks.ClassifierTask.
  """
  def inputs(name):
    return {(e.text_a, e.text_b, e.endings) for e in task.splits[name].examples}

  if {"train", "eval"} <= task.splits.keys() and (
    inputs("eval") <= inputs("train")
  ):
    logging.warning(
      "all that is scored is trained on, too, so the scores say nothing about "
      "other texts; pass another --eval_file, or --eval_fraction=0.1 instead"
    )
