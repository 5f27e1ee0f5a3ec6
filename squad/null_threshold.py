"""Finds, stores and reads SQuAD 2.0's threshold for "no answer".

If a question's null odds exceed the threshold, the answer is "no answer". The
user passes a number or "auto". "auto" chooses the number with the best F1 on
the evaluation data, and stores it next to the weights for later predictions.
The file null_threshold.json identifies the model by a digest of its head.
Every training step changes the digest; copying or renaming a model does not.
"""

import hashlib
import math
import os
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from absl import logging

import named_weights
from checkpoints import weight_files
from common import errors, file_io, json_files
from squad import answer_units, data, scores

FILE = "null_threshold.json"
_FLAG = "null_score_diff_threshold"
_HEAD = ("cls/squad/output_weights", "cls/squad/output_bias")


class NullThreshold:
  """The threshold of a run.

  Attributes:
    value: float; 0.0 until a threshold is given, found or read.
    is_auto: whether to search for the best threshold on the evaluation data.
  """

  def __init__(self, text: str | None, weights: Callable):
    """Parses the value of --null_score_diff_threshold.

    Raises InputError: `text` is not a number, "auto" or None.

    Args:
      text: a number, "auto", or None. As in the original: 0.0 by default.
        Unlike the original: a threshold stored with the model takes precedence
        over the default, see `look_up`.
      weights: function without arguments; returns the `digest` of the model's
        current weights.
    """
    self.is_auto = text == "auto"
    self._is_given = text is not None
    self._weights = weights
    self._found: dict = {}
    self.value = 0.0 if text in (None, "auto") else _number(text)

  def look_up(self, folders: list) -> None:
    """Reads the current weights' threshold from the first folder that has it.

    It does nothing if the user passed a threshold or "auto".
    """
    if not self._is_given:
      self.value = stored(folders, self._weights())

  def find(
    self, file: data.SquadFile, answers: list, units: str = answer_units.AUTO
  ) -> None:
    """Sets the threshold with the best F1 for the current weights' answers.

    `units` count F1, see scores.compare_all.
    """
    texts = {answer.qas_id: answer.best_text for answer in answers}
    odds = {answer.qas_id: answer.null_odds for answer in answers}
    self.value = scores.best_threshold(file.questions, texts, odds, units=units)
    # JSON must be UTF-8, but file names may contain other bytes.
    name = os.fsencode(os.path.basename(file.path))
    self._found = {
      _FLAG: self.value,
      "found_on": name.decode("utf-8", "replace"),
      "weights": self._weights(),
    }
    logging.info("best F1 on %s with --%s=%s", file.path, _FLAG, self.value)
    if all(answer.null_odds > self.value for answer in answers):
      logging.warning(
        "--%s=auto: the F1 is highest if no question of %s is answered; to get "
        "answers, train longer or pass a number",
        _FLAG,
        file.path,
      )

  def write(self, folder: str) -> None:
    """Updates the threshold file in a folder that has the current weights.

    It writes a threshold that `find` found with these weights. Otherwise, it
    removes a stored threshold that belongs to different weights.
    """
    path, weights = os.path.join(folder, FILE), self._weights()
    if self._found.get("weights") == weights:
      json_files.write(path, self._found)
      logging.info("stored %s = %s in %s", _FLAG, self.value, path)
    elif _weights_in(path) != weights:
      forget(folder)

  def write_next_to(self, folder: str) -> None:
    """Stores a found threshold in another folder that has the same weights.

    It does nothing if the folder has different weights or no bert_config.json.
    """
    path = os.path.join(folder, "bert_config.json")
    if not self._found or not tf.io.gfile.exists(path):
      return
    try:
      if digest_of_checkpoint(folder) == self._weights():
        self.write(folder)
    # Only warn, because the output folder already has the threshold.
    except (errors.InputError, OSError, tf.errors.OpError) as error:
      logging.warning("%s is not stored in %s: %s", _FLAG, folder, error)


def digest(values: Mapping[str, npt.ArrayLike]) -> str:
  """Returns the SHA-256 of the head's weights in `values`, in hexadecimal."""
  hasher = hashlib.sha256()
  for name in _HEAD:
    value = tf.convert_to_tensor(values[name])
    # A fixed byte order gives the same digest on all machines.
    hasher.update(np.ascontiguousarray(value, "<f4").tobytes())
  return hasher.hexdigest()


def digest_of_variables(variables: Iterable[tf.Variable]) -> str:
  """Returns the `digest` of variables that include the head's."""
  return digest({named_weights.variable_name(v): v for v in variables})


def digest_of_checkpoint(path: str) -> str | None:
  """Returns the `digest` of a checkpoint of any format; None without a head."""
  reader = weight_files.open_reader(path)
  # Pre-trained weights, for example, lack this head.
  if not reader.shapes.keys() >= set(_HEAD):
    return None
  return digest({name: reader.read(name) for name in _HEAD})


def folder_of(checkpoint: str) -> str:
  """Returns the folder of a checkpoint, given as a folder, file or prefix."""
  if tf.io.gfile.isdir(checkpoint):
    return checkpoint
  return os.path.dirname(checkpoint) or "."


def stored(folders: Iterable[str], weights: str | None) -> float:
  """Returns the threshold that is stored for the digest `weights`, or 0.0.

  The first folder with a threshold for these weights counts. Raises InputError:
  a file is damaged.
  """
  for folder in folders:
    path = os.path.join(folder, FILE)
    if not tf.io.gfile.exists(path):
      continue
    values = json_files.read(path)
    if values.get("weights") != weights:
      # The next folder may have a threshold for these weights.
      logging.warning("ignoring %s, which belongs to different weights", path)
      continue
    value = float(json_files.field(values, _FLAG, float, path))
    if math.isnan(value):
      raise errors.InputError(
        f"{_FLAG} in {path} is nan, expected a number; pass --{_FLAG}"
      )
    logging.info("%s = %s, as stored in %s", _FLAG, value, path)
    return value
  return 0.0


def of_checkpoint(path: str) -> float:
  """Returns the threshold that is stored next to a checkpoint, or 0.0."""
  return stored([folder_of(path)], digest_of_checkpoint(path))


def forget(folder: str) -> None:
  """Removes the threshold stored in a folder, if any."""
  file_io.remove(os.path.join(folder, FILE))


def _weights_in(path: str) -> str | None:
  """Returns the digest in a threshold file; None if it cannot be read."""
  try:
    return json_files.read(path).get("weights")
  except errors.InputError:
    return None


def _number(text: str) -> float:
  try:
    value = float(text)
  except ValueError:
    value = math.nan
  if math.isnan(value):
    raise errors.InputError(f"--{_FLAG}={text}: expected a number or auto")
  return value
