"""Flags of run_ner.py that would have no effect: refused."""

from common import run_settings

# --predict_file: words come from the standard input.
STANDARD_INPUT = "-"


def answers_stream(settings):
  """Whether words come from the standard input."""
  return settings.do_predict and settings.predict_file == STANDARD_INPUT


def evaluates(settings):
  """Whether --eval_file is read."""
  return bool(
    settings.do_eval or (settings.do_train and settings.eval_steps)
  )


def _reads_only_json(settings):
  """Whether no file with columns is read."""
  if settings.file_format:
    return settings.file_format == "jsonl"
  read = {
    "train_file": settings.do_train,
    "eval_file": evaluates(settings),
    "predict_file": settings.do_predict,
  }
  # A file that is given and not read is refused elsewhere.
  paths = [settings.get(name) for name in read if read[name]]
  return bool(paths) and all(
    path and path.endswith((".jsonl", ".json")) for path in paths
  )


def _reads_no_labels(settings):
  reads = (
    settings.predict_labels
    and settings.do_predict
    and not answers_stream(settings)
  )
  return not (settings.do_train or evaluates(settings) or reads)


CONFLICTS = (
  run_settings.Conflict(
    "train_file train_batch_size learning_rate learning_rate_schedule "
    "optimizer adam_beta2 adam_epsilon weight_decay_rate "
    "layerwise_lr_decay freeze_layers "
    "gradient_accumulation_steps recompute_activations pack_sequences "
    "iterations_per_loop "
    "save_checkpoints_steps max_to_keep log_steps max_bad_steps "
    "profile_steps num_train_epochs warmup_proportion bucket_by_length "
    "eval_steps save_best early_stopping_patience seed",
    lambda settings: not settings.do_train,
    "is for training; pass --do_train too, or leave it out",
  ),
  run_settings.Conflict(
    "freeze_encoder",
    lambda settings: not settings.do_train and not settings.feature_layers,
    "is for training; pass --do_train too, or leave it out",
  ),
  run_settings.Conflict(
    "eval_file eval_batch_size",
    lambda settings: not evaluates(settings),
    "is for evaluation; pass --do_eval too, or leave it out",
  ),
  run_settings.Conflict(
    "predict_file predict_batch_size predict_labels",
    lambda settings: not settings.do_predict,
    "is for prediction; pass --do_predict too, or leave it out",
  ),
  run_settings.Conflict(
    "predict_labels",
    answers_stream,
    "is for files: words of the standard input are not scored; leave it out",
  ),
  run_settings.Conflict(
    "bilstm_size",
    lambda settings: not settings.feature_layers,
    "is for --feature_layers; pass both, or leave it out",
  ),
  run_settings.Conflict(
    "freeze_layers layerwise_lr_decay recompute_activations",
    lambda settings: settings.freeze_encoder,
    "has no effect together with --freeze_encoder, which trains no layer; "
    "leave one of them out",
  ),
  run_settings.Conflict(
    "pack_sequences",
    lambda settings: settings.feature_layers,
    "has no effect with --feature_layers, which are computed once and kept; "
    "leave one of them out",
  ),
  run_settings.Conflict(
    "feature_layers",
    lambda settings: settings.do_train and not settings.freeze_encoder,
    "are those of an encoder that is not trained: pass --freeze_encoder too",
  ),
  run_settings.Conflict(
    "word_column label_column",
    _reads_only_json,
    "is for files of columns, and only JSON lines are read; leave it out",
  ),
  run_settings.Conflict(
    "label_column",
    _reads_no_labels,
    "is for labels, and none are read; leave it out",
  ),
)
