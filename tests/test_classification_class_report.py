"""The report of classes before training."""

from classification import class_report, labelled_examples, tasks

COUNTS = {"Good": 1, "bad": 7, "good": 5, "odd": 0}


def test_classes_have_their_counts_and_weights():
  lines = class_report.table({"bad": 7, "good": 5}, [1.0, 2.5])
  assert [line.split() for line in lines] == [
    ["class", "examples", "weight"], ["bad", "7", "1"], ["good", "5", "2.5"]
  ]


def test_classes_that_look_like_mistakes_are_named():
  case, single, none = class_report.doubts(COUNTS)
  assert case.startswith("classes that differ only in case: 'Good', 'good'")
  assert single.startswith("class 'Good' has a single example")
  assert none == "class 'odd' has no example to train on"
  assert class_report.doubts({"a": 2, "b": 3}) == []


def test_the_classes_of_the_training_data_are_logged(caplog):
  caplog.set_level("INFO", logger="absl")
  examples = [
    labelled_examples.Example("1", "t", label=label) for label in ("a", "A")
  ]
  split = labelled_examples.Split("train", examples, [])
  task = tasks.ClassifierTask(
    "own data", "single", ("A", "a"), (), {"train": split}
  )
  class_report.log(task)
  assert "differ only in case" in caplog.text
  levels = [record.levelname for record in caplog.records]
  assert levels == ["INFO"] * 3 + ["WARNING"] * 3
  caplog.clear()
  class_report.log(task._replace(splits={}))
  assert not caplog.records
