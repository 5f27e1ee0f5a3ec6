"""What the flags of run_squad.py ask for together: files, and contradictions.

A flag that would be ignored is refused. As in the original: its own flags of
training and prediction may be given where neither is asked for, because its
documented commands do so (--do_train=False --train_file=... ).
"""

from common import errors, run_settings
from training import setup

# --predict_file: questions come on the standard input.
STANDARD_INPUT = "-"

_MODEL = "bert_config_file model_dir init_checkpoint vocab_file do_lower_case"
_INPUT = (
  "max_seq_length doc_stride max_query_length pad_to_max_length n_best_size "
  "max_answer_length"
)
_DEVICES = (
  "distribution_strategy dtype num_logical_cpus use_tpu tpu_name tpu_zone "
  "gcp_project master num_tpu_cores"
)
# Those of the original that have no meaning without --do_train ...
_TRAINING = (
  "train_file train_batch_size learning_rate num_train_epochs "
  "warmup_proportion save_checkpoints_steps iterations_per_loop"
)
# ... and ours, which no command of the original gives.
_OUR_TRAINING = (
  "optimizer adam_beta2 adam_epsilon learning_rate_schedule "
  "weight_decay_rate layerwise_lr_decay "
  "freeze_layers freeze_encoder gradient_accumulation_steps "
  "recompute_activations pack_sequences max_to_keep log_steps max_bad_steps "
  "profile_steps "
  "seed bucket_by_length jit_compile eval_steps save_best "
  "early_stopping_patience"
)


def answers_stream(settings):
  """Whether the lines of the standard input are to be answered."""
  return settings.do_predict and settings.predict_file == STANDARD_INPUT


def _evaluates(settings):
  """Whether there is something that the --eval_file is read for."""
  during_training = settings.do_train and settings.eval_steps
  is_auto = settings.null_score_diff_threshold == "auto"
  return bool(settings.do_eval or during_training or is_auto)


CONFLICTS = (
  run_settings.Conflict(
    f"{_MODEL} {_INPUT} {_DEVICES} {_TRAINING} {_OUR_TRAINING} "
    "null_score_diff_threshold eval_file predict_batch_size eval_batch_size",
    lambda settings: settings.evaluate_only,
    "is for a model, and --evaluate_only scores a file of predictions without "
    "one; leave one of them out",
  ),
  run_settings.Conflict(
    _OUR_TRAINING,
    lambda settings: not settings.do_train,
    "is for training; pass --do_train too, or leave it out",
  ),
  run_settings.Conflict(
    "predict_file",
    lambda settings: (
      settings.predict_file == STANDARD_INPUT and not settings.do_predict
    ),
    "names the standard input, which has questions to answer; pass "
    "--do_predict too, or a file",
  ),
  run_settings.Conflict(
    "eval_file",
    lambda settings: not _evaluates(settings),
    "is read for --do_eval, --eval_steps and "
    "--null_score_diff_threshold=auto; pass one of them, or leave it out",
  ),
  run_settings.Conflict(
    "eval_batch_size",
    lambda settings: not _evaluates(settings),
    "is for evaluation; pass --do_eval or --eval_steps too, or leave it out "
    "(predictions are made in batches of --predict_batch_size)",
  ),
  run_settings.Conflict(
    "predictions_file",
    lambda settings: not settings.evaluate_only,
    "is scored by --evaluate_only; pass that too, or leave it out",
  ),
  run_settings.Conflict(
    "null_odds_file",
    lambda settings: not (
      settings.evaluate_only and settings.version_2_with_negative
    ),
    "is read by --evaluate_only with --version_2_with_negative; pass both, or "
    "leave it out",
  ),
  run_settings.Conflict(
    "null_score_diff_threshold",
    lambda settings: not settings.version_2_with_negative,
    "is for questions without an answer; pass --version_2_with_negative too, "
    "or leave it out",
  ),
  run_settings.Conflict(
    "bucket_by_length pack_sequences",
    lambda settings: settings.pad_to_max_length,
    "saves padding, which --pad_to_max_length keeps; leave one of them out",
  ),
)


def check(settings):
  """Refuses a command that contradicts itself or would be done in part.

  Args:
    settings: run_settings.Settings.

  Raises:
    InputError: so, or nothing is asked for.
  """
  setup.require_one_of(
    settings,
    "do_train", "do_eval", "do_predict", "interactive", "evaluate_only",
  )
  if settings.evaluate_only:
    _check_scores_only(settings)
  # After the check above, which names the flags that contradict each other.
  run_settings.refuse_ignored(settings, CONFLICTS)
  if settings.interactive and settings.predict_file == STANDARD_INPUT:
    raise errors.InputError(
      "--interactive and --predict_file=- both read standard input: pass one "
      "of them"
    )


def _check_scores_only(settings):
  """Refuses whatever else is asked for next to --evaluate_only."""
  others = [
    f"--{name}"
    for name in ("do_train", "do_eval", "do_predict", "interactive")
    if settings.get(name)
  ]
  if others:
    raise errors.InputError(
      "--evaluate_only scores a file of predictions and does nothing else: "
      f"leave out {', '.join(others)}"
    )
  require(settings, "evaluate_only", "predict_file", "predictions_file")


def require(settings, reason, *names):
  """Refuses a command that lacks what it needs.

  Raises:
    InputError: one of the named flags is not given.
  """
  for name in names:
    if not settings.get(name):
      raise errors.InputError(f"--{reason} needs --{name}")


def require_model(settings, *, writes):
  """Refuses a command without a model, or without a folder to write to.

  Args:
    settings: run_settings.Settings.
    writes: whether there will be files in --output_dir.

  Raises:
    InputError: so.
  """
  asked = "do_train, --do_eval, --do_predict or --interactive"
  for name in ("bert_config_file", "vocab_file"):
    if not settings.get(name):
      raise errors.InputError(f"--{asked} needs --{name}, or --model_dir")
  if writes:
    require(settings, asked, "output_dir")


def files_to_read(settings):
  """Returns dict from train, eval, predict to the path, where asked for.

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
