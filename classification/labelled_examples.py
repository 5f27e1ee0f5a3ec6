"""What classifiers learn from: texts with their labels.

Every reader of data (glue, own_data) makes these, whatever the file.
"""

import collections
import math
import re
from typing import NamedTuple, Optional

import numpy as np

from common import errors

# One class of several: softmax.
SINGLE = "single"
# A number.
REGRESSION = "regression"
# Any number of classes at once: a sigmoid for each.
MULTI_LABEL = "multi_label"
# One of several endings of a text.
CHOICE = "choice"
KINDS = (SINGLE, REGRESSION, MULTI_LABEL, CHOICE)
_LABELS_SHOWN = 20


class Example(NamedTuple):
  """One text, or two, and its label.

  Attributes:
    guid: its name: "train-1", or the data's own.
    text_a: str.
    text_b: str, or None where there is one text.
    label: the class (str); a float for regression; a tuple of str, which may
      be empty, for several classes at once; None where it is not known. In
      multiple choice the class is the number of the right ending, "0" on.
    endings: the texts to choose from (multiple choice), each to follow
      text_a; text_b is None then.
    place: "file:line", for errors.
  """

  guid: str
  text_a: str
  text_b: Optional[str] = None
  label: object = None
  endings: tuple = ()
  place: str = ""


class Split(NamedTuple):
  """Examples that are learned from, scored or predicted together.

  Attributes:
    name: "train", "dev", "dev_matched", ...
    examples: list of Example; what is to be predicted may be an
      own_data.ExampleStream.
    paths: list of the files that they are from.
  """

  name: str
  examples: list
  paths: list


def checked_name(name: str) -> str:
  """Returns a label or an id that files can hold.

  Raises:
    InputError: half a surrogate pair is in it, which JSON can name.
  """
  if not name.isascii() and re.search("[\ud800-\udfff]", name):
    raise errors.InputError(
      f"{ascii(name):.60} holds half a character (a lone surrogate), which no "
      "file can hold; fix the label or id"
    )
  return name


def check_labelled(examples):
  """Refuses examples without labels, which can neither teach nor score.

  Raises:
    InputError: one has none; its place is named.
  """
  for example in examples:
    if example.label is None:
      raise errors.InputError(
        f"{example.place or example.guid}: no label, but training and "
        "evaluation need one; predict with these data, or add a column of "
        "labels"
      )


def split_off(examples, fraction, seed):
  """Divides examples into those to train on and those to score.

  Each class has the same share in both, to within one example; of numbers,
  each part of their range. The only example of a class stays to be trained on.

  Args:
    examples: list of labelled Example.
    fraction: share of those to score, between 0 and 1.
    seed: int; with the examples, it decides which ones.

  Returns:
    Two lists of Example, each in the order of `examples`.

  Raises:
    InputError: one of the lists would be empty.
  """
  counts = collections.Counter(example.label for example in examples)
  # Numbers have no classes: sorted, each part of their range gives its share.
  is_number = any(isinstance(label, float) for label in counts)
  places = [
    place for place, example in enumerate(examples)
    if is_number or counts[example.label] > 1
  ]
  rng = np.random.RandomState(seed % 2**32)
  order = rng.permutation(len(places))
  # Sorting is stable: a class's examples stay in random order. From the
  # sorted ones every 1 / fraction-th is taken, beginning anywhere.
  chosen = sorted(
    (places[number] for number in order),
    key=lambda place: examples[place].label,
  )
  # A step up of this staircase takes an example; the random start makes the
  # number taken right on average.
  steps = np.floor(np.arange(len(chosen) + 1) * fraction + rng.random_sample())
  # A fraction of 0.25 takes every fourth of the sorted examples.
  to_score = {
    place for place, taken in zip(chosen, np.diff(steps)) if taken
  }
  if not to_score or len(to_score) == len(examples):
    raise errors.InputError(
      f"--eval_fraction={fraction:g} of {len(examples)} examples leaves "
      f"{len(to_score)} to score and {len(examples) - len(to_score)} to train "
      "on; pass another fraction, or --eval_file"
    )
  parts = [], []
  for place, example in enumerate(examples):
    parts[place in to_score].append(example)
  return parts


def class_counts(examples, labels):
  """Returns dict from each of `labels` to how many examples are of it."""
  counts = collections.Counter(
    label for example in examples for label in classes_of(example.label)
  )
  return {label: counts[label] for label in labels}


def classes_of(label):
  """Returns the classes in an Example's label: none, one or several."""
  if label is None:
    return ()
  return label if isinstance(label, tuple) else (label,)


