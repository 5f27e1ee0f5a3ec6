"""Flags of run_ner.py that would be ignored: refused where they are given."""

import pytest

from common import errors, run_settings
from tagging import flag_conflicts

DEFAULTS = {
  "do_train": False, "do_eval": False, "do_predict": False, "eval_steps": 0,
  "file_format": None, "feature_layers": [], "freeze_encoder": False,
  "predict_labels": True, "train_file": None, "eval_file": None,
  "predict_file": None,
}
TRAIN, EVAL = {"do_train": True}, {"do_eval": True}
PREDICT = {"do_predict": True}
STREAM = {**PREDICT, "predict_file": "-"}
JSON = {**TRAIN, "train_file": "a.jsonl"}
COLUMNS = {**TRAIN, "train_file": "a.conll"}
FROZEN = {**TRAIN, "freeze_encoder": True}
TRAINING = flag_conflicts.CONFLICTS[0].flags.split()
# (the flag, next to what it is ignored, next to what it is not)
CASES = [
  *((name, EVAL, TRAIN) for name in TRAINING),
  ("freeze_encoder", EVAL, TRAIN),
  ("freeze_encoder", EVAL, {**EVAL, "feature_layers": ["last"]}),
  ("eval_file", TRAIN, {**TRAIN, "eval_steps": 2}),
  ("eval_batch_size", PREDICT, EVAL),
  ("predict_file", EVAL, PREDICT),
  ("predict_batch_size", EVAL, STREAM),
  ("predict_labels", EVAL, PREDICT),
  ("predict_labels", STREAM, PREDICT),
  ("bilstm_size", TRAIN, {**FROZEN, "feature_layers": ["last"]}),
  ("freeze_layers", FROZEN, TRAIN),
  ("layerwise_lr_decay", FROZEN, TRAIN),
  ("recompute_activations", FROZEN, TRAIN),
  ("pack_sequences", {**FROZEN, "feature_layers": ["last"]}, FROZEN),
  ("feature_layers", TRAIN, FROZEN),
  ("word_column", JSON, COLUMNS),
  ("word_column", {**COLUMNS, "file_format": "jsonl"}, {**JSON, **COLUMNS}),
  ("label_column", JSON, COLUMNS),
  ("label_column", STREAM, PREDICT),
  ("label_column", {**PREDICT, "predict_labels": False}, PREDICT),
]


def check(values, name):
  """Looks for conflicts where the flag `name` is given."""
  # Any value that asks for something will do for those no condition reads.
  others = dict.fromkeys(
    name for c in flag_conflicts.CONFLICTS for name in c.flags.split()
  )
  given = {name: values.get(name) or DEFAULTS.get(name) or "1"}
  settings = run_settings.Settings(
    {**others, **DEFAULTS, **values, **given}, {name}
  )
  run_settings.refuse_ignored(settings, flag_conflicts.CONFLICTS)


@pytest.mark.parametrize("name, ignored, used", CASES)
def test_what_would_be_ignored_is_refused(name, ignored, used):
  with pytest.raises(errors.InputError, match=f"^--{name} .*[;:] "):
    check(ignored, name)
  check(used, name)


def test_every_conflict_has_its_case():
  for conflict in flag_conflicts.CONFLICTS:
    for name in conflict.flags.split():
      found = []
      for case, ignored, _ in CASES:
        if case == name:
          values = run_settings.Settings({**DEFAULTS, name: "1", **ignored})
          found.append(conflict.condition(values))
      assert any(found), (name, conflict.reason)
