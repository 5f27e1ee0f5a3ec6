"""Parses requests and builds responses in TensorFlow Serving's JSON format.

A request has rows, {"instances": [{"text": "a"}, {"text": "b"}]}, or columns,
{"inputs": {"text": ["a", "b"]}}. It may omit the name of a model's only input.
The response has rows or columns like the request. No TensorFlow.
"""

import base64
import json
from collections.abc import Sequence
from typing import NamedTuple

from common import errors, json_files

SIGNATURE = "serving_default"


class Request(NamedTuple):
  """A parsed prediction request.

  Attributes:
    rows: the instances, each a tuple of its texts.
    by_row: whether the request had rows, not columns.
  """

  rows: list[tuple[str, ...]]
  by_row: bool


def parse_predict(body: bytes, names: Sequence[str]) -> Request:
  """Parses the body of a prediction request.

  `names` are the names of an instance's texts, in their order. Raises
  InputError: the body is invalid.
  """
  request = _json_object(body)
  unknown = request.keys() - {"signature_name", "instances", "inputs"}
  if unknown:
    raise errors.InputError(
      f"unknown key {min(unknown)!r} in the request; expected instances, "
      "inputs or signature_name"
    )
  signature = request.get("signature_name", SIGNATURE)
  if signature != SIGNATURE:
    raise errors.InputError(
      f"unknown signature_name {signature!r}; only {SIGNATURE} is served"
    )
  by_row = "instances" in request
  # Refuse a request that has both keys or neither.
  if by_row == ("inputs" in request):
    raise errors.InputError(
      'pass either "instances" (a list with one entry per example) or "inputs" '
      "(a list of texts for each input)"
    )
  if by_row:
    columns = _columns(request["instances"], names)
  else:
    columns = _named(request["inputs"], names, '"inputs"')
  texts = [_texts(name, columns[name]) for name in names]
  # The inputs can differ in length only if the request has columns.
  counts = list(map(len, texts))
  if len(set(counts)) > 1:
    raise errors.InputError(
      "the inputs differ in length: "
      + ", ".join(f"{name} has {n}" for name, n in zip(names, counts))
    )
  if not counts[0]:
    raise errors.InputError("the request is empty; pass at least one instance")
  return Request(list(zip(*texts)), by_row)


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
      'the body is JSON, but not an object; expected {"instances": [...]}'
    )
  return request


def _columns(rows, names):
  """Returns {input: list with its value in each instance}."""
  if not isinstance(rows, list):
    raise errors.InputError('"instances" must be a list')
  named = [
    _named(row, names, f"instance {number}") for number, row in enumerate(rows)
  ]
  return {name: [row[name] for row in named] for name in names}


def _named(value, names, where):
  """Returns {input: value}; a model's only input needs no name."""
  # {"b64": ...} is not a dict of inputs, but one value: bytes in base64.
  if not isinstance(value, dict) or value.keys() == {"b64"}:
    if len(names) != 1:
      raise errors.InputError(
        f"this model has {len(names)} inputs ({', '.join(names)}); give their "
        'names, as in {"' + names[0] + '": ...}'
      )
    return {names[0]: value}
  if value.keys() != {*names}:
    raise errors.InputError(
      f"{where} has {', '.join(map(repr, value)) or 'nothing'}; expected "
      f"{', '.join(map(repr, names))}"
    )
  return value


def _texts(name, values):
  """Returns the texts of one input; each is a string or {"b64": ...}."""
  try:
    if isinstance(values, list):
      return list(map(_text, values))
  except (AttributeError, TypeError, ValueError):
    pass  # A value is not a text.
  raise errors.InputError(
    f"{name!r}: expected valid strings or {{\"b64\": ...}}, and for 'inputs' a "
    "list of these"
  )


def _text(value):
  if isinstance(value, dict) and value.keys() == {"b64"}:
    data = base64.b64decode(value["b64"], validate=True)
    return data.decode("utf-8", "ignore")
  # A lone surrogate, such as JSON's "\ud800", raises UnicodeEncodeError.
  value.encode("utf-8")
  return value


def metadata(names: Sequence[str]) -> dict:
  """Returns {signature: its inputs, in TensorFlow Serving's format}."""
  shape = {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}
  text = {"dtype": "DT_STRING", "tensor_shape": shape}
  return {
    SIGNATURE: {
      "inputs": dict.fromkeys(names, text),
      "outputs": {},
      "method_name": "tensorflow/serving/predict",
      "defaults": {},
    }
  }


def model_url(host: str, port: int, name: str) -> str:
  """Returns the URL of a model; an IPv6 address needs brackets."""
  host = f"[{host}]" if ":" in host else host
  return f"http://{host}:{port}/v1/models/{name}"


def example_request(
  names: Sequence[str], host: str, port: int, name: str
) -> str:
  """Returns a curl command that requests a prediction."""
  text = "some text"
  instance = text if len(names) == 1 else dict.fromkeys(names, text)
  body = json.dumps({"instances": [instance]})
  return f"curl -d '{body}' {model_url(host, port, name)}:predict"
