"""The settings and the task of a bi-encoder, without a command line."""

from classification import task
from common import run_settings


def settings_and_task(task_kind, *, labels=(), splits=None, **changes):
  """Returns run_settings.Settings and a ClassifierTask for a user's data."""
  settings = run_settings.Settings(
    {
      "pooling": "mean",
      "pooling_layer": ["-1"],
      "normalize": False,
      "temperature": 0.1,
      "freeze_encoder": False,
      **changes,
    }
  )
  return settings, task.ClassifierTask(
    "own data", task_kind, labels, (), splits or {}
  )
