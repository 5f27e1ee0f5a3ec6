"""Flags of run_squad.py that would be ignored are refused."""

import pytest

import ignored_flags
from common import errors, run_settings
from squad import flag_checks

DEFAULTS = {
  **dict.fromkeys(
    name
    for conflict in flag_checks.CONFLICTS
    for name in conflict.flags.split()
  ),
  "do_train": False, "do_eval": False, "do_predict": False,
  "interactive": False, "evaluate_only": False, "output_dir": None,
  "eval_steps": 0, "version_2_with_negative": False, "pad_to_max_length": False,
}
TRAIN, PREDICT = {"do_train": True}, {"do_predict": True}
V2 = {"version_2_with_negative": True}
SCORE = {
  "evaluate_only": True, "predict_file": "a.json", "predictions_file": "p.json"
}
NEEDS_MODEL, NEEDS_TRAINING = (
  flag_checks.CONFLICTS[number].flags.split() for number in (0, 1)
)
# (what is ignored, next to what, next to what it is not)
CASES = [
  *(
    ({name: 1}, SCORE, {**TRAIN, **V2, "eval_steps": 5})
    for name in NEEDS_MODEL
  ),
  *(({name: 1}, PREDICT, TRAIN) for name in NEEDS_TRAINING),
  ({"predict_file": "-"}, {"do_eval": True, "eval_file": "a"}, PREDICT),
  ({"eval_file": "a"}, PREDICT, {"do_eval": True}),
  ({"eval_file": "a"}, TRAIN, {**TRAIN, "eval_steps": 5}),
  ({"eval_file": "a"}, {**PREDICT, "eval_steps": 5},
   {**PREDICT, **V2, "null_score_diff_threshold": "auto"}),
  ({"eval_batch_size": 9}, PREDICT, {"do_eval": True}),
  ({"predictions_file": "p"}, PREDICT, SCORE),
  ({"null_odds_file": "p"}, SCORE, {**SCORE, **V2}),
  ({"null_odds_file": "p"}, {**PREDICT, **V2}, {**SCORE, **V2}),
  ({"null_score_diff_threshold": "1"}, PREDICT, {**PREDICT, **V2}),
  ({"bucket_by_length": True}, {**TRAIN, "pad_to_max_length": True}, TRAIN),
  ({"pack_sequences": True}, {**TRAIN, "pad_to_max_length": True}, TRAIN),
]


TABLE = ignored_flags.Table(flag_checks.CONFLICTS, DEFAULTS)


@pytest.mark.parametrize("ignored, together, fine", CASES)
def test_what_would_be_ignored_is_refused(ignored, together, fine):
  TABLE.check_case(ignored, together, fine)


def test_every_conflict_has_its_case():
  for number, conflict in enumerate(flag_checks.CONFLICTS):
    for name in conflict.flags.split():
      refused = []
      for ignored, together, _ in CASES:
        settings = run_settings.Settings(
          {**DEFAULTS, **together, **ignored}, set(ignored)
        )
        try:
          run_settings.refuse_ignored(settings, [conflict])
        except errors.InputError:
          refused.append(*ignored)
      assert name in refused, (number, name)


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
