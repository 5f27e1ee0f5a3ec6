"""The file of an exported network: its name, its inputs, its signatures.

What writes it and what runs it have these in common. No TensorFlow.
"""

import os
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from common import errors

# Of the network, by --format.
FILES = {"litert": "model.tflite", "onnx": "model.onnx"}
# Hugging Face's names of the inputs -> ours.
INPUTS = {
  "input_ids": "input_ids", "attention_mask": "input_mask",
  "token_type_ids": "segment_ids",
}
# Of LiteRT's signatures, before the number of tokens.
_LENGTH = "length_"


def model_path(path: str, engine: str) -> str:
  """Returns the file of a network, of its folder or of itself."""
  return os.path.join(path, FILES[engine]) if os.path.isdir(path) else path


def check_inputs(path: str, names: Iterable[str]) -> None:
  """Raises InputError for a network that has other inputs than INPUTS."""
  if not names or not {*names} <= INPUTS.keys():
    raise errors.InputError(
      f"{path} is another network: its inputs are "
      f"{', '.join(names) or 'none'}, and here {', '.join(INPUTS)}; export one "
      "with export_saved_model.py"
    )


def feed(
  names: Iterable[str], dtype: npt.DTypeLike, *arrays: npt.ArrayLike
) -> dict[str, np.ndarray]:
  """Returns the inputs of a network that has those `names`.

  Args:
    arrays: ids, mask and segments.
  """
  values = zip(INPUTS, arrays)
  return {n: np.asarray(value, dtype) for n, value in values if n in names}

def signature_name(length: int) -> str:
  """Returns the name of the signature for texts of a length."""
  return f"{_LENGTH}{length}"


def lengths_of(signatures: Iterable[str]) -> list[int]:
  """Returns the lengths that signatures are for, ascending.

  Raises:
    ValueError: there is none, or another one.
  """
  lengths = sorted(int(name.removeprefix(_LENGTH)) for name in signatures)
  if not lengths:
    raise ValueError("it has no signature")
  return lengths
