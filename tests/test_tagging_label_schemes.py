"""Tests how labels are read: without types, with suffixes, other outsides."""

import pytest

from common import errors
from tagging import data, label_schemes, scores


def read(tmp_path, labels, **options):
  """Returns the labels read from a file with a word and a label per line."""
  path = tmp_path / "file.conll"
  path.write_text("".join(f"w {label}\n" for label in labels.split()), "utf-8")
  (sentence,) = data.read(str(path), **options)
  return " ".join(sentence.labels)


def test_tags_without_a_type_are_one_type():
  """The values are of seqeval 1.2.2.

  from seqeval.metrics import f1_score
  from seqeval.metrics.sequence_labeling import get_entities
  print(get_entities(gold[0]), get_entities(predicted[0]))
  print(f1_score(gold, predicted))
  """
  gold = [["B", "I", "O", "B", "O", "B"], ["O", "B", "I"]]
  predicted = [["B", "I", "O", "B", "I", "O"], ["O", "B", "B"]]
  assert scores.entities(gold[0]) == [("_", 0, 2), ("_", 3, 4), ("_", 5, 6)]
  assert scores.entities(predicted[0]) == [("_", 0, 2), ("_", 3, 5)]
  results = scores.evaluate(gold, predicted, 0.0, "iob2").results
  assert results["f1"] == results["f1__"] == 0.25
  assert results["precision"] == results["recall"] == 0.25


@pytest.mark.parametrize(
  "scheme, labels",
  [
    ("iob2", "O B I I B O"),
    ("iob1", "O I I B O"),
    ("iobes", "S O B I E"),
    ("bilou", "U O B I L"),
    ("bmes", "S O B M E"),
  ],
)
def test_every_scheme_has_labels_without_types(tmp_path, scheme, labels):
  assert read(tmp_path, labels, scheme=scheme) == labels
  typed = " ".join(n if n == "O" else f"{n}-X" for n in labels.split())
  assert len(scores.entities(labels.split())) == len(
    scores.entities(typed.split())
  )


@pytest.mark.parametrize(
  "labels, expected",
  [
    ("B_Time I_Time O", "B-Time I-Time O"),
    ("NUM-B NUM-I O", "B-NUM I-NUM O"),
    ("NUM_B NUM_I O", "B-NUM I-NUM O"),
    # A tag in front decides.
    ("B-I I-I O", "B-I I-I O"),
    ("B-a_b I-a_b", "B-a_b I-a_b"),
  ],
)
def test_other_spellings_are_read_and_said(tmp_path, labels, expected, caplog):
  assert read(tmp_path, labels) == expected
  first = labels.split()[0], expected.split()[0]
  said = f"labels such as {first[0]} are read as {first[1]}" in caplog.text
  assert said == (labels != expected)


@pytest.mark.parametrize(
  "labels, facts",
  [
    ("B-X O B", ["file.conll:3: 'B' has no type", "'B-X' in", "conll:1"]),
    ("B O B-X", ["file.conll:3: 'B-X' has a type", "'B' in", "conll:1"]),
    ("B-", ["file.conll:1: 'B-' is not a label of iob2"]),
    ("E", ["file.conll:1: 'E' is not", "--outside_label=E", "plain"]),
    ("E-X", ["file.conll:1: 'E-X' is not", "--label_column"]),
  ],
)
def test_labels_that_are_refused(tmp_path, labels, facts):
  with pytest.raises(errors.InputError) as raised:
    read(tmp_path, labels)
  assert all(fact in str(raised.value) for fact in facts)


def test_only_types_without_tags_need_the_label_o(tmp_path, caplog):
  for scheme, labels in (("iob2", "B-X I-X"), ("none", "NN VB")):
    assert read(tmp_path, labels, scheme=scheme) == labels
  assert read(tmp_path, "PER O", scheme="plain") == "PER O"
  assert not caplog.text


def test_a_label_with_a_type_means_an_entity(tmp_path):
  with pytest.raises(errors.InputError) as raised:
    read(tmp_path, "E-X")
  assert "--outside_label" not in str(raised.value)


def test_another_label_for_no_entity(tmp_path, caplog):
  for outside in ("0", "_", "OTHER"):
    labels = f"{outside} {outside} PER {outside}"
    caplog.clear()
    assert read(tmp_path, labels, scheme="plain") == labels
    # The most common label is probably the one.
    assert f"--outside_label={outside}" in caplog.text
    caplog.clear()
    options = {"outside_label": outside, "scheme": "plain"}
    assert read(tmp_path, labels, **options) == "O O PER O"
    assert not caplog.text
    tagged = f"{outside} B-PER I-PER"
    assert read(tmp_path, tagged, outside_label=outside) == "O B-PER I-PER"


@pytest.mark.parametrize(
  "before, after, scheme, expected",
  [
    ("B-X", "I-X", "iob2", "I-X"),
    ("B-X", "B-X", "iob2", "O"),
    ("O", "I-X", "iob1", "O"),
    ("I-X", "I-X", "iob1", "I-X"),
    ("B-X", "E-X", "iobes", "I-X"),
    ("B-X", "E-X", "bmes", "M-X"),
    ("B", "I", "iob2", "I"),
    ("B-X", "L-X", "bilou", "I-X"),
    ("M-X", "M-X", "bmes", "M-X"),
    ("B-X", "I-Y", "iob2", "O"),
    ("I-X", "I-Y", "iob1", "O"),
    ("E-X", "S-X", "iobes", "O"),
    ("PER", "PER", "plain", "PER"),
    ("PER", "LOC", "plain", "O"),
    ("NN", "NN", "none", "_"),
  ],
)
def test_the_label_between_two_words(before, after, scheme, expected):
  assert label_schemes.between(before, after, scheme) == expected
