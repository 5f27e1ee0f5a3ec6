"""Predictions in TensorFlow Serving's REST format: JSON <-> arrays.

A request has rows, {"instances": [{"text": "a"}, {"text": "b"}]}, or columns,
{"inputs": {"text": ["a", "b"]}}. It may omit the name of a model's only input.
The answer has rows or columns like its request. No TensorFlow.
"""

import base64
import binascii
import json
from typing import NamedTuple

import numpy as np

from common import errors, json_files

# NumPy's kinds for each type: integers are numbers too, booleans ("b") are not.
_KINDS = {"text": "O", "integers": "i", "numbers": "if"}


class InputSpec(NamedTuple):
  """The type and rank of a signature's input.

  Attributes:
    dtype: NumPy's type; strings are object.
    rank: number of axes; None allows any.
  """

  dtype: np.dtype
  rank: int | None


TEXTS = InputSpec(np.dtype(object), 1)


class Request(NamedTuple):
  """A request for a signature.

  Attributes:
    key: the name of the signature, then the shapes of the inputs; instances
      with equal keys can share a batch.
    rows: the instances, each a dict of its inputs.
    by_row: whether the request had rows, not columns.
  """

  key: tuple
  rows: list
  by_row: bool


def parse_predict(body: bytes, signatures: dict) -> Request:
  """Reads the body of a prediction request.

  `signatures`: {name of a signature: {name of an input: InputSpec}}. Raises
  InputError: the body is invalid.
  """
  request = _json_object(body)
  unknown = request.keys() - {"signature_name", "instances", "inputs"}
  if unknown:
    raise errors.InputError(
      f"unknown key {min(unknown)!r} in the request; known are instances, "
      "inputs and signature_name"
    )
  name = request.get("signature_name", "serving_default")
  if not isinstance(name, str) or name not in signatures:
    raise errors.InputError(
      f"unknown signature_name {name!r}; this model has "
      + ", ".join(sorted(signatures))
    )
  by_row, specs = "instances" in request, signatures[name]
  # Refuse a request that has both keys or neither.
  if by_row == ("inputs" in request):
    raise errors.InputError(
      'pass "instances" (a list, one for each text) or "inputs" (a list for '
      "each input), one of the two"
    )
  if by_row:
    columns = _columns(request["instances"], specs)
  else:
    columns = _named(request["inputs"], specs, '"inputs"')
  inputs = {key: _array(key, columns[key], specs[key]) for key in specs}
  # Columns may differ in length, unlike rows.
  counts = {key: len(array) for key, array in inputs.items()}
  if len(set(counts.values())) > 1:
    raise errors.InputError(
      "the inputs differ in length: "
      + ", ".join(f"{key} has {count}" for key, count in counts.items())
    )
  if not max(counts.values()):
    raise errors.InputError("the request is empty; pass at least one instance")
  shapes = ((key, inputs[key].shape[1:]) for key in sorted(inputs))
  rows = [dict(zip(inputs, row)) for row in zip(*inputs.values())]
  return Request((name, *shapes), rows, by_row)


def predictions(answers: list, by_row: bool) -> dict:
  """Returns the JSON object with the answers in rows or columns."""
  names = list(answers[0])
  values: list | dict = answers
  # As in TensorFlow Serving, a single output has no name.
  if len(names) == 1:
    values = [answer[names[0]] for answer in answers]
  elif not by_row:
    values = {name: [answer[name] for answer in answers] for name in names}
  return {"predictions" if by_row else "outputs": values}


def _json_object(body):
  try:
    request = json_files.parse(body)
  except errors.InputError as error:
    raise errors.InputError(f"the body is {error}") from error
  # A list or a number is JSON too.
  if not isinstance(request, dict):
    raise errors.InputError(
      'the body is JSON, but no object; expected {"instances": [...]}'
    )
  return request


def _columns(rows, specs):
  """Returns {input: list with its value in each instance}."""
  if not isinstance(rows, list):
    raise errors.InputError('"instances" must be a list')
  named = [
    _named(row, specs, f"instance {number}") for number, row in enumerate(rows)
  ]
  return {key: [row[key] for row in named] for key in specs}


def _named(value, specs, where):
  """Returns {input: value}; a signature's only input needs no name."""
  # {"b64": ...} is the value of an input: bytes in base64.
  if not isinstance(value, dict) or value.keys() == {"b64"}:
    if len(specs) != 1:
      raise errors.InputError(
        f"this signature has {len(specs)} inputs ({', '.join(specs)}); give "
        "their names, as in {\"" + next(iter(specs)) + "\": ...}"
      )
    return {next(iter(specs)): value}
  if value.keys() != specs.keys():
    raise errors.InputError(
      f"{where} has {', '.join(map(repr, value)) or 'nothing'}; expected "
      f"{', '.join(map(repr, specs))}"
    )
  return value


def _array(name, values, spec):
  """Returns the values of one input as an array [B, ...]."""
  dtype, rank = spec
  type_name = {"O": "text", "i": "integers"}.get(dtype.kind, "numbers")
  try:
    # NumPy raises ValueError for numbers in rows that differ in length.
    if type_name == "text":
      array = np.array(_to_bytes(values), "O")
    else:
      array = np.array(values)
    fits = isinstance(values, list) and rank in (None, array.ndim)
  except (ValueError, OverflowError):
    fits = False
  # NumPy keeps lists of texts that differ in length as lists.
  if not fits or array.dtype.kind not in _KINDS[type_name] or any(
    isinstance(value, list) for value in array.flat
  ):
    deeper = " of lists of the same length" * ((rank or 1) - 1)
    raise errors.InputError(f"{name!r} must be a list{deeper} of {type_name}")
  converted = array.astype(dtype)
  # NumPy silently wraps 2**40 around to fit int32.
  if type_name == "integers" and (converted != array).any():
    raise errors.InputError(f"{name!r} has a number that is no {dtype}")
  return converted


def _to_bytes(value):
  """Converts str and {"b64": ...} to bytes, in lists of any depth."""
  if isinstance(value, list):
    return [_to_bytes(item) for item in value]
  if isinstance(value, str):
    # A lone surrogate ("\\ud800" is JSON) raises UnicodeEncodeError.
    return value.encode("utf-8")
  if isinstance(value, dict) and value.keys() == {"b64"}:
    try:
      return base64.b64decode(value["b64"], validate=True)
    except (binascii.Error, TypeError) as error:
      raise ValueError("not base64") from error
  raise ValueError("not a string")


def example_request(names: list, host: str, port: int, name: str) -> str:
  """Returns a curl command that requests serving_default with its inputs."""
  instance = "some text" if len(names) == 1 else dict.fromkeys(
    names, "some text"
  )
  body = json.dumps({"instances": [instance]})
  return f"curl -d '{body}' http://{host}:{port}/v1/models/{name}:predict"
