"""Defines the names of an exported network's file, inputs and signatures.

The exporters and the engines share this module. No TensorFlow.
"""

import os
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from common import errors

# {--format: name of the network's file}
FILES = {"litert": "model.tflite", "onnx": "model.onnx"}
# The file with the settings to convert texts to ids, and outputs to answers.
SETTINGS = "answers.json"
# {name of an input in Hugging Face's format: name in this project}
INPUTS = {
  "input_ids": "input_ids",
  "attention_mask": "input_mask",
  "token_type_ids": "segment_ids",
}
# The name of a LiteRT signature is this prefix and its number of tokens.
_LENGTH = "length_"


def model_path(path: str, engine: str) -> str:
  """Returns the path of a network's file; `path` is the file or its folder."""
  return os.path.join(path, FILES[engine]) if os.path.isdir(path) else path


def check_inputs(path: str, names: Iterable[str]) -> None:
  """Raises InputError unless all inputs of a network are in INPUTS."""
  if not names or not {*names} <= INPUTS.keys():
    raise errors.InputError(
      f"{path} is not a network of this project: its inputs are "
      f"{', '.join(names) or 'none'}, expected {', '.join(INPUTS)}; export a "
      "model with export_saved_model.py"
    )


def feed(
  names: Iterable[str], dtype: npt.DTypeLike, *arrays: npt.ArrayLike
) -> dict[str, np.ndarray]:
  """Returns {name: array} for the inputs in `names`.

  Args:
    arrays: ids, mask and segments, in the order of INPUTS.
  """
  values = zip(INPUTS, arrays)
  return {n: np.asarray(value, dtype) for n, value in values if n in names}


def signature_name(length: int) -> str:
  """Returns the name of the signature for `length` tokens."""
  return f"{_LENGTH}{length}"


def lengths_of(signatures: Iterable[str]) -> list[int]:
  """Returns the sequence lengths in the names of signatures, ascending.

  Raises:
    ValueError: there are no names, or one does not match `signature_name`.
  """
  lengths = sorted(int(name.removeprefix(_LENGTH)) for name in signatures)
  if not lengths:
    raise ValueError("it has no signature")
  return lengths
