"""Computes precision, recall and F1 of entities, and writes them to files.

  eval_results.txt    name = value lines
  eval_report.txt     precision, recall, F1 and support of each type

For a prediction file with labels, the names begin with test_ instead of eval_.

Entities are defined as in conlleval, the scorer of the CoNLL shared tasks. The
same rule applies to labels of IOB1, IOB2, IOBES, BILOU and BMES, and to
sequences of labels that no scheme allows.
"""

import collections
import os
from collections.abc import Callable
from typing import Any, NamedTuple

from absl import logging

from common import file_io, result_lines

# Tags of an entity's last word, and of an entity of one word.
_LAST, _ALONE = ("E", "L"), ("S", "U")
_TAGS = ("B", "I", "M", *_LAST, *_ALONE)


class Entity(NamedTuple):
  """An entity's type ("PER", "LOC", ...) and words [start, end)."""

  type: str
  start: int
  end: int


def split_label(label: str) -> tuple[str, str]:
  """Returns (tag, type): "B-PER" -> ("B", "PER"), "O" -> ("O", "").

  A tag without a type has the type "_", as in seqeval: "B" -> ("B", "_").
  """
  tag, dash, entity_type = label.partition("-")
  return tag, entity_type if dash or tag not in _TAGS else "_"


def entities(labels: list[str]) -> list[Entity]:
  """Returns the entities of a sentence, in order.

  An entity ends before a word with the tag O, B, S or U or with another type,
  and after a word with the tag E, L, S or U. A word that is neither O nor in an
  entity begins a new entity:

      I-PER I-PER B-PER O I-LOC I-ORG     (IOB1)
      ----------- -----   ----- -----

  Labels are "O", "<tag>-<type>" or "<tag>", where the tag is B, I, M, E, L, S
  or U. Any other label, such as "PER" in the model of another program, is only
  a type: consecutive words with the same label form an entity.
  """
  spans, start, before = [], None, ("O", "")
  # The added O ends an entity at the end of the sentence.
  for index, label in enumerate([*labels, "O"]):
    tag, entity_type = split_label(label)
    if label != "O" and tag.upper() not in _TAGS:
      tag, entity_type = "I", label
    ends = tag in ("O", "B", *_ALONE) or before[0] in (*_LAST, *_ALONE)
    if start is not None and (ends or entity_type != before[1]):
      spans.append(Entity(before[1], start, index))
      start = None
    if start is None and tag != "O":
      start = index
    before = tag, entity_type
  return spans


def accuracy(gold: list[list[str]], predicted: list[list[str]]) -> float:
  """Returns the proportion of words with the correct label."""
  is_correct = [
    label == predicted_label
    for pair in zip(gold, predicted, strict=True)
    for label, predicted_label in zip(*pair, strict=True)
  ]
  return _ratio(sum(is_correct), len(is_correct))


class Counts(NamedTuple):
  """The numbers of correct, gold and predicted entities of each type."""

  right: collections.Counter
  gold: collections.Counter
  predicted: collections.Counter

  def types(self) -> list[str]:
    """Returns all types, sorted."""
    return sorted(self.predicted.keys() | self.gold.keys())

  def of(self, entity_type: str) -> dict[str, float]:
    """Returns precision, recall and F1 of a type."""
    return _precision_recall_f1(*(counts[entity_type] for counts in self))

  def of_all(self) -> dict[str, float]:
    """Returns precision, recall and F1 of all types together."""
    return _precision_recall_f1(*(counts.total() for counts in self))


def words(labels: list[str]) -> list[Entity]:
  """Returns an Entity for each word of a sentence; its type is the label."""
  return [Entity(label, n, n + 1) for n, label in enumerate(labels)]


def finder(scheme: str) -> Callable[[list[str]], list[Entity]]:
  """Returns the function that finds the entities in a sentence's labels.

  With the scheme "none", each word counts as an entity. With "plain", whose
  labels have no tags, consecutive words with the same label form an entity.
  """
  if scheme == "plain":
    return lambda labels: entities(
      [label if label == "O" else f"I-{label}" for label in labels]
    )
  return words if scheme == "none" else entities


