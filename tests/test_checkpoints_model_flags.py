"""Flags of a model are checked before TensorFlow is imported."""

import json

import pytest

import script_flags
import tiny_model
from common import command, errors, flags, program
from engines import networks

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def check(monkeypatch, tmp_path):
  """A function of fill_mask.py's flags: checks them, returns --model_dir."""
  monkeypatch.setattr(command, "_checks", [])
  monkeypatch.setattr(program, "installed_version", lambda package: "")
  monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
  monkeypatch.chdir(tmp_path)

  def run(*words):
    command._checks.clear()
    with script_flags.defined("fill_mask"):
      flags.FLAGS(["fill_mask.py", *words])
      (registered,) = [
        each
        for each in command._checks
        if each.__module__ == "checkpoints.model_flags"
      ]
      registered()
      return flags.FLAGS.model_dir

  return run


def write_model(folder, *names):
  folder.mkdir(parents=True)
  config = tiny_model.tiny().to_dict()
  (folder / "bert_config.json").write_text(json.dumps(config))
  for name in names:
    (folder / name).touch()
  return str(folder)


def test_a_missing_folder_is_named(check):
  with pytest.raises(errors.InputError, match="--model_dir=none: no such"):
    check("--model_dir=none")


def test_the_name_of_a_cached_model_becomes_its_folder(check, tmp_path):
  model = tmp_path / "cache" / "models--org--tiny"
  folder = write_model(model / "snapshots" / COMMIT, "vocab.txt")
  (model / "refs").mkdir()
  (model / "refs" / "main").write_text(COMMIT)
  assert check("--model_dir=org/tiny") == folder


@pytest.mark.parametrize("by_folder", [True, False])
def test_weights_that_need_pytorch_are_named(check, tmp_path, by_folder):
  folder = write_model(tmp_path / "model", "pytorch_model.bin", "vocab.txt")
  words = [f"--model_dir={folder}"]
  if not by_folder:
    other = write_model(tmp_path / "other", "vocab.txt")
    words = [f"--model_dir={other}", f"--init_checkpoint={folder}"]
  with pytest.raises(errors.InputError, match="model/pytorch_model.bin needs"):
    check(*words)


def test_other_weights_than_the_folders_are_checked_alone(check, tmp_path):
  folder = write_model(tmp_path / "model", "pytorch_model.bin", "vocab.txt")
  assert check(f"--model_dir={folder}", "--init_checkpoint=x.ckpt") == folder


def test_remote_files_and_exports_are_read_later(check, tmp_path, monkeypatch):
  assert check("--model_dir=gs://a/b") == "gs://a/b"
  check("--bert_config_file=a", "--vocab_file=b", "--init_checkpoint=gs://c")
  (tmp_path / "export").mkdir()
  with pytest.raises(errors.InputError, match="export"):
    check("--model_dir=export")
  monkeypatch.setattr(networks, "engine_of", lambda folder: "onnx")
  assert check("--model_dir=export") == "export"
