"""Scores of tagged entities: precision, recall, F1; plain Python.

Entities are found and counted as conlleval, the scorer of the CoNLL shared
tasks, does it: one rule for the labels of IOB1, IOB2 and IOBES alike, which
also gives label sequences that no scheme allows a meaning.
"""

from collections.abc import Callable
from typing import NamedTuple


class Entity(NamedTuple):
  """Words [start, end) of a sentence, and what they are: "PER", "LOC", ..."""

  kind: str
  start: int
  end: int


def split_label(label: str) -> tuple[str, str]:
  """Returns (tag, kind): "B-PER" -> ("B", "PER"), "O" -> ("O", "")."""
  tag, _, kind = label.partition("-")
  return tag, kind


def entities(labels: list[str]) -> list[Entity]:
  """Finds the entities of one sentence, in order.

  An entity ends before a word that is O, B or S or of another kind, and after
  one that is E or S. One begins at any word but O that is not inside one:

      I-PER I-PER B-PER O I-LOC I-ORG     (IOB1)
      --------------- --- ----- -----

  Labels are "O", or "<tag>-<kind>" with one of the tags B, I, E, S.
  """
  found, start, before = [], None, ("O", "")
  # The O at the end closes an entity that the sentence ends with.
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


def accuracy(gold: list[list[str]], predicted: list[list[str]]) -> float:
  """Returns the share of equal labels."""
  pairs = [
    (g, p)
    for gold_sentence, predicted_sentence in zip(gold, predicted, strict=True)
    for g, p in zip(gold_sentence, predicted_sentence, strict=True)
  ]
  return _ratio(sum(g == p for g, p in pairs), len(pairs))


class Counts(NamedTuple):
  """Entities of each kind: right (found and wanted), predicted, in the gold."""

  right: dict[str, int]
  found: dict[str, int]
  wanted: dict[str, int]

  def kinds(self) -> list[str]:
    """Returns all kinds, sorted."""
    return sorted(self.found.keys() | self.wanted.keys())

  def of(self, kind: str) -> tuple[int, ...]:
    """Returns (right, found, wanted) of a kind."""
    return tuple(counts.get(kind, 0) for counts in self)

  def totals(self) -> tuple[int, ...]:
    """Returns (right, found, wanted) of all kinds together."""
    return tuple(sum(counts.values()) for counts in self)


def words(labels: list[str]) -> list[Entity]:
  """Returns each word of a sentence as an Entity of the kind of its label."""
  return [Entity(label, n, n + 1) for n, label in enumerate(labels)]


def count_entities(
  gold: list[list[str]], predicted: list[list[str]], find: Callable = entities
) -> Counts:
  """Counts entities; one is right when its kind and both ends are.

  `find` gives those of a sentence's labels: `entities`, or `words` for labels
  of single words.
  """
  counts = Counts({}, {}, {})
  for gold_sentence, predicted_sentence in zip(gold, predicted, strict=True):
    # Of one sentence: equal entities in two sentences are two.
    wanted, found = set(find(gold_sentence)), set(find(predicted_sentence))
    for numbers, group in zip(counts, (found & wanted, found, wanted)):
      for entity in group:
        numbers[entity.kind] = numbers.get(entity.kind, 0) + 1
  return counts


def entity_scores(
  gold: list[list[str]], predicted: list[list[str]]
) -> dict[str, float]:
  """Precision, recall and F1 over whole entities, and the labels' accuracy.

  Returns:
    precision, recall, f1, accuracy, and for each kind such as PER
    precision_PER, recall_PER, f1_PER. A ratio whose denominator is 0 is 0, as
    in conlleval.
  """
  counts = count_entities(gold, predicted)
  scores = _precision_recall_f1(*counts.totals())
  for kind in counts.kinds():
    for name, value in _precision_recall_f1(*counts.of(kind)).items():
      scores[f"{name}_{kind}"] = value
  return {**scores, "accuracy": accuracy(gold, predicted)}


def report(counts: Counts) -> str:
  """Returns a table of the scores of each kind, as seqeval prints it.

  Below the kinds: micro (all entities together), macro (mean over kinds) and
  weighted (mean over kinds, weighted by their support, which is how many
  entities of a kind the gold labels have).
  """
  kinds = counts.kinds()
  rows = [
    (kind, *_precision_recall_f1(*counts.of(kind)).values(),
     counts.wanted.get(kind, 0))
    for kind in kinds
  ]
  total = sum(counts.wanted.values())
  shares = {
    # Each kind alike, however rare.
    "macro avg": [_ratio(1, len(rows))] * len(rows),
    "weighted avg": [_ratio(row[-1], total) for row in rows],
  }
  averages = [
    ("micro avg", *_precision_recall_f1(*counts.totals()).values(), total)
  ]
  for name, weights in shares.items():
    means = [
      sum(weight * row[column] for weight, row in zip(weights, rows))
      for column in (1, 2, 3)
    ]
    averages.append((name, *means, total))
  width = max(map(len, [*kinds, "weighted avg"]))
  names = ("precision", "recall", "f1-score", "support")
  heading = f"{'':>{width}} " + "".join(f" {name:>9}" for name in names)
  blocks = [[heading]]
  for block in (rows, averages):
    blocks.append([
      f"{kind:>{width}} " + "".join(f" {value:>9.4f}" for value in values)
      + f" {support:>9}"
      for kind, *values, support in block
    ])
  return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _precision_recall_f1(right, found, wanted):
  precision, recall = _ratio(right, found), _ratio(right, wanted)
  f1 = _ratio(2 * precision * recall, precision + recall)
  return {"precision": precision, "recall": recall, "f1": f1}


def _ratio(part, whole):
  return part / whole if whole else 0.0
