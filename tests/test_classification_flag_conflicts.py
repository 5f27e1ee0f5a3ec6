"""Flags that would be ignored: refused where they are given."""

import pytest

import ignored_flags
from classification import flag_conflicts

DEFAULTS = {
  "task_name": None, "data_dir": None, "task_module": None,
  "language": None, "train_file": None,
  "eval_file": None, "predict_file": None, "labels": [], "task_kind": None,
  "text_column": "text", "text_b_column": None, "label_column": "label",
  "id_column": None, "file_format": None, "quoted_tsv": False,
  "label_separator": ",", "separator": None, "on_bad_row": "error",
  "eval_fraction": 0.0, "do_eval": False, "eval_steps": 0,
  "use_best": False, "save_best": None,
  "doc_stride": 0, "max_windows": 0,
  "window_pooling": "mean", "do_train": False, "do_predict": False,
  "class_weights": None, "freeze_encoder": False, "freeze_layers": 0,
  "bucket_by_length": False, "pack_sequences": False,
  "seed": 12345, "seeds": [],
  "glue_submission_dir": None, "interactive": False,
  "teacher_checkpoint": None, "distillation_weight": 0.5,
  "distillation_temperature": 2.0, "init_from_teacher": False,
  "init_checkpoint": None, "model_dir": None,
}
OFFICIAL, SEEDS = {"task_name": "MRPC"}, {"seeds": ["1"]}
PREDICTED = {**OFFICIAL, "do_predict": True}
# (what is ignored, with what, with what it is not)
TAUGHT = {"do_train": True, "teacher_checkpoint": "teacher"}
CASES = [
  ({"distillation_weight": 0.1}, {"do_train": True}, TAUGHT),
  ({"distillation_temperature": 1.0}, {"do_train": True}, TAUGHT),
  ({"freeze_encoder": True}, TAUGHT, {"do_train": True}),
  ({"init_from_teacher": True}, {"do_train": True}, TAUGHT),
  ({"teacher_checkpoint": "teacher"}, {}, {"do_train": True}),
  ({"init_checkpoint": "a"}, {**TAUGHT, "init_from_teacher": True}, TAUGHT),
  ({"model_dir": "a"}, {**TAUGHT, "init_from_teacher": True}, TAUGHT),
  *(
    ({name: value}, OFFICIAL, {})
    for name, value in {
      "train_file": "a.csv", "eval_file": "a.csv", "predict_file": "a.csv",
      "labels": ["a", "b"], "task_kind": "single", "text_column": "text",
      "text_b_column": "b", "label_column": "x", "id_column": "id",
      "file_format": "csv", "quoted_tsv": True, "label_separator": ";",
      "separator": ";", "on_bad_row": "skip",
    }.items()
  ),
  ({"eval_file": "a.csv"}, {"eval_fraction": 0.1}, {}),
  ({"eval_fraction": 0.1}, {**OFFICIAL, "do_eval": True}, {"do_eval": True}),
  ({"eval_fraction": 0.1}, {}, {"do_eval": True}),
  ({"eval_fraction": 0.1}, {}, {"eval_steps": 5}),
  ({"data_dir": "x"}, {}, OFFICIAL),
  ({"task_module": "my_task.py"}, {}, OFFICIAL),
  ({"language": "de"}, {}, OFFICIAL),
  ({"max_windows": 3}, {}, {"doc_stride": 8}),
  ({"window_pooling": "mean"}, {}, {"doc_stride": 8}),
  ({"class_weights": "balanced"}, {}, {"do_train": True}),
  ({"use_best": True}, {"do_train": True},
   {"do_train": True, "save_best": "f1"}),
  ({"freeze_layers": 1}, {"freeze_encoder": True}, {}),
  ({"bucket_by_length": True}, {"freeze_encoder": True}, {}),
  ({"pack_sequences": True}, {}, {"do_train": True}),
  ({"pack_sequences": True}, {"do_train": True, "freeze_encoder": True},
   {"do_train": True}),
  ({"seed": 0}, SEEDS, {}),
  ({"seeds": ["1"]}, {"interactive": True}, {}),
  ({"seeds": ["1"]}, {"predict_file": "-"}, {"predict_file": "a.csv"}),
  ({"seeds": ["1"]}, {**PREDICTED, "glue_submission_dir": "x"}, PREDICTED),
  ({"glue_submission_dir": "x"}, {"do_predict": True}, PREDICTED),
  ({"glue_submission_dir": "x"}, OFFICIAL, PREDICTED),
  ({"glue_submission_dir": "x"}, {**PREDICTED, "predict_file": "-"}, PREDICTED),
]


TABLE = ignored_flags.Table(flag_conflicts.CONFLICTS, DEFAULTS)


@pytest.mark.parametrize("ignored, together, fine", CASES)
def test_what_would_be_ignored_is_refused(ignored, together, fine):
  TABLE.check_case(ignored, together, fine)


def test_every_conflict_has_its_case():
  listed = {
    name
    for conflict in flag_conflicts.CONFLICTS
    for name in conflict.flags.split()
  }
  assert listed == {name for ignored, *_ in CASES for name in ignored}


def test_texts_on_the_standard_input_may_be_of_an_official_task():
  TABLE.check({**PREDICTED, "predict_file": "-"}, {"task_name", "predict_file"})
