"""What the experiments of benchmarks/ share: short tasks, runs, scores."""

import argparse
import pathlib
import sys

import pytest

from common import errors

# Benchmarks are run from their folder and import each other.
sys.path.append(str(pathlib.Path(__file__).parents[1] / "benchmarks"))

import experiments
import finetuning_scores
import measured_runs


@pytest.fixture
def task(tmp_path):
  folder = tmp_path / "task"
  folder.mkdir()
  for name in ("train", "dev_matched", "dev_mismatched"):
    (folder / f"{name}.tsv").write_text("names\none\ntwo\nthree\n")
  return folder


@pytest.mark.parametrize(
  "name, rows", [("mnli", "names\none\n"), ("cola", "names\n")]
)
def test_a_short_task_has_the_first_rows_and_all_to_score(
  task, tmp_path, name, rows
):
  made = tmp_path / "made"
  arguments = argparse.Namespace(
    task=name, data_dir=task, max_train_examples=1
  )
  assert finetuning_scores.shortened(arguments, made) == made
  assert (made / "train.tsv").read_text() == rows
  for table in ("dev_matched.tsv", "dev_mismatched.tsv"):  # Whole.
    assert (made / table).read_text() == (task / table).read_text()


def test_all_rows_need_no_copy(task, tmp_path):
  assert experiments.first_rows(task, None, tmp_path / "made") == task
  assert not (tmp_path / "made").exists()


def test_every_seed_runs_once_and_is_scored(monkeypatch, tmp_path):
  output, commands = tmp_path / "output", []

  def run(command):
    commands.append(command)
    for seed, score in ((1, 0.5), (2, 0.75)):
      folder = output / f"seed_{seed}"
      folder.mkdir(parents=True)
      (folder / "eval_results.txt").write_text(f"eval_accuracy = {score}\n")
    (output / "seeds_results.txt").touch()

  monkeypatch.setattr(measured_runs, "run", run)
  arguments = argparse.Namespace(
    seeds="1,2", num_train_epochs=1, dtype="float32"
  )
  for _ in range(2):
    experiments.fine_tune(arguments, "MRPC", tmp_path, output, "--a=1")
  assert len(commands) == 1
  assert {"--a=1", "--seeds=1,2", f"--output_dir={output}"} < set(commands[0])
  scores = experiments.scores(output, "eval_accuracy")
  assert scores == [0.5, 0.75]
  assert experiments.spread(scores) == "62.5 ± 17.7"


def test_a_script_that_fails_is_named(tmp_path):
  with pytest.raises(errors.InputError, match="no_such_script.py failed"):
    experiments.run("no_such_script.py", done=tmp_path / "never")


def test_text_goes_between_the_markers_of_a_page(tmp_path):
  page = tmp_path / "page.md"
  page.write_text("<!-- gain: begin -->\nold\n<!-- gain: end -->\n")
  experiments.write_into(page, "gain", "new")
  experiments.write_into(None, "gain", "nowhere")
  assert "new" in page.read_text() and "old" not in page.read_text()


def test_a_row_is_a_name_of_a_file():
  assert experiments.slug("No NSP, static masks") == "no_nsp_static_masks"
