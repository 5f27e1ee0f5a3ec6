"""Names the file of an exported network, its inputs and its signatures.

The exporters and the engines share this module. No TensorFlow.
"""

import os
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from common import errors

# {--format: name of the network's file}
FILES = {"litert": "model.tflite", "onnx": "model.onnx"}
# How an export turns texts into ids and numbers into answers.
SETTINGS = "answers.json"
# {Hugging Face's name of an input: our name}
INPUTS = {
  "input_ids": "input_ids",
  "attention_mask": "input_mask",
  "token_type_ids": "segment_ids",
}
# A LiteRT signature is named by this prefix and its number of tokens.
_LENGTH = "length_"


def model_path(path: str, engine: str) -> str:
  """Returns the path of a network's file; `path` may be its folder."""
  return os.path.join(path, FILES[engine]) if os.path.isdir(path) else path


def check_inputs(path: str, names: Iterable[str]) -> None:
  """Raises InputError for a network with other inputs than INPUTS."""
  if not names or not {*names} <= INPUTS.keys():
    raise errors.InputError(
      f"{path} is another network: its inputs are "
      f"{', '.join(names) or 'none'}; expected {', '.join(INPUTS)}: export a "
      "model with export_saved_model.py"
    )


def feed(
  names: Iterable[str], dtype: npt.DTypeLike, *arrays: npt.ArrayLike
) -> dict[str, np.ndarray]:
  """Returns {name: array} for a network whose inputs have these `names`.

  Args:
    arrays: ids, mask and segments.
  """
  values = zip(INPUTS, arrays)
  return {n: np.asarray(value, dtype) for n, value in values if n in names}


def signature_name(length: int) -> str:
  """Returns the name of the signature for texts of a length."""
  return f"{_LENGTH}{length}"


def lengths_of(signatures: Iterable[str]) -> list[int]:
  """Returns the lengths of the signatures, ascending.

  Raises:
    ValueError: there are no signatures, or one has another name.
  """
  lengths = sorted(int(name.removeprefix(_LENGTH)) for name in signatures)
  if not lengths:
    raise ValueError("it has no signature")
  return lengths
