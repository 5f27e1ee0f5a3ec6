"""Tests the REST protocol: every form of valid and of invalid requests."""

import json
import shlex

import pytest

from common import errors
from message_facts import says
from web import application, server
from web.forms import predict

TEXT, PAIR = ["text"], ["a", "b"]


def parse(names=TEXT, **request):
  return predict.parse_predict(json.loads(json.dumps(request)), names)


@pytest.mark.parametrize(
  "request_",
  [
    {"instances": ["a", "\u00e9"]},
    {"instances": [{"text": "a"}, {"text": "\u00e9"}]},
    {"instances": ["a", {"b64": "w6k="}]},
    {"inputs": ["a", "\u00e9"]},
    {"inputs": {"text": ["a", "\u00e9"]}},
    {"inputs": {"text": [{"b64": "YQ=="}, "\u00e9"]}},
  ],
)
def test_every_form_of_text(request_):
  request = parse(**request_)
  assert request.by_row == ("instances" in request_)
  assert request.rows == [("a",), ("\u00e9",)]


def test_several_inputs():
  for request in (
    parse(PAIR, instances=[{"b": "y", "a": "x"}]),
    parse(PAIR, inputs={"b": ["y"], "a": ["x"]}),
  ):
    assert request.rows == [("x", "y")]


@pytest.mark.parametrize(
  "request_, sentence",
  [
    ({}, '"instances" .* or "inputs"'),
    ({"instances": ["a"], "inputs": ["a"]}, "pass either"),
    ({"instances": "a"}, '"instances" must be a list'),
    ({"instances": []}, "the request is empty"),
    ({"instances": [1]}, says("'text'", "expected")),
    ({"instances": [["a"]]}, says("'text'", "expected")),
    ({"instances": [None]}, says("'text'", "expected")),
    ({"instances": ["\ud800"]}, says("'text'", "expected")),
    ({"instances": [{"b64": "?"}]}, says("'text'", "expected")),
    ({"inputs": "a"}, says("'text'", "expected")),
    ({"instances": [{"x": "a"}]}, says("0", "'x'", "'text'", "expected")),
    ({"inputs": {}}, says("'text'", "nothing", "expected")),
    ({"instances": ["a"], "x": 1}, "unknown key 'x'"),
    (
      {"signature_name": "ids", "instances": ["a"]},
      says("signature_name", "'ids'", "serving_default", "unknown", "only"),
    ),
    ({"names": PAIR, "instances": ["a"]}, "has 2 inputs"),
    ({"names": PAIR, "inputs": {"a": ["x"], "b": []}}, "a has 1, b has 0"),
  ],
)
def test_invalid_requests(request_, sentence):
  with pytest.raises(errors.InputError, match=sentence):
    parse(**request_)


@pytest.mark.parametrize(
  "body, sentence",
  [
    (b"", "not JSON"),
    (b"\xff", "not JSON"),
    (b"[1]", "not an object"),
    *((b"[" * n + b"]" * n, "nested too deeply") for n in (32, 60, 900)),
    (b"[" * 100000, "nested too deeply"),
  ],
)
def test_invalid_bodies(body, sentence):
  with pytest.raises(errors.InputError, match=sentence):
    application.json_object(body)


def test_answers():
  answers = [{"label": "a", "score": [0.5]}, {"label": "\u00e9", "score": [1]}]
  assert predict.predictions(answers, True) == {"predictions": answers}
  assert predict.predictions(answers, False) == {
    "outputs": {"label": ["a", "\u00e9"], "score": [[0.5], [1]]}
  }
  # As in TensorFlow Serving: a single output has no name.
  single_output = [{"label": "a"}, {"label": "b"}]
  for by_row, name in ((True, "predictions"), (False, "outputs")):
    assert predict.predictions(single_output, by_row) == {name: ["a", "b"]}


def test_the_example_request_is_valid():
  for names in (["text"], ["question", "context"]):
    command = server.example_request(names, "h", 80, "m")
    *curl, body, url = shlex.split(command)
    assert curl == ["curl", "-d"] and url == "http://h:80/v1/models/m:predict"
    [instance] = json.loads(body)["instances"]
    assert instance == "some text" or set(instance) == set(names)
    assert isinstance(instance, str) == (len(names) == 1)
  assert "http://[::1]:80/" in server.example_request(["text"], "::1", 80, "m")
