"""What the flags of run_squad.py ask for together: files, and contradictions.

A flag that would be ignored is refused. As in the original: its own flags of
training and prediction may be given where neither is asked for, because its
documented commands do so (--do_train=False --train_file=... ).
"""

from common import errors, run_settings
from training import setup

# --predict_file: questions come on the standard input.
STANDARD_INPUT = "-"


def answers_stream(settings: run_settings.Settings) -> bool:
  """Whether the lines of the standard input are to be answered."""
  return settings.do_predict and settings.predict_file == STANDARD_INPUT


def check(settings: run_settings.Settings) -> None:
  """Refuses a command that contradicts itself or would be done in part.

  Raises:
    InputError: it is one, or nothing is asked for.
  """
  setup.require_one_of(
    settings,
    "do_train", "do_eval", "do_predict", "interactive", "evaluate_only",
  )
  run_settings.refuse_ignored(settings)
  if settings.evaluate_only:
    require(settings, "evaluate_only", "predict_file", "predictions_file")
  if settings.interactive and settings.predict_file == STANDARD_INPUT:
    raise errors.InputError(
      "--interactive and --predict_file=- both read standard input: pass one "
      "of them"
    )


def require(settings: run_settings.Settings, reason: str, *names: str) -> None:
  """Raises InputError if one of the named flags is not given."""
  for name in names:
    if not settings.get(name):
      raise errors.InputError(f"--{reason} needs --{name}")


def require_model(settings: run_settings.Settings, *, writes: bool) -> None:
  """Refuses a command without a model, or without a folder to write to.

  Args:
    writes: whether there will be files in --output_dir.
  """
  asked = "do_train, --do_eval, --do_predict or --interactive"
  for name in ("bert_config_file", "vocab_file"):
    if not settings.get(name):
      raise errors.InputError(f"--{asked} needs --{name}, or --model_dir")
  if writes:
    require(settings, asked, "output_dir")


def files_to_read(settings: run_settings.Settings) -> dict[str, str]:
  """Returns the path of train, eval, predict, where asked for.

  Raises:
    InputError: a path is missing.
  """
  paths = {}
  if settings.do_train:
    require(settings, "do_train", "train_file")
    paths["train"] = settings.train_file
  if settings.do_predict:
    require(settings, "do_predict", "predict_file")
    # Lines are answered as they come; there is no file to prepare.
    if settings.predict_file != STANDARD_INPUT:
      paths["predict"] = settings.predict_file
  eval_file = settings.eval_file or settings.predict_file
  evaluates = {
    "do_eval": settings.do_eval,
    "eval_steps": settings.do_train and settings.eval_steps,
    "null_score_diff_threshold=auto":
      settings.null_score_diff_threshold == "auto",
  }
  for name, wanted in evaluates.items():
    if wanted and eval_file in (None, STANDARD_INPUT):
      raise errors.InputError(f"--{name} needs --eval_file")
    if wanted:
      paths["eval"] = eval_file
  return paths
