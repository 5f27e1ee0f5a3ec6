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

  def __init__(self, text=None, folder=None):
    """Takes what the user says, or what was stored.

    Args:
      text: a number, "auto", or None. As in the original: 0.0 if nothing is
        said; Unlike the original: or what is stored with the model.
      folder: of the weights to predict with; None if they are to be trained.

    Raises:
      InputError: `text` is none of these.
    """
    self.is_auto = text == "auto"
    self._found_on = None
    self.value = None
    if text is not None and not self.is_auto:
      self.value = _number(text)
      return
    if folder is not None:
      self.value = _read(folder)
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
    """Stores a threshold that was found; forgets an older one otherwise."""
    path = os.path.join(folder, FILE)
    if self._found_on:
      json_files.write(path, {_KEY: self.value, "found_on": self._found_on})
    elif tf.io.gfile.exists(path):
      tf.io.gfile.remove(path)


def _number(text):
  try:
    return float(text)
  except ValueError as error:
    raise errors.InputError(
      f"--{_KEY}={text}: expected a number or auto"
    ) from error


def _read(folder):
  """Returns what is stored in a folder, or None."""
  path = os.path.join(folder, FILE)
  if not tf.io.gfile.exists(path):
    return None
  value = json_files.read(path).get(_KEY)
  if not isinstance(value, float):
    raise errors.InputError(
      f'{path}: "{_KEY}" is {value!r}, expected a number; pass it as a flag'
    )
  logging.info("%s = %s, as stored in %s", _KEY, value, path)
  return value
