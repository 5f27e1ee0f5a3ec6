"""What a bi-encoder is made of, without a command line."""

from classification import task
from common import run_settings


def settings_and_task(kind, *, labels=(), splits=None, **changes):
  """Returns run_settings.Settings and the task.ClassifierTask of own data."""
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
    "own data", kind, labels, (), splits or {}
  )
