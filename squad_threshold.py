"""SQuAD 2.0: from which score on a question counts as having no answer.

A number given by the user, or the one that is best on a dev set; that is kept
beside the weights, in null_threshold.json, for those who predict with them.
"""

import os

import tensorflow as tf
from absl import logging

import errors
import json_files
import squad_scores

FILE = "null_threshold.json"
_KEY = "null_score_diff_threshold"


class NullThreshold:
  """The threshold of a run.

  Attributes:
    value: float, or None while it is to be found.
    is_auto: whether it is found on the data that a model is evaluated on.
  """

  def __init__(self, text=None, folders=(), weights=""):
    """Takes what the user says, or what was stored.

    Args:
      text: a number, "auto", or None. As in the original: 0.0 if nothing is
        said. Unlike the original: or what is stored with the model.
      folders: where to look for a stored one, the first that has it counts;
        none if the weights are yet to be trained.
      weights: the path of the weights to predict with if they were not
        trained in the folder that `write` is given, else "".

    Raises:
      InputError: `text` is none of these.
    """
    self.is_auto = text == "auto"
    self._weights = weights
    self._found_on = None
    self.value = None
    if text is not None and not self.is_auto:
      self.value = _number(text)
      return
    stored = (_read(folder, weights) for folder in folders)
    self.value = next((v for v in stored if v is not None), None)
    if self.value is None and not self.is_auto:
      self.value = 0.0

  def find(self, file, answers):
    """Takes the threshold with the best F1.

    Args:
      file: squad_data.SquadFile with answers.
      answers: list of squad_answers.Answer to its questions.
    """
    self.value = float(
      squad_scores.best_threshold(
        file.questions,
        {answer.qas_id: answer.best_text for answer in answers},
        {answer.qas_id: answer.null_odds for answer in answers},
      )
    )
    self._found_on = os.path.basename(file.path)
    logging.info(
      "best F1 on %s with --%s=%s", file.path, _KEY, self.value
    )

  def write(self, folder):
    """Stores a threshold, if it was found by this run."""
    if self._found_on:
      values = {_KEY: self.value, "found_on": self._found_on}
      path = os.path.join(folder, FILE)
      json_files.write(path, {**values, "weights": self._weights})


def forget(folder):
  """Removes a stored threshold: the weights it was found with have changed."""
  path = os.path.join(folder, FILE)
  if tf.io.gfile.exists(path):
    tf.io.gfile.remove(path)


def _number(text):
  try:
    return float(text)
  except ValueError as error:
    raise errors.InputError(
      f"--{_KEY}={text}: expected a number or auto"
    ) from error


def _read(folder, weights):
  """Returns what a folder has for its own or the given weights, or None."""
  path = os.path.join(folder, FILE)
  if not tf.io.gfile.exists(path):
    return None
  values = json_files.read(path)
  if values.get("weights", "") not in ("", weights):
    return None
  value = values.get(_KEY)
  if not isinstance(value, float):
    raise errors.InputError(
      f'{path}: "{_KEY}" is {value!r}, expected a number; pass it as a flag'
    )
  logging.info("%s = %s, as stored in %s", _KEY, value, path)
  return value
