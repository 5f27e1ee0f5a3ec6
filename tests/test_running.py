"""A run needs none of the files in the folders of running/."""

import shutil
import subprocess
import sys

import pytest

import script_runner
import serving_models
import test_layout

FILES = [
  path
  for path in test_layout.EXTENSIONS
  if test_layout.folder_of(path) == "running"
]
FLAGS = ("search", "seeds", "max_restarts")
# Nothing names this file.
TRACKER = '''"""Prints what a run records."""

FILE = "nothing"


class Tracker:
  def __init__(self, folder, first_step):
    print("opened at", first_step)

  def write(self, step, values):
    print(step, "loss" in values)

  def close(self):
    print("closed")
'''


@pytest.fixture(scope="module")
def project(tmp_path_factory):
  """A copy of the project with a new tracker in place of all files."""
  copy = tmp_path_factory.mktemp("project")
  for path in test_layout.SOURCES:
    if path not in FILES:
      target = copy / path.relative_to(test_layout.ROOT)
      target.parent.mkdir(parents=True, exist_ok=True)
      shutil.copy(path, target)
  (copy / "running" / "trackers" / "printed.py").write_text(TRACKER)
  return copy


def classify(project, *words):
  return subprocess.run(
    [sys.executable, str(project / "run_classifier.py"), *words],
    capture_output=True,
    text=True,
    cwd=project,
  )


def test_without_their_files_the_flags_are_gone(project):
  given, missing = (
    classify(folder, "--help").stdout for folder in (test_layout.ROOT, project)
  )
  for flag in FLAGS:
    assert f" --{flag}: " in given and f"--{flag}" not in missing
  # Other flags, and their rules, are the same.
  rest = given.replace(" Not with --seeds.", "")
  for flag in missing.split("\n  --")[1:]:
    assert " ".join(flag.split()).split(" Try ")[0] in " ".join(rest.split())


@pytest.mark.slow
def test_a_model_is_trained_without_the_files(project, tmp_path):
  table = tmp_path / "train.csv"
  table.write_text("text,label\nhe was,a\nthe king,b\n")
  out = tmp_path / "out"
  done = classify(
    project,
    *script_runner.command_line(
      {
        "do_train": True,
        "do_eval": True,
        "train_file": table,
        "eval_file": table,
        "model_dir": serving_models.FOLDER,
        "max_seq_length": 8,
        "train_batch_size": 2,
        "num_train_epochs": 1,
        "output_dir": out,
      }
    ),
  )
  assert done.returncode == 0, done.stderr
  assert done.stdout.split("\n")[:3] == ["opened at 0", "1 True", "closed"]
  assert (out / "final_model" / "bert_config.json").exists()
  assert (out / "eval_results.txt").exists()
  written = {path.name.partition(".")[0] for path in out.rglob("*")}
  assert not written & {"events", "report", "README", "train_log"}
