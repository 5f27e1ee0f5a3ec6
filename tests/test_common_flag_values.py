"""The values that flags offer are those that the code implements."""

import optimization
import optimizers
from answering import models
from classification import data
from common import flag_values
from features import feature_files
from running.reports import model_card
from tagging import bilstm


def test_choices_are_what_is_implemented():
  assert flag_values.OPTIMIZERS == tuple(optimizers.OPTIMIZERS)
  assert flag_values.LEARNING_RATE_SCHEDULES == tuple(optimization.SCHEDULES)
  assert set(flag_values.OWN_TASK_KINDS) < set(data.KINDS)
  assert flag_values.TAGGING_FEATURES == bilstm.FEATURES
  assert flag_values.FEATURE_FILE_FORMATS == tuple(feature_files.FORMATS)
  assert flag_values.SERVING_HEADS == tuple(models.KINDS)
  assert {head for head, _ in model_card.USES.values()} < {*models.KINDS}
