"""Flags of learning from a teacher that would have no effect: refused."""

from common import run_settings

CONFLICTS = (
  run_settings.Conflict(
    "distillation_temperature init_from_teacher",
    lambda settings: not settings.teacher_checkpoint,
    "is for learning from a teacher; pass --teacher_checkpoint too, or leave "
    "it out",
  ),
  run_settings.Conflict(
    "teacher_checkpoint",
    lambda settings: not settings.do_train,
    "is for training; pass --do_train too, or leave it out",
  ),
  run_settings.Conflict(
    "init_checkpoint model_dir",
    lambda settings: settings.init_from_teacher,
    "names weights to start from, and --init_from_teacher takes the "
    "teacher's; leave one of them out, and give the student's shape as "
    "--bert_config_file",
  ),
)
