"""SQuAD 2.0: from which score on a question counts as having no answer.

A number given by the user, or the best one on a dev set; that one is stored
next to the weights for those who predict with them: see stored_threshold.
"""

import math
import os
from collections.abc import Callable

import tensorflow as tf
from absl import logging

from checkpoints import stored_threshold
from common import errors, json_files
from squad import data, scores

_FLAG = stored_threshold.KEY


class NullThreshold:
  """The threshold of a run.

  Attributes:
    value: float, or None while it is to be found.
    is_auto: whether it is found on the data that a model is evaluated on.
  """

  def __init__(self, text: str | None, weights: Callable):
    """Takes what the user says.

    Args:
      text: a number, "auto", or None. As in the original: 0.0 if nothing is
        said. Unlike the original: or what is stored with the model, see
        `look_up`.
      weights: function without arguments; returns the `digest` of the weights
        that the model has at that moment.

    Raises:
      InputError: `text` is none of these.
    """
    self.is_auto = text == "auto"
    self._is_given = text is not None
    self._weights, self._found = weights, {}
    self.value = None if self.is_auto else _number(text or 0.0)

  def look_up(self, folders: list) -> None:
    """Takes what the first of the folders has for the weights of now.

    Not if the user said something.
    """
    if not self._is_given:
      self.value = stored_threshold.stored(folders, self._weights())

  def find(self, file: data.SquadFile, answers: list) -> None:
    """Takes the threshold with the best F1 of answers by the weights of now."""
    self.value = scores.best_threshold(
      file.questions,
      {answer.qas_id: answer.best_text for answer in answers},
      {answer.qas_id: answer.null_odds for answer in answers},
    )
    # A file's name may be no UTF-8; JSON must be.
    name = os.fsencode(os.path.basename(file.path))
    self._found = {
      _FLAG: self.value,
      "found_on": name.decode("utf-8", "replace"),
      "weights": self._weights(),
    }
    logging.info("best F1 on %s with --%s=%s", file.path, _FLAG, self.value)
    if all(answer.null_odds > self.value for answer in answers):
      logging.warning(
        "with --%s=auto no question of %s is answered: the F1 is best so; if "
        "answers are wanted, train longer or pass a number", _FLAG, file.path,
      )

  def write(self, folder: str) -> None:
    """Makes a folder's file tell of the weights of now, which it holds.

    A threshold that was found with them is written; one that belongs to
    others is removed.
    """
    path, weights = os.path.join(folder, stored_threshold.FILE), self._weights()
    if self._found.get("weights") == weights:
      json_files.write(path, self._found)
      logging.info("%s = %s is stored in %s", _FLAG, self.value, path)
    # One of other weights would be used with these from now on.
    elif stored_threshold.weights_in(path) != weights:
      stored_threshold.forget(folder)

  def write_next_to(self, folder: str) -> None:
    """Stores it in the folder of a model that was only read, if it may.

    That is a folder with bert_config.json and the weights of now.
    """
    path = os.path.join(folder, "bert_config.json")
    if not self._found or not tf.io.gfile.exists(path):
      return
    try:
      # It may have been found with other weights than this folder's.
      if stored_threshold.digest_of_checkpoint(folder) == self._weights():
        self.write(folder)
    # Not worth a failure: the threshold is in the output folder, too.
    except (errors.InputError, OSError, tf.errors.OpError) as error:
      logging.warning("%s is not stored in %s: %s", _FLAG, folder, error)


def _number(text):
  try:
    value = float(text)
  except ValueError:
    value = math.nan
  if math.isnan(value):
    raise errors.InputError(f"--{_FLAG}={text}: expected a number or auto")
  return value
