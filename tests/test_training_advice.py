"""Advice on poor results, and none on the published recipes."""

import numpy as np
import pytest

from common import run_settings
from training import advice, run_report

LABELS = ["bad", "good", "mixed"]
# A table of 499 rows, with the default flags: 46 steps.
DEFAULTS = {
  "do_train": True, "train_batch_size": 32, "num_train_epochs": 3.0,
  "class_weights": None,
}
FLAGS = "--optimizer=adamw --learning_rate=1e-4 "


def advised(matrix, steps, results=None, **changes):
  settings = run_settings.Settings({**DEFAULTS, **changes})
  report = run_report.Report(
    "text-classification", results or {}, labels=LABELS[: len(matrix or ())],
    confusions=None if matrix is None else np.array(matrix),
  )
  return advice.sentences(settings, report, steps)


def test_few_steps_and_a_rare_class_get_flags():
  few, rare = advised([[300, 0, 0], [149, 0, 0], [50, 0, 0]], 46)
  assert few.startswith("every prediction is 'bad'; 46 steps are few: try ")
  # 490 examples a pass: 4 epochs of 16 make 122 steps.
  assert FLAGS in few and few.endswith(
    "--train_batch_size=16 --num_train_epochs=4"
  )
  assert rare == (
    "0 of 50 texts of 'mixed' are recognised, and the largest class has 300; "
    "try --class_weights=balanced"
  )
  # The flags that it names are enough.
  assert not advised(
    [[280, 20, 0], [49, 80, 20], [10, 10, 30]], 124, num_train_epochs=4.0,
    train_batch_size=16, class_weights="balanced",
  )


def test_a_smaller_table_takes_more_epochs():
  (few,) = advised([[2, 2], [2, 2]], 9)  # 96 examples: 6 steps of 16 each.
  assert few.startswith("the mean recall is 0.50; 9 steps")
  assert few.endswith("--num_train_epochs=17")


def test_the_worst_of_several_rare_classes_is_named():
  (told,) = advised([[370, 0, 0], [76, 2, 2], [3, 0, 47]], 343)
  assert told.startswith("2 of 80 texts of 'good' are recognised")


def test_one_class_is_told_after_many_steps_and_without_training():
  for changes in {"do_train": True}, {"do_train": False}:
    (told,) = advised([[60, 0], [40, 0]], 343, **changes)
    assert told == (
      "every prediction is 'bad'; try more --num_train_epochs or another "
      "--learning_rate"
    )


@pytest.mark.parametrize("matrix, steps, changes", [
  # MRPC's recipe, as it is and with another result.
  ([[93, 36], [24, 255]], 343, {"task_name": "MRPC"}),
  ([[60, 69], [24, 255]], 343, {}),
  # WNLI's is short, and no setting learns it.
  ([[20, 20], [15, 16]], 59, {"task_name": "WNLI"}),
  # Good after few steps; few by a flag; evaluated alone; another rate is due;
  # 10 rows; one class in the file.
  ([[40, 1], [2, 40]], 12, {}),
  ([[20, 20], [15, 16]], 9, {"max_train_steps": 9}),
  ([[20, 20], [15, 16]], 9, {"do_train": False}),
  ([[20, 20], [15, 16]], 9, {"freeze_encoder": True}),
  ([[2, 2], [1, 1]], 1, {}),
  ([[20, 0], [0, 0]], 343, {}),
  # The rare class is recognised; the weights cannot be given.
  ([[290, 10], [8, 42]], 343, {}),
  ([[290, 10], [30, 20]], 343, {"teacher_checkpoint": "t"}),
  (None, 9, {"results": {"eval_loss": 1.0}}),
])
def test_others_get_none(matrix, steps, changes):
  assert not advised(matrix, steps, **changes)


@pytest.mark.parametrize("results, fault", [
  ({"f1": 0.25}, "f1 is 0.25"), ({"f1": 33.33}, "f1 is 33.3"),
  ({"eval_pearson": -0.1}, "eval_pearson is -0.1"), ({"f1": 0.95}, None),
  ({"f1": 88.5}, None), ({"eval_f1_micro": 1.0}, None),
])
def test_scores_of_other_tasks_count(results, fault):
  texts = advised(None, 46, results)
  assert [text.split(";")[0] for text in texts] == [fault] * bool(fault)
