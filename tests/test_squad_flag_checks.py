"""Flags of run_squad.py that would be ignored are refused."""

import pytest

from common import errors, run_settings
from squad import flag_checks

DEFAULTS = {
  **dict.fromkeys((
    "predict_file", "train_file", "eval_file", "bert_config_file", "vocab_file",
    "null_score_diff_threshold",
  )),
  "do_train": False, "do_eval": False, "do_predict": False,
  "interactive": False, "evaluate_only": False, "output_dir": None,
  "eval_steps": 0, "version_2_with_negative": False, "pad_to_max_length": False,
}
TRAIN, PREDICT = {"do_train": True}, {"do_predict": True}
V2 = {"version_2_with_negative": True}
SCORE = {
  "evaluate_only": True, "predict_file": "a.json", "predictions_file": "p.json"
}
def test_a_command_of_the_original_passes_with_its_training_flags():
  """Its page on SQuAD 2.0 predicts with --train_file and --do_train=False."""
  flags = {
    **PREDICT, **V2, "predict_file": "dev.json", "train_file": "train.json",
    "train_batch_size": 24, "learning_rate": 3e-5, "num_train_epochs": 2.0,
    "use_tpu": False, "null_score_diff_threshold": "-1.97",
  }
  settings = run_settings.Settings({**DEFAULTS, **flags}, set(flags))
  flag_checks.check(settings)
  assert flag_checks.files_to_read(settings) == {"predict": "dev.json"}


def test_what_is_missing_is_named():
  part = run_settings.Settings({**DEFAULTS, "bert_config_file": "a"})
  with pytest.raises(errors.InputError, match="needs --vocab_file, or --mod"):
    flag_checks.require_model(part, writes=False)
  whole = {**DEFAULTS, "bert_config_file": "a", "vocab_file": "v"}
  flag_checks.require_model(run_settings.Settings(whole), writes=False)
  with pytest.raises(errors.InputError, match="needs --output_dir"):
    flag_checks.require_model(run_settings.Settings(whole), writes=True)
