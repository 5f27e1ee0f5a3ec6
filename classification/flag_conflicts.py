"""Flags of run_classifier.py that would be ignored beside others: refused."""

from common import run_settings

# --predict_file: texts come on the standard input.
STANDARD_INPUT = "-"


def _answers(settings):
  return settings.interactive or settings.predict_file == STANDARD_INPUT


def _no_predictions(settings):
  writes = settings.do_predict and settings.predict_file != STANDARD_INPUT
  return not (settings.task_name and writes)


CONFLICTS = (
  run_settings.Conflict(
    "train_file eval_file labels task_kind text_column text_b_column "
    "label_column id_column file_format quoted_tsv label_separator",
    lambda settings: settings.task_name,
    "is for your own files, and --task_name asks for an official task; leave "
    "one of them out",
  ),
  run_settings.Conflict(
    "predict_file",
    lambda settings: (
      settings.task_name and settings.predict_file != STANDARD_INPUT
    ),
    "names your own file, and --task_name asks for an official task; leave "
    "one of them out",
  ),
  run_settings.Conflict(
    "data_dir language",
    lambda settings: not settings.task_name,
    "is for official tasks; pass --task_name too, or leave it out",
  ),
  run_settings.Conflict(
    "max_windows window_pooling",
    lambda settings: not settings.doc_stride,
    "is for texts in several windows; pass --doc_stride too, or leave it out",
  ),
  run_settings.Conflict(
    "class_weights",
    lambda settings: not settings.do_train,
    "is for training; pass --do_train too, or leave it out",
  ),
  run_settings.Conflict(
    "freeze_layers bucket_by_length",
    lambda settings: settings.freeze_encoder,
    "has nothing to work on beside --freeze_encoder, which trains no layer "
    "and reads no sequences; leave one of them out",
  ),
  run_settings.Conflict(
    "seed",
    lambda settings: settings.seeds,
    "is replaced by each of --seeds; leave one of them out",
  ),
  run_settings.Conflict(
    "seeds",
    lambda settings: _answers(settings) or settings.glue_submission_dir,
    "makes several models, and texts are answered, or GLUE's files written, "
    "by one; run again with the best as --init_checkpoint",
  ),
  run_settings.Conflict(
    "glue_submission_dir",
    _no_predictions,
    "needs --task_name and --do_predict of its test files; pass both, or leave "
    "it out",
  ),
)
