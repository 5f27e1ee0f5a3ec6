"""Flags of the pre-training scripts that would have no effect: refused."""

from common import run_settings
from training import distillation_conflicts

_READING_OPTIONS = "do_lower_case split_sentences segmented_text"
_RECORD_OPTIONS = (
  "max_seq_length max_predictions_per_seq random_seed dupe_factor "
  "masked_lm_prob short_seq_prob packing mask_runs do_whole_word_mask "
  "dynamic_masking"
)
_SHARD_OPTIONS = "shard_size_mb num_processes runner"


def _needs_shards(settings):
  return not settings.shard_size_mb


def _ignores_words(settings):
  # Masks of single pieces need no starts of words.
  reads_words = (
    settings.do_whole_word_mask or settings.mask_runs, settings.dynamic_masking
  )
  return not any(reads_words)


_WORDS_OF_RUNS = run_settings.Conflict(
  "do_whole_word_mask",
  lambda settings: settings.mask_runs,
  "adds nothing to --mask_runs, whose runs are of whole words; leave it out",
)

# Of create_pretraining_data.py.
DATA_CONFLICTS = (
  run_settings.Conflict(
    f"input_file {_READING_OPTIONS} {_RECORD_OPTIONS} {_SHARD_OPTIONS}",
    lambda settings: settings.verify,
    "has no effect with --verify, which reads the files that exist; leave one "
    "of them out",
  ),
  run_settings.Conflict(
    "do_whole_word_mask mask_runs max_predictions_per_seq masked_lm_prob",
    lambda settings: settings.dynamic_masking,
    "has no effect with --dynamic_masking, which stores no masks; pass it to "
    "run_pretraining.py instead, which makes them",
  ),
  _WORDS_OF_RUNS,
  run_settings.Conflict(
    "segmented_text",
    _ignores_words,
    "changes only where words start; pass --do_whole_word_mask, --mask_runs "
    "or --dynamic_masking too, or leave it out",
  ),
  run_settings.Conflict(
    "num_processes",
    # One process is what there is without shards: asking for it is no fault.
    lambda settings: _needs_shards(settings) and settings.num_processes > 1,
    "needs --shard_size_mb: without shards the records depend on all of the "
    "text and are made by one process",
  ),
  run_settings.Conflict(
    "runner",
    _needs_shards,
    "needs --shard_size_mb: without shards the records depend on all of the "
    "text and are made by one process",
  ),
  run_settings.Conflict(
    "num_processes",
    lambda settings: settings.runner,
    "is for this machine, and --runner uses a cluster; pass the number of "
    "workers as an option of the runner, behind a --",
  ),
)


def _never_evaluates(settings):
  return not (settings.do_eval or (settings.do_train and settings.eval_steps))


# Of run_pretraining.py. As in the original: its own training flags may be
# given without --do_train, so that a command is the same for both phases.
TRAINING_CONFLICTS = (
  run_settings.Conflict(
    "eval_steps save_best early_stopping_patience profile_steps "
    "freeze_layers freeze_encoder layerwise_lr_decay weight_decay_rate "
    "optimizer adam_beta2 adam_epsilon learning_rate_schedule "
    "gradient_accumulation_steps "
    "recompute_activations pack_sequences max_to_keep log_steps max_bad_steps",
    lambda settings: not settings.do_train,
    "is for training; pass --do_train too, or leave it out",
  ),
  run_settings.Conflict(
    "eval_input_file",
    _never_evaluates,
    "is for evaluation; pass --do_eval or --eval_steps too, or leave it out",
  ),
  run_settings.Conflict(
    "freeze_layers",
    lambda settings: settings.freeze_encoder,
    "has no effect with --freeze_encoder, which trains no layer; leave one of "
    "them out",
  ),
  *distillation_conflicts.CONFLICTS,
  run_settings.Conflict(
    "distillation_weights",
    lambda settings: not settings.teacher_checkpoint,
    "is for learning from a teacher; pass --teacher_checkpoint too, or leave "
    "it out",
  ),
  run_settings.Conflict(
    "teacher_checkpoint",
    lambda settings: not settings.max_predictions_per_seq,
    "teaches masked words, and --max_predictions_per_seq=0 leaves none; leave "
    "one of them out",
  ),
  _WORDS_OF_RUNS,
  run_settings.Conflict(
    "span_boundary_objective",
    lambda settings: not settings.max_predictions_per_seq,
    "predicts masked words, and --max_predictions_per_seq=0 leaves none; "
    "leave one of them out",
  ),
)

# Of run_pretraining.py, where the records are masked already.
MASKED_RECORDS_CONFLICTS = (
  run_settings.Conflict(
    "masked_lm_prob do_whole_word_mask mask_runs",
    # The script looks here once it has seen a record.
    lambda settings: True,
    "is for records of --dynamic_masking, and these are masked already; leave "
    "it out, or pass it to create_pretraining_data.py",
  ),
)
