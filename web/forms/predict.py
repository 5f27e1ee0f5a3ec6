"""TensorFlow Serving's REST interface.

  POST /v1/models/NAME:predict             predictions
  GET  /v1/models/NAME                     state
  GET  /v1/models/NAME/metadata            names of the inputs
  .../NAME/versions/NUMBER...              the same, with the model's version

A request has rows, {"instances": [{"text": "a"}, {"text": "b"}]}, or columns,
{"inputs": {"text": ["a", "b"]}}. It may omit the name of a model's only input.
The response has rows or columns like the request.
"""

import base64
from collections.abc import Sequence
from typing import Any, NamedTuple

from common import errors
from web import application, refusals

with errors.needs_extra("serve"):
  from aiohttp import web

SIGNATURE = "serving_default"
_MODEL = "/v1/models/{name:[^/:]+}"
_BODY = {
  "type": "object",
  "properties": {
    "instances": {
      "type": "array",
      "description": "One text, or object of named texts, for each example.",
      "items": {},
    },
    "inputs": {
      "type": "object",
      "description": "A list of texts for each input, instead of instances.",
    },
    "signature_name": {"type": "string", "enum": [SIGNATURE]},
  },
}


def add(site: application.Site) -> None:
  """Adds the paths."""

  def hosted(request: web.Request) -> application.Hosted:
    name = request.match_info["name"]
    each = site.hosted.get(name)
    version = request.match_info.get("version")
    if not each or version not in (None, str(each.model.version)):
      known = ", ".join(
        f"{n!r} with version {each.model.version}"
        for n, each in site.hosted.items()
      )
      raise web.HTTPNotFound(
        text=f"no model {name!r}"
        + f" with version {version}" * bool(version)
        + f"; this server has {known}"
      )
    return each

  async def predict(request: web.Request, values: dict) -> dict:
    each = hosted(request)
    rows, by_row = parse_predict(values, each.model.texts)
    return predictions(await each.answer(rows), by_row)

  async def status(request: web.Request) -> web.Response:
    state = {"error_code": "OK", "error_message": ""}
    version = str(hosted(request).model.version)
    status = {"version": version, "state": "AVAILABLE", "status": state}
    return refusals.json_response({"model_version_status": [status]})

  async def show_metadata(request: web.Request) -> web.Response:
    each = hosted(request)
    definitions = {"signature_def": metadata(each.model.texts)}
    # In TensorFlow Serving's answer, signature_name is empty too.
    spec = {
      "name": each.name,
      "version": str(each.model.version),
      "signature_name": "",
    }
    return refusals.json_response(
      {"model_spec": spec, "metadata": {"signature_def": definitions}}
    )

  for path in (_MODEL, _MODEL + "/versions/{version}"):
    site.post(path + ":predict", predict, "Predictions.", _BODY, hosted)
    site.get(path + "/metadata", show_metadata, "Names of the inputs.")
    site.get(path, status, "Whether the model is loaded.")


class Request(NamedTuple):
  """A parsed prediction request.

  Attributes:
    rows: the instances, each a tuple of its texts.
    by_row: whether the request had rows, not columns.
  """

  rows: list[tuple[str, ...]]
  by_row: bool


def parse_predict(request: dict, names: Sequence[str]) -> Request:
  """Parses the values of a prediction request.

  `names` are the names of an instance's texts, in their order. Raises
  InputError: the values are invalid.
  """
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


def _columns(rows: Any, names: Sequence[str]) -> dict[str, list]:
  """Returns {input: list with its value in each instance}."""
  if not isinstance(rows, list):
    raise errors.InputError('"instances" must be a list')
  named = [
    _named(row, names, f"instance {number}") for number, row in enumerate(rows)
  ]
  return {name: [row[name] for row in named] for name in names}


def _named(value: Any, names: Sequence[str], where: str) -> dict:
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


def _texts(name: str, values: Any) -> list[str]:
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


def _text(value: Any) -> str:
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