def count_entities(
  gold: list[list[str]], predicted: list[list[str]], find: Callable = entities
) -> Counts:
  """Counts entities; a correct entity has the gold type, start and end.

  `find` is the function that finds the entities in a sentence's labels.
  """
  counts = Counts(*(collections.Counter() for _ in Counts._fields))
  for gold_sentence, predicted_sentence in zip(gold, predicted, strict=True):
    # Sets per sentence: equal entities in two sentences count twice.
    pair = set(find(gold_sentence)), set(find(predicted_sentence))
    for counter, group in zip(counts, (set.intersection(*pair), *pair)):
      counter.update(entity.type for entity in group)
  return counts


def report(counts: Counts) -> str:
  """Returns a table with the scores of each type, in seqeval's format.

  A type's support is its number of gold entities. The last rows are averages:
  micro (over all entities), macro (over types) and weighted (over types,
  weighted by their support).
  """
  types, total = counts.types(), counts.gold.total()
  rows: list[tuple] = [
    (k, *counts.of(k).values(), counts.gold[k]) for k in types
  ]
  averages = [("micro avg", *counts.of_all().values(), total)]
  for name, weights in {
    "macro avg": [_ratio(1, len(rows))] * len(rows),
    "weighted avg": [_ratio(row[-1], total) for row in rows],
  }.items():
    means = [
      sum(weight * row[column] for weight, row in zip(weights, rows))
      for column in (1, 2, 3)
    ]
    averages.append((name, *means, total))
  width = max(map(len, [*types, "weighted avg"]))
  names = ("precision", "recall", "f1-score", "support")
  heading = f"{'':>{width}} " + "".join(f" {name:>9}" for name in names)
  blocks = [
    [heading],
    *(
      [
        f"{name:>{width}} "
        + "".join(f" {value:>9.4f}" for value in values)
        + f" {support:>9}"
        for name, *values, support in block
      ]
      for block in (rows, averages)
    ),
  ]
  return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _precision_recall_f1(
  right: int, gold: int, predicted: int
) -> dict[str, float]:
  precision, recall = _ratio(right, predicted), _ratio(right, gold)
  f1 = _ratio(2 * precision * recall, precision + recall)
  return {"precision": precision, "recall": recall, "f1": f1}


def _ratio(part: float, whole: float) -> float:
  return part / whole if whole else 0.0


class Evaluation(NamedTuple):
  """Scores of predicted labels by name, and the table of `report`."""

  results: dict[str, float]
  report: str


def evaluate(
  gold: list[list[str]], predicted: list[list[str]], loss: float, scheme: str
) -> Evaluation:
  """Scores the predicted labels of sentences.

  The results are `loss`, precision, recall, f1, accuracy, and for each type,
  such as PER, precision_PER, recall_PER and f1_PER. A ratio x / 0 is 0, as in
  conlleval. With the scheme "none", the results are only loss and accuracy.
  """
  counts = count_entities(gold, predicted, finder(scheme))
  results = {"loss": loss}
  if scheme != "none":
    results |= counts.of_all()
    for name in counts.types():
      results |= {f"{n}_{name}": value for n, value in counts.of(name).items()}
  results["accuracy"] = accuracy(gold, predicted)
  return Evaluation(results, report(counts))


def write(
  output_dir: str, name: str, evaluation: Evaluation, **others: Any
) -> None:
  """Writes <name>_results.txt, including `others`, and <name>_report.txt."""
  path = os.path.join(output_dir, f"{name}_results.txt")
  result_lines.write(path, {**evaluation.results, **others})
  logging.info("scores of each type:\n%s", evaluation.report)
  path = os.path.join(output_dir, f"{name}_report.txt")
  file_io.write_text(path, evaluation.report)
