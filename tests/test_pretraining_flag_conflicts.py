"""Flags of the pre-training scripts that would have no effect are refused."""

import pytest

from common import errors, run_settings
from pretraining import flag_conflicts

DATA = {
  "input_file": None, "do_lower_case": True, "split_sentences": False,
  "segmented_text": False, "max_seq_length": 128, "packing": "sentence_pairs",
  "max_predictions_per_seq": 20, "random_seed": 12345, "dupe_factor": 10,
  "masked_lm_prob": 0.15, "short_seq_prob": 0.1, "mask_runs": None,
  "do_whole_word_mask": False, "dynamic_masking": False, "shard_size_mb": 0.0,
  "num_processes": 1, "runner": None, "verify": False,
}
TRAINING = {
  **dict.fromkeys(
    "eval_steps save_best early_stopping_patience profile_steps freeze_layers "
    "layerwise_lr_decay weight_decay_rate optimizer learning_rate_schedule "
    "gradient_accumulation_steps recompute_activations pack_sequences "
    "max_to_keep log_steps max_bad_steps eval_input_file adam_beta2 "
    "adam_epsilon".split()
  ),
  "freeze_encoder": False, "do_train": True, "do_eval": False,
  "do_whole_word_mask": False, "mask_runs": None,
  "span_boundary_objective": False, "max_predictions_per_seq": 20,
  "teacher_checkpoint": None, "init_from_teacher": False,
  "distillation_temperature": 2.0, "distillation_weights": ("5", "2", "1"),
  "init_checkpoint": None, "model_dir": None,
}


def refuse(table, defaults, **given):
  settings = run_settings.Settings({**defaults, **given}, given)
  run_settings.refuse_ignored(settings, table)


def is_accepted(table, defaults, **given):
  try:
    refuse(table, defaults, **given)
  except errors.InputError:
    return False
  return True


@pytest.mark.parametrize(
  "given, sentence",
  [
    ({"verify": True, "input_file": "a"}, "--input_file .* with --verify"),
    ({"verify": True, "dupe_factor": 5}, "--dupe_factor .* with --verify"),
    (
      {"mask_runs": "spans", "dynamic_masking": True},
      "--mask_runs .* pass it to run_pretraining.py instead",
    ),
    (
      {"max_predictions_per_seq": 5, "dynamic_masking": True},
      "--max_predictions_per_seq .* pass it to run_pretraining.py instead",
    ),
    (
      {"masked_lm_prob": 0.1, "dynamic_masking": True},
      "--masked_lm_prob .* pass it to run_pretraining.py instead",
    ),
    (
      {"mask_runs": "spans", "do_whole_word_mask": True},
      "--do_whole_word_mask adds nothing to --mask_runs",
    ),
    ({"segmented_text": True}, "--segmented_text changes only where words"),
    ({"num_processes": 2}, "--num_processes needs --shard_size_mb"),
    ({"runner": "DirectRunner"}, "--runner needs --shard_size_mb"),
    (
      {"runner": "FlinkRunner", "shard_size_mb": 5.0, "num_processes": 1},
      "--num_processes is for this machine",
    ),
  ],
)
def test_making_data(given, sentence):
  with pytest.raises(errors.InputError, match=sentence):
    refuse(flag_conflicts.DATA_CONFLICTS, DATA, **given)


@pytest.mark.parametrize(
  "given",
  [
    {"num_processes": 1},
    {"num_processes": 2, "shard_size_mb": 5.0},
    {"segmented_text": True, "do_whole_word_mask": True},
    {"segmented_text": True, "dynamic_masking": True},
    {"segmented_text": True, "mask_runs": "spans"},
    {"do_whole_word_mask": False, "dynamic_masking": True},
    {"max_predictions_per_seq": 5, "masked_lm_prob": 0.0},
  ],
)
def test_making_data_that_fit(given):
  assert is_accepted(flag_conflicts.DATA_CONFLICTS, DATA, **given)


@pytest.mark.parametrize(
  "given, sentence",
  [
    ({"do_train": False, "eval_steps": 5}, "--eval_steps is for training"),
    ({"do_train": False, "optimizer": "lamb"}, "--optimizer is for training"),
    ({"eval_input_file": "a"}, "--eval_input_file is for evaluation"),
    (
      {"freeze_layers": 2, "freeze_encoder": True},
      "--freeze_layers has no effect with --freeze_encoder",
    ),
    (
      {"do_whole_word_mask": True, "mask_runs": "ngrams"},
      "--do_whole_word_mask adds nothing to --mask_runs",
    ),
    (
      {"span_boundary_objective": True, "max_predictions_per_seq": 0},
      "--span_boundary_objective predicts masked words",
    ),
    (
      {"distillation_weights": ["1", "1", "1"]},
      "--distillation_weights is for learning from a teacher",
    ),
    (
      {"teacher_checkpoint": "a", "max_predictions_per_seq": 0},
      "--teacher_checkpoint teaches masked words",
    ),
  ],
)
def test_training(given, sentence):
  with pytest.raises(errors.InputError, match=sentence):
    refuse(flag_conflicts.TRAINING_CONFLICTS, TRAINING, **given)


def test_training_that_fits():
  assert is_accepted(
    flag_conflicts.TRAINING_CONFLICTS, TRAINING,
    eval_steps=5, eval_input_file="a", freeze_layers=1, mask_runs="spans",
    span_boundary_objective=True,
  )


@pytest.mark.parametrize(
  "given", [{"masked_lm_prob": 0.2}, {"mask_runs": "spans"}]
)
def test_options_of_masks_where_the_records_have_them(given):
  defaults = {
    "masked_lm_prob": 0.15, "do_whole_word_mask": False, "mask_runs": None
  }
  with pytest.raises(errors.InputError, match="already masked|masked already"):
    refuse(flag_conflicts.MASKED_RECORDS_CONFLICTS, defaults, **given)
