"""What classifiers learn from: texts with their labels.

Every reader of data (glue, dataset) makes these, whatever the file.
"""

import collections
import math
import re
from typing import NamedTuple

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
    text_b: None where there is one text.
    label: the class (str); a float for regression; a tuple of str, which may
      be empty, for several classes at once; None where it is not known. In
      multiple choice the class is the number of the right ending, "0" on.
    endings: the texts to choose from (multiple choice), each to follow
      text_a; text_b is None then.
    place: "file:line", for errors.
  """

  guid: str
  text_a: str
  text_b: str | None = None
  label: object = None
  endings: tuple = ()
  place: str = ""


class Split(NamedTuple):
  """Examples that are learned from, scored or predicted together.

  Attributes:
    name: "train", "dev", "dev_matched", ...
    examples: list of Example; what is to be predicted may be a
      dataset.ExampleStream.
  """

  name: str
  examples: list


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


def check_labelled(examples: list[Example]) -> None:
  """Raises InputError for an example without a label; its place is named."""
  for example in examples:
    if example.label is None:
      raise errors.InputError(
        f"{example.place or example.guid}: no label, but training and "
        "evaluation need one; predict with these data, or add labels"
      )


def check_new_id(example: Example, first: dict) -> None:
  """Raises InputError for an id that another example has.

  Args:
    first: dict from ids to places; this one is added.
  """
  guid = checked_name(example.guid)
  if guid in first:
    raise errors.InputError(
      f"duplicate id {guid!r}, first at {first[guid]}; give every row an id of "
      "its own"
    )
  first[guid] = example.place


def split_off(
  examples: list[Example], fraction: float, seed: int
) -> tuple[list[Example], list[Example]]:
  """Divides examples into those to train on and those to score.

  Each class has the same share in both, to within one example; of numbers,
  each part of their range. The only example of a class stays to be trained on.

  Args:
    examples: with labels.
    fraction: share of those to score, between 0 and 1.
    seed: with the examples, it decides which ones.

  Returns:
    Both in the order of `examples`.

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
  rng = np.random.RandomState(seed)
  order = rng.permutation(len(places))
  # Sorting is stable: a class's examples stay in random order. From the
  # sorted ones every 1 / fraction-th is taken, beginning anywhere.
  chosen = sorted(
    (places[number] for number in order),
    key=lambda place: examples[place].label,
  )
  # A step up of this staircase takes an example; the random start makes the
  # number taken right on average. A fraction of 0.25 takes every fourth.
  steps = np.floor(np.arange(len(chosen) + 1) * fraction + rng.random_sample())
  to_score = {place for place, taken in zip(chosen, np.diff(steps)) if taken}
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


def class_counts(examples: list[Example], labels: list[str]) -> dict[str, int]:
  """Returns how many examples are of each of `labels`."""
  counts = collections.Counter(
    label for example in examples for label in classes_of(example.label)
  )
  return {label: counts[label] for label in labels}


def classes_of(label: object) -> tuple:
  """Returns the classes in an Example's label: none, one or several."""
  if label is None:
    return ()
  return label if isinstance(label, tuple) else (label,)


def unknown_class(label: str, labels: list[str]) -> str:
  """Returns the message for a class that is none of the known ones."""
  shown = [*map(repr, labels[:_LABELS_SHOWN]), "..."][: len(labels)]
  hint = ""
  if len(labels) > 2 and are_numbers([label, *labels]):
    hint = " (to learn numbers, not names, pass --task_kind=regression)"
  return f"label {label!r} is none of {', '.join(shown)}{hint}"


def are_numbers(labels: list[str]) -> bool:
  """Whether all names of classes are finite numbers."""
  try:
    return all(math.isfinite(float(label)) for label in labels)
  except ValueError:
    return False


def class_weights(
  given: str, examples: list[Example], labels: list[str], kind: str = SINGLE
) -> list[float]:
  """Returns how much each class counts in the loss.

  Args:
    given: "balanced", or numbers in the order of `labels`, "1,2.5"; or
      "name=number" for some classes, where the others keep 1. Balanced is
      n / (classes * count), as scikit-learn's compute_class_weight, so that
      each class counts as much as any other; of MULTI_LABEL negatives /
      positives, so that being of a class counts as much as not being of it.
    examples: to be learned from.
    kind: SINGLE or MULTI_LABEL.

  Raises:
    InputError: `given` is none of these, names an unknown class, is zero for
      all, or is "balanced" and a class has no example, or every one.
  """
  if given == "balanced":
    return _balanced(examples, labels, kind)
  parts = [part.strip() for part in given.split(",")]
  if all("=" in part for part in parts):
    # From the right: a class may have "=" in its name.
    named = dict(part.rsplit("=", 1) for part in parts)
  elif len(parts) == len(labels):
    named = dict(zip(labels, parts))
  else:
    raise errors.InputError(
      f"class weights {given!r}: {len(parts)} numbers for {len(labels)} "
      f"classes; pass one for each of {', '.join(labels)}, or name=number, or "
      "balanced"
    )
  for name in named:
    if name not in labels:
      raise errors.InputError(
        f"class weights {given!r}: {unknown_class(name, labels)}; name those"
      )
  found = [_weight(named.get(label, "1"), given) for label in labels]
  if not any(found):
    raise errors.InputError(
      f"class weights {given!r}: all are 0, so that nothing is learned; pass "
      "a number above 0 for some class"
    )
  return found


def _balanced(examples, labels, kind):
  counts = class_counts(examples, labels)
  most = len(examples) if kind == MULTI_LABEL else math.inf
  for label, count in counts.items():
    if not 0 < count < most:
      which = "every example is" if count else "no example"
      raise errors.InputError(
        f"class weights balanced: {which} of class {label!r}; change the data, "
        "or give the weights as numbers"
      )
  if kind == MULTI_LABEL:
    return [(most - count) / count for count in counts.values()]
  # As many as examples: each has one class here.
  total = sum(counts.values())
  return [total / (len(labels) * count) for count in counts.values()]


def _weight(text, given):
  try:
    weight = float(text)
  except ValueError:
    weight = math.nan
  if not 0 <= weight < math.inf:
    raise errors.InputError(
      f"class weights {given!r}: {text!r} is not a number of at least 0; "
      "pass numbers such as 1,2.5"
    )
  return weight
