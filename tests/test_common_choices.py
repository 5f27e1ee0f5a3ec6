"""The names that flags offer are those that the code behind them knows."""

import optimization
from classification import data
from common import choices
from features import feature_files
from serving import models
from tagging import bilstm
from training import distribution, run_report


def test_choices_are_what_is_implemented():
  assert choices.DTYPES == tuple(distribution.COMPUTE_DTYPES)
  assert choices.OPTIMIZERS == tuple(optimization.OPTIMIZERS)
  assert choices.LEARNING_RATE_SCHEDULES == tuple(optimization.SCHEDULES)
  assert set(choices.OWN_TASK_KINDS) < set(data.KINDS)
  assert choices.TAGGING_FEATURES == bilstm.FEATURES
  assert choices.FEATURE_FILE_FORMATS == tuple(feature_files.FORMATS)
  assert choices.SERVING_HEADS == tuple(models.KINDS)
  assert {head for head, _ in run_report.USES.values()} < {*models.KINDS}
