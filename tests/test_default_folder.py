"""Without --output_dir, a command writes to a folder that nothing else uses."""

import re

import pytest

import script_flags
import script_runner
import serving_models
from common import errors, flags, program
from message_facts import says
from training import common_flags


@pytest.fixture
def chosen(tmp_path, monkeypatch):
  """A function of flags: the folder that is chosen for them."""
  monkeypatch.chdir(tmp_path)
  monkeypatch.delenv("TF_CONFIG", raising=False)
  monkeypatch.setattr("common.console.when_kept", [])

  def choose(*arguments):
    with script_flags.defined("run_ner"):
      flags.FLAGS(["run_ner.py", "--model_dir=m", *arguments])
      common_flags._choose_output_dir()
      folder = flags.FLAGS.output_dir
      assert flags.read_settings(check=False).output_dir == folder
      if folder and folder.startswith("bert_output"):
        (tmp_path / folder).mkdir(exist_ok=True)
        flags.write_file(folder)
      return folder

  return choose


def test_each_command_has_its_folder_and_finds_it_again(chosen, tmp_path):
  train = ["--do_train", "--train_file=a"]
  assert chosen(*train) == "bert_output"
  assert chosen("--do_predict") == "bert_output_2"
  (tmp_path / "bert_output_3").write_text("a file")
  assert chosen(*train, "--seed=3") == "bert_output_4"
  assert chosen(*train) == "bert_output"
  # The default does not count as a flag that the user gave.
  text = (tmp_path / "bert_output" / "flags.txt").read_text()
  assert text.splitlines()[1:] == [
    "--do_train",
    "--model_dir=m",
    "--train_file=a",
  ]
  assert text.startswith(f"# Repeats the run: {program.name()} --flagfile")
  assert chosen("--flagfile=bert_output/flags.txt") == "bert_output"


def test_a_foreign_folder_is_never_used(chosen, tmp_path):
  (tmp_path / "bert_output").mkdir()
  (tmp_path / "bert_output" / "thesis.txt").write_text("mine")
  assert chosen("--do_eval") == "bert_output_2"
  assert (tmp_path / "bert_output" / "thesis.txt").read_text() == "mine"


def test_nothing_is_chosen_where_it_is_named_or_not_needed(chosen):
  assert chosen("--do_train", "--output_dir=x") == "x"
  assert chosen() is None


def test_workers_must_name_their_folder(chosen, monkeypatch):
  monkeypatch.setenv("TF_CONFIG", "{}")
  with pytest.raises(errors.InputError, match="pass --output_dir, the same"):
    chosen("--do_train")


def test_a_run_names_its_folder(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  model = serving_models.trained(
    tmp_path / "model",
    serving_models.tagger,
    stored={"max_seq_length": 16},
    id2label=serving_models.label_names("O", "B-X", "I-X"),
  )
  (tmp_path / "new.txt").write_text("the street\n")
  flags = {"model_dir": model, "predict_file": "new.txt", "do_predict": True}
  for _ in range(2):
    done = script_runner.succeed("run_ner.py", file_format="text", **flags)
    assert re.search(says("--output_dir", "bert_output", "not"), done.err)
  assert (tmp_path / "bert_output" / "test_predictions.conll").exists()
  assert not (tmp_path / "bert_output_2").exists()
