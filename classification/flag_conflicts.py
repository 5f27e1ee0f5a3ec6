"""Flags of run_classifier.py that others would make useless: refused."""

from common import run_settings
from training import distillation_conflicts

# Of --predict_file: texts come on the standard input.
STANDARD_INPUT = "-"


def answers_lines(settings):
  """Whether the lines of the standard input are to be answered."""
  return settings.interactive or settings.predict_file == STANDARD_INPUT


def writes_predictions(settings):
  """Whether files of predictions are to be written."""
  return settings.do_predict and settings.predict_file != STANDARD_INPUT


def _no_submission(settings):
  return not (settings.task_name and writes_predictions(settings))


CONFLICTS = (
  *distillation_conflicts.CONFLICTS,
  run_settings.Conflict(
    "distillation_weight",
    lambda settings: not settings.teacher_checkpoint,
    "is for learning from a teacher; pass --teacher_checkpoint too, or leave "
    "it out",
  ),
  run_settings.Conflict(
    "freeze_encoder",
    lambda settings: settings.teacher_checkpoint,
    "keeps features and reads no sequences, which the teacher needs; leave "
    "one of them out",
  ),
  run_settings.Conflict(
    "train_file eval_file labels task_kind text_column text_b_column "
    "label_column id_column file_format quoted_tsv label_separator separator "
    "on_bad_row eval_fraction",
    lambda settings: settings.task_name,
    "is for your own files, and --task_name asks for an official task; leave "
    "one of them out",
  ),
  run_settings.Conflict(
    "predict_file",
    lambda settings: (
      # A trained model of an official task answers lines, too.
      settings.task_name and settings.predict_file != STANDARD_INPUT
    ),
    "names your own file, and --task_name asks for an official task; leave "
    "one of them out",
  ),
  run_settings.Conflict(
    "data_dir language task_module",
    lambda settings: not settings.task_name,
    "is for official tasks; pass --task_name too, or leave it out",
  ),
  run_settings.Conflict(
    "eval_file",
    lambda settings: settings.eval_fraction,
    "names a file to score, and --eval_fraction takes what is scored from "
    "--train_file; leave one of them out",
  ),
  run_settings.Conflict(
    "eval_fraction",
    lambda settings: not (settings.do_eval or settings.eval_steps),
    "is for evaluation; pass --do_eval or --eval_steps too, or leave it out",
  ),
  run_settings.Conflict(
    "max_windows window_pooling",
    lambda settings: not settings.doc_stride,
    "is for texts in several windows; pass --doc_stride too, or leave it out",
  ),
  run_settings.Conflict(
    "class_weights pack_sequences",
    lambda settings: not settings.do_train,
    "is for training; pass --do_train too, or leave it out",
  ),
  run_settings.Conflict(
    "use_best",
    lambda settings: not (settings.do_train and settings.save_best),
    "is for training that keeps the best weights; pass --do_train and "
    "--save_best too, or the best ones as --model_dir=output_dir/best_model",
  ),
  run_settings.Conflict(
    "freeze_layers bucket_by_length pack_sequences",
    lambda settings: settings.freeze_encoder,
    "has no effect with --freeze_encoder, which trains no layer "
    "and reads no sequences; leave one of them out",
  ),
  run_settings.Conflict(
    "seed",
    lambda settings: settings.seeds,
    "is replaced by each of --seeds; leave one of them out",
  ),
  run_settings.Conflict(
    "seeds",
    lambda settings: answers_lines(settings) or settings.glue_submission_dir,
    "makes several models, and texts are answered, or GLUE's files written, "
    "by one; run again with the best as --init_checkpoint",
  ),
  run_settings.Conflict(
    "glue_submission_dir",
    _no_submission,
    "needs --task_name and --do_predict of its test files; pass both, or leave "
    "it out",
  ),
)
