"""A trained model is written as a folder from which a run can start."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf

import modeling
import tiny_model
from checkpoints import model_files, model_folder, model_writer, weight_files
from common import errors, run_settings
from message_facts import says
from tiny_model import tiny
from training import run_folder
from variants import vocabulary_files


def test_a_run_can_start_from_the_folder(tmp_path):
  config = tiny()
  model = modeling.BertModel(config, seed=1)
  vocab = tmp_path / "words.txt"
  vocab.write_text("[PAD]\ncafé\n", encoding="utf-8")
  folder = tmp_path / "final_model"
  for _ in range(2):  # The second call overwrites the first call's files.
    model_writer.write(str(folder), model.variables, config, str(vocab))
  assert sorted(path.name for path in folder.iterdir()) == [
    "bert_config.json",
    "bert_model.ckpt.data-00000-of-00001",
    "bert_model.ckpt.index",
    "vocab.txt",
  ]
  restored = modeling.BertModel(
    modeling.BertConfig.from_json_file(str(folder / "bert_config.json")), seed=2
  )
  report = weight_files.load(restored.variables, str(folder))
  assert not report.missing and not report.unused
  for expected, value in zip(model.variables, restored.variables):
    np.testing.assert_array_equal(value, expected)
  assert (folder / "vocab.txt").read_bytes() == vocab.read_bytes()


def test_the_step_is_stored_and_read_back(tmp_path):
  weights = [tf.Variable(1.0, name="x")]
  for step, expected in ((None, 0), (343, 343)):
    model_writer.write(str(tmp_path), weights, tiny(), step=step)
    start = run_folder.starting_point("none", str(tmp_path))
    assert start.step == expected
  assert not weight_files.load(weights, str(tmp_path)).unused
  assert not (tmp_path / "vocab.txt").exists()


def test_do_lower_case_is_stored_beside_the_vocabulary(tmp_path):
  vocab = tmp_path / "vocab.txt"

  def read(path):
    return vocabulary_files.VocabularyFiles(path).do_lower_case

  assert read(str(vocab)) is None
  vocab.write_text("a\n")
  for is_lower in (True, False):
    model_writer.write(
      str(tmp_path / "m"),
      [tf.Variable(1.0, name="x")],
      tiny(),
      str(vocab),
      do_lower_case=is_lower,
    )
    assert read(str(tmp_path / "m/vocab.txt")) is is_lower
  assert json.loads((tmp_path / "m/tokenizer_config.json").read_text()) == {
    "tokenizer_class": "BertTokenizer",
    "do_lower_case": False,
    "model_max_length": 12,
  }
  (tmp_path / "m/tokenizer_config.json").write_text('{"do_lower_case": "?"}')
  with pytest.raises(errors.InputError, match="m/.*: do_lower_case is '[?]'"):
    read(str(tmp_path / "m/vocab.txt"))


def test_the_configuration_stores_input_settings():
  trained = model_folder.with_input_settings(tiny(), {"max_seq_length": 64})
  values = trained.to_dict()
  assert model_folder.input_settings(values) == {"max_seq_length": 64}
  plain = model_folder.without_input_settings(trained)
  assert plain.to_dict() == tiny().to_dict()
  assert model_folder.input_settings(plain.to_dict()) == {}
  # The former name of the entry, and a key that only version 0.1 had.
  old = {"classifier_input": {"max_windows": 3, "window_pooling": "mean"}}
  assert model_folder.input_settings(old) == {"max_windows": 3}
  for values, message in (
    ({"input_settings": 7}, "input_settings is 7; expected an object"),
    ({"classifier_input": 7}, "is 7; expected an object"),
    ({"input_settings": {"window_pooling": "max"}}, "only version 0.1 has"),
  ):
    with pytest.raises(errors.InputError, match=message):
      model_folder.input_settings(values)


@pytest.mark.parametrize(
  "act, name", [("gelu_new", "bert_config.json"), ("gelu", "config.json")]
)
def test_the_configuration_of_the_weights_is_used(tmp_path, caplog, act, name):
  for file, values in (
    ("bert_config.json", {"hidden_act": "gelu", "initializer_range": 0.1}),
    ("config.json", {"hidden_act": act, "model_type": "bert"}),
    ("model.safetensors", {}),
  ):
    (tmp_path / file).write_text(json.dumps(values))
  files = model_files.ModelFiles(str(tmp_path)).paths
  assert files["bert_config_file"] == str(tmp_path / name)
  assert bool(re.search(says("hidden_act", "differs"), caplog.text)) == (
    name == "config.json"
  )
  (tmp_path / "model.safetensors").rename(tmp_path / "bert_model.ckpt.index")
  files = model_files.ModelFiles(str(tmp_path)).paths
  assert files["bert_config_file"] == str(tmp_path / "bert_config.json")


@pytest.mark.parametrize(
  "passed, positions, expected",
  [((), 64, 64), ((), 512, 128), (("max_seq_length",), 64, 128)],
)
def test_the_length_fits_the_model(tmp_path, passed, positions, expected):
  path = tmp_path / "bert_config.json"
  path.write_text(json.dumps({"max_position_embeddings": positions}))
  values = {"max_seq_length": 128, "bert_config_file": str(path)}
  settings = run_settings.Settings(values, passed)
  assert tiny_model.completed(settings).max_seq_length == expected
