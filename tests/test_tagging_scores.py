"""Tests the scores of tagging."""

import random
import warnings

import pytest

from tagging import scores


def test_scores_of_a_hand_counted_case():
  gold = [["B-PER", "I-PER", "O", "B-LOC"], ["B-ORG", "O"]]
  predicted = [["B-PER", "O", "O", "B-LOC"], ["B-LOC", "B-ORG"]]
  results = scores.evaluate(gold, predicted, 0.0, "iob2").results
  # Predicted: PER(0,1), LOC(3,4), LOC(0,1), ORG(1,2). Only LOC(3,4) is right.
  assert results["precision"] == 1 / 4
  assert results["recall"] == 1 / 3
  assert results["f1"] == pytest.approx(2 / 7)
  assert results["accuracy"] == 3 / 6
  assert results["precision_LOC"] == 1 / 2
  assert results["recall_LOC"] == 1
  assert results["f1_PER"] == results["f1_ORG"] == 0


def test_without_any_entity_the_scores_are_zero():
  results, report = scores.evaluate([["O", "O"]], [["O", "O"]], 2.0, "iob2")
  assert results == {
    "loss": 2.0,
    "precision": 0,
    "recall": 0,
    "f1": 0,
    "accuracy": 1,
  }
  rows = [line.split() for line in report.splitlines()]
  assert ["macro", "avg", "0.0000", "0.0000", "0.0000", "0"] in rows


def test_sentences_of_different_length_are_refused():
  for score, predicted in (
    (scores.accuracy, [["O"]]),
    (scores.accuracy, [["O", "O"], ["O"]]),
    (scores.count_entities, [["O", "O"], ["O"]]),
  ):
    with pytest.raises(ValueError):
      score([["O", "O"]], predicted)


def random_labels(rng, tags):
  labels = ["O"] + [f"{t}-{name}" for t in tags for name in ("X", "a-b")]
  return [rng.choice(labels) for _ in range(rng.randint(0, 9))]


@pytest.mark.parametrize("tags", ["I", "BI", "BIES"])
def test_seqeval_agrees(tags):
  """The labels are random, so most sequences are invalid in every scheme."""
  seqeval = pytest.importorskip("seqeval.metrics.sequence_labeling")
  rng = random.Random(1)
  gold, predicted = [], []
  for _ in range(500):
    labels = random_labels(rng, tags)
    expected = [
      (name, start, end + 1)
      for name, start, end in seqeval.get_entities(labels)
    ]
    assert scores.entities(labels) == expected, labels
    gold.append(labels)
    # Many labels equal the gold labels, so some entities are right.
    predicted.append(
      [rng.choice([label, rng.choice(labels)]) for label in labels]
    )
  results, result_table = scores.evaluate(gold, predicted, 0.0, "iobes")
  assert results["precision"] == pytest.approx(
    seqeval.precision_score(gold, predicted)
  )
  assert results["recall"] == pytest.approx(
    seqeval.recall_score(gold, predicted)
  )
  assert results["f1"] == pytest.approx(seqeval.f1_score(gold, predicted))
  assert results["accuracy"] == pytest.approx(
    seqeval.accuracy_score(gold, predicted)
  )
  with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    report = seqeval.classification_report(gold, predicted, output_dict=True)
    table = seqeval.classification_report(gold, predicted, digits=4)
  for name in ("X", "a-b"):
    assert results[f"f1_{name}"] == pytest.approx(report[name]["f1-score"])
  assert result_table == table


def test_the_last_word_in_bilou_ends_an_entity():
  assert scores.entities(["L-X", "I-X"]) == [("X", 0, 1), ("X", 1, 2)]


def test_the_report_of_single_words_counts_each_label():
  assert scores.words(["NN", "VB"]) == [("NN", 0, 1), ("VB", 1, 2)]
  labels = [["NN", "VB"], ["NN"]], [["NN", "NN"], ["NN"]]
  results, report = scores.evaluate(*labels, 0.5, "none")
  assert results == {"loss": 0.5, "accuracy": 2 / 3}
  rows = [line.split() for line in report.splitlines()]
  assert ["NN", "0.6667", "1.0000", "0.8000", "2"] in rows
  assert ["VB", "0.0000", "0.0000", "0.0000", "1"] in rows
  assert ["micro", "avg", "0.6667", "0.6667", "0.6667", "3"] in rows
