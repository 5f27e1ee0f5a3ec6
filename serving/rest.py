"""TensorFlow Serving's REST form of predictions: JSON <-> arrays.

Requests come by row, {"instances": [{"text": "a"}, {"text": "b"}]}, or by
column, {"inputs": {"text": ["a", "b"]}}; where a model has one input its name
may be left out. Answers come in the form of the request. No TensorFlow.
"""

import base64
import binascii
import json
from typing import NamedTuple

import numpy as np

from common import errors, json_files


class InputSpec(NamedTuple):
  """An input of a signature: its axes, the batch included (None: any number).

  The dtype is numpy's, object for strings.
  """

  rank: int | None
  dtype: np.dtype


class Request(NamedTuple):
  """What a body asks of a signature: {name of an input: array [B, ...]}.

  `by_row` says whether it came in rows.
  """

  signature: str
  inputs: dict
  by_row: bool

  @property
  def rows(self) -> list:
    """The instances, a dict of the inputs of each."""
    return [
      dict(zip(self.inputs, row)) for row in zip(*self.inputs.values())
    ]

  @property
  def key(self) -> tuple:
    """What instances have in common that can be computed together."""
    shapes = ((k, v.shape[1:]) for k, v in sorted(self.inputs.items()))
    return self.signature, *shapes


def parse_predict(body: bytes, signatures: dict) -> Request:
  """Reads the body of a prediction request.

  Args:
    signatures: {name of a signature: {name of an input: InputSpec}}.

  Raises:
    InputError: says what is wrong with it.
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
  # Both or neither.
  if ("instances" in request) == ("inputs" in request):
    raise errors.InputError(
      'pass "instances" (a list, one for each text) or "inputs" (a list for '
      "each input), one of the two"
    )
  specs = signatures[name]
  by_row = "instances" in request
  columns = (
    _columns_of_rows(request["instances"], specs)
    if by_row
    else _columns(request["inputs"], specs)
  )
  inputs = {key: _array(key, columns[key], specs[key]) for key in specs}
  # Of rows they are equal; columns may differ.
  counts = {key: len(array) for key, array in inputs.items()}
  if len(set(counts.values())) > 1:
    raise errors.InputError(
      "the inputs differ in length: "
      + ", ".join(f"{key} has {count}" for key, count in counts.items())
    )
  if not max(counts.values()):
    raise errors.InputError("the request is empty; pass at least one instance")
  return Request(name, inputs, by_row)


def format_predictions(answers: list, by_row: bool) -> str:
  """Returns the JSON text of an answer.

  Args:
    answers: a dict of what JSON can hold for each instance.
    by_row: whether the request came in rows.
  """
  names = list(answers[0])
  # As TensorFlow Serving: an output that is the only one has no name.
  if len(names) == 1:
    values = [answer[names[0]] for answer in answers]
  elif by_row:
    values = answers
  else:
    values = {name: [answer[name] for answer in answers] for name in names}
  kind = "predictions" if by_row else "outputs"
  return json.dumps({kind: values}, ensure_ascii=False)


def format_error(sentence: str) -> str:
  """Returns the JSON text of a refusal."""
  return json.dumps({"error": sentence}, ensure_ascii=False)


def format_status(version: int) -> str:
  """Returns the JSON text of the state of a model that is being served."""
  state = {"error_code": "OK", "error_message": ""}
  status = {"version": str(version), "state": "AVAILABLE", "status": state}
  return json.dumps({"model_version_status": [status]})


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


def _columns_of_rows(rows, specs):
  """Returns {input: list of its values} of instances."""
  if not isinstance(rows, list):
    raise errors.InputError('"instances" must be a list')
  named = [
    row if _is_named(row) else {_only_name(specs): row} for row in rows
  ]
  for number, row in enumerate(named):
    _check_names(row, specs, f"instance {number}")
  return {key: [row[key] for row in named] for key in specs}


def _columns(inputs, specs):
  """Returns {input: list of its values} of inputs by column."""
  if not _is_named(inputs):
    inputs = {_only_name(specs): inputs}
  _check_names(inputs, specs, '"inputs"')
  return inputs


def _is_named(value):
  # {"b64": ...} is a string of bytes, not an input with that name.
  return isinstance(value, dict) and value.keys() != {"b64"}


def _only_name(specs):
  if len(specs) != 1:
    raise errors.InputError(
      f"this signature has {len(specs)} inputs ({', '.join(specs)}); give "
      "their names, as in {\"" + next(iter(specs)) + "\": ...}"
    )
  return next(iter(specs))


def _check_names(given, specs, where):
  if given.keys() == specs.keys():
    return
  raise errors.InputError(
    f"{where} has {', '.join(map(repr, given)) or 'nothing'}; expected "
    f"{', '.join(map(repr, specs))}"
  )


def _array(name, values, spec):
  """Returns the array [B, ...] of the values of one input."""
  strings = spec.dtype == object
  kind = {"O": "text", "i": "integers"}.get(spec.dtype.kind, "numbers")
  try:
    # ValueError where the rows differ in length.
    array = np.array(_to_bytes(values), object) if strings else np.array(values)
    fits = isinstance(values, list) and _fits(array, spec)
  except (ValueError, OverflowError):
    fits = False
  if not fits or (not strings and array.dtype.kind not in _KINDS[kind]):
    deeper = " of lists of the same length" * ((spec.rank or 1) - 1)
    raise errors.InputError(f"{name!r} must be a list{deeper} of {kind}")
  if not strings and not _in_range(array, spec.dtype):
    raise errors.InputError(f"{name!r} has a number that is no {spec.dtype}")
  return array.astype(spec.dtype)


# Whole numbers are numbers, too; truth values ("b") are neither.
_KINDS = {"integers": "i", "numbers": "if"}


def _fits(array, spec):
  if array.dtype == object and not all(
    isinstance(value, bytes) for value in array.flat
  ):
    return False
  return spec.rank in (None, array.ndim)


def _in_range(array, dtype):
  if dtype.kind != "i" or not array.size:
    return True
  # numpy would wrap 2**40 to an int32 silently.
  limits = np.iinfo(dtype)
  return limits.min <= array.min() and array.max() <= limits.max


def _to_bytes(value):
  """Turns str and {"b64": ...} into bytes, in lists of any depth."""
  if isinstance(value, list):
    return [_to_bytes(item) for item in value]
  if isinstance(value, str):
    # A lone surrogate ("\\ud800" is JSON) is no UTF-8: UnicodeEncodeError.
    return value.encode("utf-8")
  if isinstance(value, dict) and value.keys() == {"b64"}:
    try:
      return base64.b64decode(value["b64"], validate=True)
    except (binascii.Error, TypeError) as error:
      raise ValueError("not base64") from error
  raise ValueError("not a string")


def listed(array: np.ndarray) -> list:
  """Returns an array as lists, bytes as text."""
  if array.dtype != object:
    return array.tolist()
  decoded = [value.decode("utf-8", "replace") for value in array.flat]
  return np.array(decoded, object).reshape(array.shape).tolist()


def example_request(specs: dict, host: str, port: int, name: str) -> str:
  """Returns a command that asks the model for an answer.

  Args:
    specs: {input: tf.TensorSpec} of the signature serving_default.
    host, port, name: of the URL.
  """
  texts = {key: "some text" for key in specs}
  instance = "some text" if len(specs) == 1 else texts
  body = json.dumps({"instances": [instance]})
  return f"curl -d '{body}' http://{host}:{port}/v1/models/{name}:predict"
