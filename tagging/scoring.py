"""Scores of tagged entities: precision, recall, F1; plain Python.

Entities are found and counted as conlleval, the scorer of the CoNLL shared
tasks, does it: one rule for the labels of IOB1, IOB2 and IOBES alike, which
also makes the best of label sequences that no scheme allows.
"""

from typing import NamedTuple


class Entity(NamedTuple):
  """Words [start, end) of a sentence, and what they are: "PER", "LOC", ..."""

  kind: str
  start: int
  end: int


def split_label(label):
  """Returns (tag, kind): "B-PER" -> ("B", "PER"), "O" -> ("O", "")."""
  tag, _, kind = label.partition("-")
  return tag, kind


def entities(labels):
  """Finds the entities of one sentence.

  An entity ends before a word that is O, B or S or of another kind, and after
  one that is E or S. One begins at any word but O that is not inside one:

      I-PER I-PER B-PER O I-LOC I-ORG     (IOB1)
      --------------- --- ----- -----

  Args:
    labels: list of "O", or "<tag>-<kind>" with one of the tags B, I, E, S.

  Returns:
    List of Entity, in order.
  """
  found, start, before = [], None, ("O", "")
  for place, label in enumerate([*labels, "O"]):
    tag, kind = split_label(label)
    ends = tag in ("O", "B", "S") or before[0] in ("E", "S")
    if start is not None and (ends or kind != before[1]):
      found.append(Entity(before[1], start, place))
      start = None
    if start is None and tag != "O":
      start = place
    before = tag, kind
  return found


def accuracy(gold, predicted):
  """Returns the share of equal labels in two lists of lists of them."""
  pairs = [
    (g, p)
    for gold_sentence, predicted_sentence in zip(gold, predicted, strict=True)
    for g, p in zip(gold_sentence, predicted_sentence, strict=True)
  ]
  return _ratio(sum(g == p for g, p in pairs), len(pairs))


def entity_scores(gold, predicted):
  """Precision, recall and F1 over whole entities, and the labels' accuracy.

  An entity counts as found when its kind and both of its ends are right.

  Args:
    gold, predicted: lists of sentences, each a list of labels.

  Returns:
    dict: precision, recall, f1, accuracy, and for each kind such as PER
    precision_PER, recall_PER, f1_PER. What has nothing to divide by is 0, as
    conlleval has it.
  """
  right, found, wanted = {}, {}, {}
  for gold_sentence, predicted_sentence in zip(gold, predicted, strict=True):
    theirs = set(entities(gold_sentence))
    ours = set(entities(predicted_sentence))
    for counts, some in (
      (wanted, theirs), (found, ours), (right, ours & theirs)
    ):
      for entity in some:
        counts[entity.kind] = counts.get(entity.kind, 0) + 1
  scores = _precision_recall_f1(
    *(sum(counts.values()) for counts in (right, found, wanted))
  )
  for kind in sorted(found.keys() | wanted.keys()):
    of_kind = (counts.get(kind, 0) for counts in (right, found, wanted))
    for name, value in _precision_recall_f1(*of_kind).items():
      scores[f"{name}_{kind}"] = value
  return {**scores, "accuracy": accuracy(gold, predicted)}


def _precision_recall_f1(right, found, wanted):
  precision, recall = _ratio(right, found), _ratio(right, wanted)
  f1 = _ratio(2 * precision * recall, precision + recall)
  return {"precision": precision, "recall": recall, "f1": f1}


def _ratio(part, whole):
  return part / whole if whole else 0.0
