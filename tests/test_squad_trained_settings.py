"""A model's folder says how its input was made; prediction uses that."""

import pytest

import tiny_model
from common import errors, file_io, run_settings
from squad import trained_settings

TRAINED = {
  "max_seq_length": 256, "doc_stride": 64, "max_query_length": 32,
  "max_answer_length": 12, "n_best_size": 7, "pad_to_max_length": False,
  "version_2_with_negative": True,
}
DEFAULTS = {
  "max_seq_length": 384, "doc_stride": 128, "max_query_length": 64,
  "max_answer_length": 30, "n_best_size": 20, "pad_to_max_length": False,
  "version_2_with_negative": False, "do_train": False, "evaluate_only": False,
  "output_dir": None, "bert_config_file": None,
}


def settings(given=(), **changes):
  return run_settings.Settings({**DEFAULTS, **changes}, given)


@pytest.fixture
def folder(tmp_path):
  """A model's folder; its training had the flags TRAINED."""
  config = trained_settings.with_settings(
    tiny_model.tiny(), settings(**TRAINED)
  )
  (tmp_path / "final_model").mkdir()
  file_io.write_text(
    str(tmp_path / "final_model" / "bert_config.json"), config.to_json_string()
  )
  return tmp_path / "final_model"


def used(restored):
  return {name: restored.get(name) for name in TRAINED}


def test_what_is_stored_is_used(folder, caplog):
  caplog.set_level("INFO", logger="absl")
  path = str(folder / "bert_config.json")
  restored = trained_settings.restore(settings(bert_config_file=path))
  assert used(restored) == TRAINED
  assert "--max_seq_length=256" in caplog.text and "WARN" not in caplog.text


def test_a_flag_that_is_given_counts_with_a_warning(folder, caplog):
  restored = trained_settings.restore(settings(
    {"max_seq_length", "doc_stride"}, max_seq_length=128, doc_stride=64,
    bert_config_file=str(folder / "bert_config.json"),
  ))
  assert used(restored) == {**TRAINED, "max_seq_length": 128}
  (warning,) = [r for r in caplog.records if r.levelname == "WARNING"]
  assert warning.getMessage().endswith(
    ": --max_seq_length=128 (trained with 256)"
  )


def test_the_model_of_the_output_folder_counts_first(folder, tmp_path):
  plain = tmp_path / "plain.json"
  plain.write_text(tiny_model.tiny().to_json_string())
  flags = {"bert_config_file": str(plain)}
  assert used(trained_settings.restore(settings(**flags))) == {
    name: DEFAULTS[name] for name in TRAINED
  }
  restored = settings(**flags, output_dir=str(folder.parent))
  assert used(trained_settings.restore(restored)) == TRAINED


def test_training_and_scoring_take_their_flags(folder):
  path = str(folder / "bert_config.json")
  for name in ("do_train", "evaluate_only"):
    given = settings(bert_config_file=path, **{name: True})
    assert trained_settings.restore(given) is given


def test_settings_of_another_kind_of_model_are_not_used(tmp_path):
  path = tmp_path / "bert_config.json"
  path.write_text('{"input_settings": {"max_seq_length": 9, "doc_stride": 0}}')
  given = settings(bert_config_file=str(path))
  assert trained_settings.restore(given) is given
  path.write_text('{"input_settings": 5}')
  with pytest.raises(errors.InputError, match="expected an object"):
    trained_settings.restore(given)
