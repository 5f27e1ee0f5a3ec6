"""Reads labels that mark entities of several words, and checks their order.

  labels                            read as
  B-PER  I-PER  O                   the same
  B      I      O                   the same: entities of one type, "_"
  B_PER  I_PER, PER-B  PER-I        B-PER  I-PER

IOB1 uses B only between neighbouring entities of the same type, IOB2 at the
start of each entity. IOBES ends an entity of several words with E, and marks an
entity of one word with S. BILOU has L and U instead of E and S; BMES has M
instead of I. The schemes "plain" (types without tags) and "none" have no order.
No TensorFlow.
"""

import re

from absl import logging

from common import errors, flag_values
from tagging import scores

SCHEMES = flag_values.TAGGING_SCHEMES
OUTSIDE = "O"
_TAGS = {
  "iob1": "IB",
  "iob2": "BI",
  "iobes": "BIES",
  "bilou": "BILU",
  "bmes": "BMES",
}
# Maps the tags of BILOU and BMES to the tags of IOBES.
_IOBES = {"L": "E", "U": "S", "M": "I"}


class LabelReader:
  """Reads the labels of a file; counts or refuses those in an invalid order.

  Attributes:
    scheme: one of SCHEMES.
  """

  def __init__(self, scheme: str, *, lenient: bool, outside: str, advice: str):
    """Takes the flags of a file.

    Args:
      scheme: one of SCHEMES.
      lenient: whether to count labels in an invalid order, not to refuse them.
      outside: the file's label of words outside of entities, read as O.
      advice: what else may be wrong if a label is not in the scheme, such as
        "check --label_column, or ".
    """
    self.scheme, self._lenient = scheme, lenient
    self._outside, self._advice = outside, advice
    self._num_odd, self._first_odd = 0, ""
    # Places of the first label with a type and of the first without a type.
    self._first: dict[bool, str] = {}
    self._rewritten: tuple[str, str] | None = None
    self._counts: dict[str, int] = {}
    tags = _TAGS.get(scheme, "-")
    self._other_spelling = re.compile(
      f"(?P<tag>[{tags}])_(?P<type>.+)|(?P<type_>.+)[-_](?P<tag_>[{tags}])"
    )

  def read(self, labels: list[str], places: list[str]) -> list[str]:
    """Returns the labels of a sentence, spelled as TAG-TYPE.

    `places` has file and line of each label, for messages. Raises InputError: a
    label does not exist in the scheme or, unless lenient, must not follow the
    previous label. The file then probably has a different scheme.
    """
    if self._outside != OUTSIDE:
      labels = [OUTSIDE if n == self._outside else n for n in labels]
    if self.scheme in _TAGS:
      labels = [self._checked(*pair) for pair in zip(labels, places)]
      self._check_order(labels, places)
    for label in labels:
      self._counts[label] = self._counts.get(label, 0) + 1
    return labels

  def _checked(self, label: str, place: str) -> str:
    """Returns a label in the spelling TAG-TYPE; raises InputError."""
    if label == OUTSIDE:
      return label
    if not is_label(label, self.scheme):
      match = self._other_spelling.fullmatch(label)
      if not match:
        raise errors.InputError(self._not_in_scheme(label, place))
      tag, entity_type = (
        match[name] or match[f"{name}_"] for name in ("tag", "type")
      )
      self._rewritten = self._rewritten or (label, f"{tag}-{entity_type}")
      label = f"{tag}-{entity_type}"
    has_type = "-" in label
    self._first.setdefault(has_type, f"{label!r} in {place}")
    if other := self._first.get(not has_type):
      raise errors.InputError(
        f"{place}: {label!r} has {'a' if has_type else 'no'} type, unlike "
        f"{other}; write all labels with types, such as B-PER, or all without"
      )
    return label

  def _not_in_scheme(self, label: str, place: str) -> str:
    known = ", ".join(f"{tag}-TYPE" for tag in _TAGS[self.scheme])
    outside = ""
    if "-" not in label:
      outside = f"--outside_label={label} if it means no entity, or "
    return (
      f"{place}: {label!r} is not a label of {self.scheme} (O, {known}); "
      f"{self._advice}pass {outside}another --scheme (plain for types without "
      "tags, none for labels of single words, such as parts of speech)"
    )

  def _check_order(self, labels: list[str], places: list[str]) -> None:
    before = OUTSIDE
    for label, place in zip(labels, places):
      self._check_follows(before, label, place)
      before = label
    # In the other schemes, the last word of an entity needs a final tag.
    if self.scheme not in ("iob1", "iob2"):
      end = f"{places[-1]} (end of the sentence)"
      self._check_follows(before, OUTSIDE, end)

  def _check_follows(self, before: str, label: str, place: str) -> None:
    if may_follow(before, label, self.scheme):
      return
    if not self._lenient:
      raise errors.InputError(
        f"{place}: {label} follows {before}, which {self.scheme} does not "
        "allow; fix the labels, pass --lenient to score them as in conlleval, "
        f"or pass another --scheme: {', '.join(SCHEMES)}"
      )
    self._num_odd += 1
    self._first_odd = self._first_odd or f"{place}: {label} follows {before}"

  def log(self, path: str) -> None:
    """Warns about what was read differently from the letters of a file."""
    if self._num_odd:
      logging.warning(
        "%s: %d labels are in an order that %s does not allow; they are scored "
        "as in conlleval; the first: %s",
        path,
        self._num_odd,
        self.scheme,
        self._first_odd,
      )
    if self._rewritten:
      logging.warning(
        "%s: labels such as %s are read as %s, also in predictions",
        path,
        *self._rewritten,
      )
    if self.scheme == "plain" and self._counts and OUTSIDE not in self._counts:
      logging.warning(
        "%s: no word has the label O, so every word is part of an entity; if a "
        "label means no entity, name it, as in --outside_label=%s",
        path,
        max(self._counts, key=lambda label: self._counts[label]),
      )


def is_label(label: str, scheme: str) -> bool:
  """Returns whether a label may be one of a scheme, such as B-PER of iob2."""
  tag, entity_type = scores.split_label(label)
  is_tagged = bool(entity_type) and tag in tuple(_TAGS.get(scheme, ""))
  return scheme not in _TAGS or label == OUTSIDE or is_tagged


def may_follow(before: str, label: str, scheme: str) -> bool:
  """Returns whether a scheme with tags allows `label` after `before`."""
  tag, entity_type = scores.split_label(label)
  tag_before, type_before = scores.split_label(before)
  tag, tag_before = _IOBES.get(tag, tag), _IOBES.get(tag_before, tag_before)
  inside = tag_before in ("B", "I") and entity_type == type_before
  if scheme == "iob1":
    return tag != "B" or inside
  if scheme == "iob2":
    return tag != "I" or inside
  if tag_before in ("B", "I"):
    return inside and tag in ("I", "E")
  return tag in ("O", "B", "S")


def between(before: str, after: str, scheme: str) -> str:
  """Returns the label of a word without letters between two words.

  It is inside of an entity that has both words, and else outside.
  """
  if scheme == "none":
    return "_"
  if scheme == "plain":
    return before if before == after else OUTSIDE
  tag, entity_type = scores.split_label(after)
  tag_before, type_before = scores.split_label(before)
  is_inside = (
    tag in ("I", "M", "E", "L")
    and _IOBES.get(tag_before, tag_before) in ("B", "I")
    and entity_type == type_before
  )
  inside = "M" if scheme == "bmes" else "I"
  return inside + after[len(tag) :] if is_inside else OUTSIDE
