"""SQuAD 2.0: from which score on a question counts as having no answer.

A number given by the user, or the best one on a dev set; that one is stored
next to the weights, in null_threshold.json, for those who predict with them.
The file names its weights by a digest of the head's: every training step
changes that, and copying or renaming a model does not.
"""

import hashlib
import math
import os

import numpy as np
import tensorflow as tf
from absl import logging

from checkpoints import weight_files
from common import errors, json_files
from squad import scoring

FILE = "null_threshold.json"
_KEY = "null_score_diff_threshold"
_HEAD = ("cls/squad/output_weights", "cls/squad/output_bias")


def digest(values):
  """Returns the SHA-256 of a head's weights, in hexadecimal.

  Args:
    values: dict from name to array or tf.Variable; the head is among them.
  """
  found = hashlib.sha256()
  for name in _HEAD:
    value = tf.convert_to_tensor(values[name])
    found.update(np.ascontiguousarray(value, "<f4").tobytes())
  return found.hexdigest()


def digest_of_variables(variables):
  """Returns `digest` of tf.Variables, the head's among them."""
  return digest({v.name.split(":")[0]: v for v in variables})


def digest_of_checkpoint(path):
  """Returns `digest` of a checkpoint of any kind; None if it has no head."""
  reader = weight_files.open_reader(path)
  if not reader.shapes.keys() >= set(_HEAD):
    return None
  return digest({name: reader.read(name) for name in _HEAD})


def folder_of(checkpoint):
  """Returns the folder of a checkpoint, named in whatever way."""
  if tf.io.gfile.isdir(checkpoint):
    return checkpoint
  return os.path.dirname(checkpoint) or "."


class NullThreshold:
  """The threshold of a run.

  Attributes:
    value: float, or None while it is to be found.
    is_auto: whether it is found on the data that a model is evaluated on.
  """

  def __init__(self, text, weights):
    """Takes what the user says.

    Args:
      text: a number, "auto", or None. As in the original: 0.0 if nothing is
        said. Unlike the original: or what is stored with the model, see
        `look_up`.
      weights: function without arguments; returns `digest` of the weights
        that the model has at that moment.

    Raises:
      InputError: `text` is none of these.
    """
    self.is_auto = text == "auto"
    self._is_given = text is not None
    self._weights = weights
    self._found = {}
    self.value = 0.0
    if self._is_given:
      self.value = None if self.is_auto else _number(text)

  def look_up(self, folders):
    """Takes what is stored for the weights of now, if the user said nothing.

    Args:
      folders: where to look; the first that has one for these weights counts.
    """
    if not self._is_given:
      self.value = stored(folders, self._weights())

  def find(self, file, answers):
    """Takes the threshold with the best F1.

    Args:
      file: dataset.SquadFile with answers.
      answers: list of answering.Answer to its questions, by the weights
        of now.
    """
    self.value = float(
      scoring.best_threshold(
        file.questions,
        {answer.qas_id: answer.best_text for answer in answers},
        {answer.qas_id: answer.null_odds for answer in answers},
      )
    )
    name = os.fsencode(os.path.basename(file.path))
    self._found = {
      _KEY: self.value,
      "found_on": name.decode("utf-8", "replace"),
      "weights": self._weights(),
    }
    logging.info("best F1 on %s with --%s=%s", file.path, _KEY, self.value)

  def write(self, folder):
    """Makes a folder's file tell of the weights of now, which it holds.

    A threshold that was found with them is written; one that belongs to
    others is removed.
    """
    path, weights = os.path.join(folder, FILE), self._weights()
    if self._found.get("weights") == weights:
      json_files.write(path, self._found)
      logging.info("%s = %s is stored in %s", _KEY, self.value, path)
    elif _weights_in(path) != weights:
      forget(folder)

  def write_next_to(self, folder):
    """Stores it in the folder of a model that was only read, if it may.

    That is a folder with bert_config.json and the weights of now.
    """
    path = os.path.join(folder, "bert_config.json")
    if not self._found or not tf.io.gfile.exists(path):
      return
    try:
      if digest_of_checkpoint(folder) == self._weights():
        self.write(folder)
    except (errors.InputError, OSError, tf.errors.OpError) as error:
      logging.warning("%s is not stored in %s: %s", _KEY, folder, error)


def stored(folders, weights):
  """Returns the threshold that is stored for weights, 0.0 if there is none.

  Args:
    folders: where to look, the first that has one counts.
    weights: `digest` of the weights.

  Raises:
    InputError: a file is damaged.
  """
  for folder in folders:
    path = os.path.join(folder, FILE)
    if not tf.io.gfile.exists(path):
      continue
    value = _read(path, weights)
    if value is not None:
      logging.info("%s = %s, as stored in %s", _KEY, value, path)
      return value
    logging.warning("%s belongs to other weights and is not used", path)
  return 0.0


def of_checkpoint(path):
  """Returns the threshold that is stored next to a checkpoint, or 0.0."""
  return stored([folder_of(path)], digest_of_checkpoint(path))


def forget(folder):
  """Removes a stored threshold: the weights there are about to change."""
  path = os.path.join(folder, FILE)
  if tf.io.gfile.exists(path):
    tf.io.gfile.remove(path)


def _number(text):
  try:
    value = float(text)
  except ValueError:
    value = math.nan
  if math.isnan(value):
    raise errors.InputError(f"--{_KEY}={text}: expected a number or auto")
  return value


def _weights_in(path):
  """Returns whose threshold a file holds; None if that cannot be told."""
  try:
    return json_files.read(path).get("weights")
  except errors.InputError:
    return None


def _read(path, weights):
  """Returns what a file has for these weights, or None."""
  values = json_files.read(path)
  if values.get("weights") != weights:
    return None
  value = values.get(_KEY)
  is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
  if not is_number or math.isnan(value):
    raise errors.InputError(
      f'{path}: "{_KEY}" is {value!r}, expected a number; pass it as a flag'
    )
  return float(value)
