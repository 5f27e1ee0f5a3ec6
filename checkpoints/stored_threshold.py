"""The threshold of "no answer" that is stored next to a model's weights.

null_threshold.json names its weights by a digest of the head's: every training
step changes that, and copying or renaming a model does not.
"""

import hashlib
import math
import os
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from absl import logging

import layers
from checkpoints import weight_files
from common import errors, json_files

FILE = "null_threshold.json"
KEY = "null_score_diff_threshold"
_HEAD = ("cls/squad/output_weights", "cls/squad/output_bias")


def digest(values: Mapping[str, npt.ArrayLike]) -> str:
  """Returns the SHA-256 of a head's weights among others, in hexadecimal."""
  found = hashlib.sha256()
  for name in _HEAD:
    value = tf.convert_to_tensor(values[name])
    # In one byte order, so that all machines have one digest.
    found.update(np.ascontiguousarray(value, "<f4").tobytes())
  return found.hexdigest()


def digest_of_variables(variables: Iterable[tf.Variable]) -> str:
  """Returns `digest` of variables, the head's among them."""
  return digest({layers.variable_name(v): v for v in variables})


def digest_of_checkpoint(path: str) -> str | None:
  """Returns `digest` of a checkpoint of any kind; None if it has no head."""
  reader = weight_files.open_reader(path)
  # Weights of pre-training, say.
  if not reader.shapes.keys() >= set(_HEAD):
    return None
  return digest({name: reader.read(name) for name in _HEAD})


def folder_of(checkpoint: str) -> str:
  """Returns the folder of a checkpoint, named in whatever way."""
  if tf.io.gfile.isdir(checkpoint):
    return checkpoint
  return os.path.dirname(checkpoint) or "."


def stored(folders: Iterable[str], weights: str) -> float:
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
    values = json_files.read(path)
    if values.get("weights") != weights:
      # The next folder may have the right one.
      logging.warning("%s belongs to other weights and is not used", path)
      continue
    value = float(json_files.field(values, KEY, float, path))
    if math.isnan(value):
      raise errors.InputError(
        f"{KEY} is nan in {path}, expected a number; pass it as a flag"
      )
    logging.info("%s = %s, as stored in %s", KEY, value, path)
    return value
  return 0.0


def of_checkpoint(path: str) -> float:
  """Returns the threshold that is stored next to a checkpoint, or 0.0."""
  return stored([folder_of(path)], digest_of_checkpoint(path))


def forget(folder: str) -> None:
  """Removes a stored threshold: the weights there are about to change."""
  path = os.path.join(folder, FILE)
  if tf.io.gfile.exists(path):
    tf.io.gfile.remove(path)


def weights_in(path: str) -> str | None:
  """Returns whose threshold a file holds; None if that cannot be told."""
  try:
    return json_files.read(path).get("weights")
  except errors.InputError:
    return None
