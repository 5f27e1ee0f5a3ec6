"""BertConfig: the original's JSON, and every way in which a file is wrong."""

import json
import pathlib

import pytest

import modeling
from common import errors
from tiny_model import tiny

GOLDEN = pathlib.Path("tests/golden")


def test_configuration_json_equals_the_original():
  golden = json.loads((GOLDEN / "api" / "api.json").read_text())
  config = modeling.BertConfig(30522)
  assert config.to_json_string() == golden["config_default_json"]
  config = modeling.BertConfig.from_dict(
    {"vocab_size": 5, "directionality": "bidi", "pooler_fc_size": 768}
  )
  assert config.to_json_string() == golden["config_from_dict_extra_keys_json"]
  assert config.directionality == "bidi"


def test_configuration_file_round_trip(tmp_path):
  path = tmp_path / "bert_config.json"
  path.write_text(tiny(hidden_act="relu").to_json_string())
  assert modeling.BertConfig.from_json_file(path) == tiny(hidden_act="relu")


@pytest.mark.parametrize(
  "text, message",
  [
    ("{", "not JSON"),
    ("[1]", r"expected a JSON object, got \[1\]"),
    ("{}", "no vocab_size"),
    ('{"vocab_size": null}', "no vocab_size"),
    ('{"vocab_size": "9"}', "vocab_size is '9' .* integer"),
    ('{"vocab_size": true}', "vocab_size is True"),
    ('{"vocab_size": 0}', "at least 1"),
    ('{"vocab_size": 9, "hidden_size": 10}', "10 cannot .* 12 attention heads"),
    ('{"vocab_size": 9, "hidden_dropout_prob": 1.0}', "less than 1"),
    ('{"vocab_size": 9, "initializer_range": -1}', "at least 0"),
    ('{"vocab_size": 9, "hidden_act": "mish"}', "unknown activation 'mish'"),
  ],
)
def test_bad_configuration_files(tmp_path, text, message):
  path = tmp_path / "bert_config.json"
  path.write_text(text)
  with pytest.raises(errors.InputError, match=f"bert_config.json: .*{message}"):
    modeling.BertConfig.from_json_file(str(path))


def test_missing_configuration_file():
  with pytest.raises(errors.InputError, match="no such file: /no/config.json"):
    modeling.BertConfig.from_json_file("/no/config.json")


def test_label_names():
  assert not tiny().label_names()
  named = modeling.BertConfig.from_dict(
    {**tiny().to_dict(), "id2label": {"1": "b", "0": "a"}}
  )
  assert named.label_names() == ["a", "b"]
  wrong = modeling.BertConfig.from_dict(
    {**tiny().to_dict(), "id2label": {"1": "b"}}
  )
  with pytest.raises(errors.InputError, match="no '0'; number the labels"):
    wrong.label_names()
