"""Prediction uses the input settings that a model's folder stores."""

import pytest

import tiny_model
from checkpoints import model_folder
from common import file_io, run_settings
from squad import job

TRAINED = {
  "max_seq_length": 256,
  "doc_stride": 64,
  "max_query_length": 32,
  "max_answer_length": 12,
  "n_best_size": 7,
  "pad_to_max_length": False,
  "version_2_with_negative": True,
}
DEFAULTS = {
  "max_seq_length": 384,
  "doc_stride": 128,
  "max_query_length": 64,
  "max_answer_length": 30,
  "n_best_size": 20,
  "pad_to_max_length": False,
  "version_2_with_negative": False,
  "output_dir": None,
}


def restored(path, passed=(), **changes):
  """Returns the settings restored from a model's configuration file."""
  settings = tiny_model.completed(
    run_settings.Settings(
      {**DEFAULTS, "bert_config_file": str(path), **changes}, passed
    ),
    job.INPUT_FLAGS,
  )
  return {name: settings.get(name) for name in TRAINED}


@pytest.fixture
def path(tmp_path):
  """The configuration of a model whose training had the flags TRAINED."""
  config = model_folder.with_input_settings(tiny_model.tiny(), TRAINED)
  path = tmp_path / "final_model" / "bert_config.json"
  file_io.write_text(str(path), config.to_json_string())
  return path


def test_stored_settings_are_used_but_a_passed_flag_has_priority(path, caplog):
  assert restored(path) == TRAINED and not caplog.records
  passed = {"max_seq_length": 128, "doc_stride": 64}
  assert restored(path, passed, **passed) == {**TRAINED, "max_seq_length": 128}
  assert caplog.messages == [
    "the input differs from training: --max_seq_length=128 (trained with 256)"
  ]


def test_the_model_of_the_output_folder_has_priority(path, tmp_path):
  plain = tmp_path / "plain.json"
  plain.write_text(tiny_model.tiny().to_json_string())
  # The default length is capped at the model's positions.
  defaults = {name: DEFAULTS[name] for name in TRAINED}
  assert restored(plain) == {**defaults, "max_seq_length": 12}
  assert restored(plain, output_dir=str(tmp_path)) == TRAINED
