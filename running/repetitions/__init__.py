"""Runs a command several times; each file does so for its own flag.

A file is called ..._flags.py, because it defines its flag, and has

  FLAG             the flag's name
  is_for(script)   whether a Script has the flag
  define(script, not_with)
                   defines the flag; `not_with` names the flags that it excludes

A file whose flag makes several models also has

  run(settings, run, metric, *, is_chief)
                   calls run(settings) for each model; see `run` below

No TensorFlow.
"""

import os
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from absl import logging

from common import extensions, run_settings

# A function of the settings of a run, which returns {score: number}.
Run = Callable[[run_settings.Settings], Any]


class Script(NamedTuple):
  """The facts about a script that the files need.

  Attributes:
    task: the name of the task's folder.
    metric: the score that compares models, in words; "" if nothing does.
    one_model: the flags that need a single model, separated by spaces.
  """

  task: str
  metric: str = ""
  one_model: str = ""


def define(script: Script) -> None:
  """Defines the flags of all files that are for a script."""
  files = [
    file for file in extensions.load_all(__name__) if file.is_for(script)
  ]
  models = [file for file in files if hasattr(file, "run")]
  for file in files:
    excluded = []
    if file in models:
      # The flag of an earlier file already excludes this one.
      later = models[models.index(file) + 1 :]
      excluded = [*(other.FLAG for other in later), script.one_model]
    file.define(script, " ".join(filter(None, excluded)))


def _chosen(settings: run_settings.Settings) -> ModuleType | None:
  """Returns the file whose flag asks for several models, None for one model."""
  for file in extensions.load_all(__name__):
    if hasattr(file, "run") and settings.get(file.FLAG):
      return file
  return None


def are_several(settings: run_settings.Settings) -> bool:
  """Returns whether a flag asks for several models."""
  return _chosen(settings) is not None


def run(
  settings: run_settings.Settings, run: Run, metric: str, *, is_chief: bool
) -> None:
  """Makes the models that the flags ask for: by default one.

  Args:
    settings: the settings of the command.
    run: makes a model in its --output_dir, and returns its scores.
    metric: the name of the score that compares models; larger is better.
    is_chief: whether this process writes files.
  """
  file = _chosen(settings)
  if file:
    file.run(settings, run, metric, is_chief=is_chief)
  else:
    run(settings)


def results_of(
  settings: run_settings.Settings, run: Run, runs: dict[str, dict[str, Any]]
) -> dict[str, dict[str, float]]:
  """Executes each run in a folder with its name; returns {name: scores}.

  `runs` is {name of a run: the settings that it changes}.
  """
  results: dict[str, dict[str, float]] = {}
  for name, changes in runs.items():
    logging.info("run %d of %d: %s", len(results) + 1, len(runs), name)
    folder = os.path.join(settings.output_dir, name)
    results[name] = run(settings.replace(**changes, output_dir=folder))
  return results
