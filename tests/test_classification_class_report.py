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
  split = labelled_examples.Split("train", examples)
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


def numbers_task(train, scored):
  """A task of classes that are numbers; texts are letters."""
  def split(texts):
    return labelled_examples.Split("", [
      labelled_examples.Example(text, text, label="1") for text in texts
    ])

  return tasks.ClassifierTask(
    "own data", "single", ("1", "2.5", "3"), (),
    {"train": split(train), "eval": split(scored)},
  )


def test_numbers_may_be_meant_as_numbers(caplog):
  class_report.log(numbers_task("ab", "a"))
  assert "all 3 classes are numbers" in caplog.text
  assert "--task_kind=regression" in caplog.text
  said = labelled_examples.unknown_class("4", ("1", "2.5", "3"))
  assert "pass --task_kind=regression" in said
  said = labelled_examples.unknown_class("x", ("1", "2", "3"))
  assert "regression" not in said
  assert labelled_examples.unknown_class("x", list("a" * 50)).count("'a'") == 20


def test_scores_of_texts_that_were_learned_are_told(caplog):
  class_report.log(numbers_task("abc", "ad"))
  assert "is trained on" not in caplog.text
  class_report.log(numbers_task("abc", "ca"))
  assert "all that is scored is trained on" in caplog.text
  assert "--eval_fraction" in caplog.text