def check_classes(examples, labels):
  """Refuses examples of a class that the model does not have.

  Args:
    examples: list of Example, not of regression; those without a label pass.
    labels: list of str, the model's classes.

  Raises:
    InputError: one is of another class; its place is named.
  """
  known = set(labels)
  for example in examples:
    for label in classes_of(example.label):
      if label not in known:
        raise errors.InputError(
          f"{example.place}: {unknown_class(label, labels)}; fix the row, or "
          "name this class too when training"
        )


def unknown_class(label, labels):
  """Returns the message for a class that is none of the known ones."""
  shown = [*map(repr, labels[:_LABELS_SHOWN]), "..."][: len(labels)]
  hint = ""
  if len(labels) > 2 and are_numbers([label, *labels]):
    hint = " (to learn numbers, not names, pass --task_kind=regression)"
  return f"label {label!r} is none of {', '.join(shown)}{hint}"


def are_numbers(labels) -> bool:
  """Whether all names of classes are finite numbers."""
  try:
    return all(math.isfinite(float(label)) for label in labels)
  except ValueError:
    return False


def check_ids(examples):
  """Refuses two examples of one name: predictions could not be matched to them.

  Raises:
    InputError: a guid comes again; both places are named.
  """
  first = {}
  for example in examples:
    checked_name(example.guid)
    if example.guid in first:
      raise errors.InputError(
        f"{example.place}: {duplicate_id(example.guid, first[example.guid])}"
      )
    first[example.guid] = example.place


def duplicate_id(guid, first):
  """Returns the message for an id that another row has, at `first`."""
  return (
    f"duplicate id {guid!r}, first at {first}; give every row an id of its own"
  )


def class_weights(weights, examples, labels, kind=SINGLE):
  """Returns how much each class counts in the loss.

  Args:
    weights: "balanced", or numbers in the order of `labels`, "1,2.5"; or
      "name=number" for some classes, where the others keep 1. Balanced is
      n / (classes * count), as scikit-learn's compute_class_weight, so that
      each class counts as much as any other; of MULTI_LABEL negatives /
      positives, so that being of a class counts as much as not being of it.
    examples: the list of Example to be learned from.
    labels: list of str.
    kind: SINGLE or MULTI_LABEL.

  Returns:
    List of floats, one for each of `labels`.

  Raises:
    InputError: `weights` is none of these, names a class that there is not,
      or is "balanced" and a class has no example, or every one.
  """
  if weights == "balanced":
    return _balanced(examples, labels, kind)
  parts = [part.strip() for part in weights.split(",")]
  if all("=" in part for part in parts):
    # From the right: a class may have "=" in its name.
    named = dict(part.rsplit("=", 1) for part in parts)
  elif len(parts) == len(labels):
    named = dict(zip(labels, parts))
  else:
    raise errors.InputError(
      f"class weights {weights!r}: {len(parts)} numbers for {len(labels)} "
      f"classes; pass one for each of {', '.join(labels)}, or name=number, or "
      "balanced"
    )
  for name in named:
    if name not in labels:
      raise errors.InputError(
        f"class weights {weights!r}: {unknown_class(name, labels)}; name those"
      )
  found = [_weight(named.get(label, "1"), weights) for label in labels]
  if not any(found):
    raise errors.InputError(
      f"class weights {weights!r}: all are 0, so that nothing is learned; pass "
      "a number above 0 for some class"
    )
  return found


def _balanced(examples, labels, kind):
  counts = class_counts(examples, labels)
  for label in labels:
    if not counts[label]:
      raise errors.InputError(
        f"class weights balanced: no example of class {label!r}; add some, or "
        "give the weights as numbers"
      )
    if kind == MULTI_LABEL and counts[label] == len(examples):
      raise errors.InputError(
        f"class weights balanced: every example is of class {label!r}, which "
        "leaves nothing to learn; give the weights as numbers"
      )
  if kind == MULTI_LABEL:
    total = len(examples)
    return [(total - counts[label]) / counts[label] for label in labels]
  # As many as examples: each has one class here.
  total = sum(counts[label] for label in labels)
  return [total / (len(labels) * counts[label]) for label in labels]


def _weight(text, weights):
  try:
    weight = float(text)
  except ValueError:
    weight = math.nan
  if not 0 <= weight < math.inf:
    raise errors.InputError(
      f"class weights {weights!r}: {text!r} is not a number of at least 0; "
      "pass numbers such as 1,2.5"
    )
  return weight
