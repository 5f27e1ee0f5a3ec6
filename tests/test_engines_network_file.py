"""Tests the names and inputs of an exported network's file."""

import numpy as np
import pytest

from common import errors, run_settings
from engines import network_file, networks
from message_facts import says


@pytest.mark.parametrize(
  "engine, name", [("onnx", "model.onnx"), ("litert", "model.tflite")]
)
def test_an_export_has_a_network_and_its_settings(tmp_path, engine, name):
  file = tmp_path / name
  assert network_file.model_path(str(tmp_path), engine) == str(file)
  assert network_file.model_path(str(file), engine) == str(file)
  file.touch()
  # Other programs also write such files.
  assert networks.engine_of(str(tmp_path)) is None
  (tmp_path / "answers.json").touch()
  assert networks.engine_of(str(tmp_path)) == engine
  file.unlink()
  assert networks.engine_of(str(tmp_path)) is None


def test_inputs_of_other_networks_are_refused():
  network_file.check_inputs("x", ["input_ids", "attention_mask"])
  with pytest.raises(errors.InputError, match=says("x", "none", "input_ids")):
    network_file.check_inputs("x", [])
  with pytest.raises(errors.InputError, match=says("x", "pixels")):
    network_file.check_inputs("x", ["input_ids", "pixels"])


def test_a_network_gets_the_inputs_that_it_has():
  arrays = [[1]], [[2]], [[3]]
  fed = network_file.feed(["token_type_ids", "input_ids"], np.int32, *arrays)
  assert {name: values.tolist() for name, values in fed.items()} == {
    "input_ids": [[1]],
    "token_type_ids": [[3]],
  }
  assert {values.dtype for values in fed.values()} == {np.dtype(np.int32)}


def test_lengths_are_in_the_names_of_signatures():
  names = map(network_file.signature_name, (16, 128, 8))
  assert network_file.lengths_of(names) == [8, 16, 128]
  for wrong in ([], ["serving_default"], ["length_8", "length_x"]):
    with pytest.raises(ValueError):
      network_file.lengths_of(wrong)


def test_options_have_the_names_of_flags():
  values = {"head": "sparse", "top_k": 3, "sparse_pooling": "sum"}
  values["sparse_activation"] = "relu"
  options = networks.options_of(run_settings.Settings({**values, "x": 1}))
  assert options == networks.OutputOptions("sparse", 3, "sum", "relu")
