"""Flags of extract_features.py that would be ignored: refused."""

import pytest

from common import errors, run_settings
from features import flag_conflicts

DEFAULTS = {
  "output_file": None, "attention_html": None, "embedding_plot": None,
  "pooling": None, "similarity": False, "input_file": "a",
}
STREAM = {"input_file": "-"}
FILE, PAGE = {"output_file": "a"}, {"attention_html": "a"}
PLOT, POOLED = {"embedding_plot": "a"}, {**FILE, "pooling": "mean"}
# (the flag, next to what it is ignored, next to what it is not)
CASES = [
  *((name, PAGE, FILE) for name in (
    "output_format", "pooling", "batch_size", "jit_compile")),
  *((name, {**STREAM, name: "a"}, {**FILE, name: "a"}) for name in (
    "output_file", "output_format", "attention_html", "embedding_plot")),
  ("picture_lines", {**STREAM, **PAGE}, PAGE),
  *((name, PAGE, STREAM) for name in ("pooling", "batch_size", "layers")),
  ("similarity", PAGE, POOLED),
  ("normalize", {**PAGE, "pooling": "mean"}, POOLED),
  ("picture_lines", FILE, PLOT),
  ("picture_lines", FILE, PAGE),
  ("layers", PAGE, FILE),
  ("layers", PAGE, PLOT),
  ("layers", POOLED, FILE),
  ("similarity", FILE, POOLED),
  ("normalize", FILE, POOLED),
  ("normalize", {**POOLED, "similarity": True}, POOLED),
]


def settings_of(values, name):
  others = dict.fromkeys(
    name for c in flag_conflicts.CONFLICTS for name in c.flags.split()
  )
  return run_settings.Settings(
    {**others, **DEFAULTS, **values, name: values.get(name, "1")}, {name}
  )


@pytest.mark.parametrize("name, ignored, used", CASES)
def test_what_would_be_ignored_is_refused(name, ignored, used):
  with pytest.raises(errors.InputError, match=f"^--{name} .*[;:,] "):
    run_settings.refuse_ignored(
      settings_of(ignored, name), flag_conflicts.CONFLICTS
    )
  run_settings.refuse_ignored(
    settings_of(used, name), flag_conflicts.CONFLICTS
  )


def test_every_conflict_has_its_case():
  for conflict in flag_conflicts.CONFLICTS:
    for name in conflict.flags.split():
      assert any(
        conflict.condition(settings_of(ignored, name))
        for case, ignored, _ in CASES
        if case == name
      ), (name, conflict.reason)
