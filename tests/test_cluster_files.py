"""The files of docs/cluster are parsed, and their flags exist."""

import ast
import re
import subprocess
import sys

import pytest

from script_runner import ROOT
from test_layout import VERBS, flags_of

FOLDER = ROOT / "docs" / "cluster"
FILES = sorted(path.name for path in FOLDER.iterdir())
SCRIPTS = {f"bert-{verb.replace('_', '-')}": verb for verb in VERBS}


def commands(text):
  """Yields (script, names of its flags) of every command in a file."""
  pattern = r"bert-[a-z]+-[a-z]+\b"
  names = [name for name in re.findall(pattern, text) if name in SCRIPTS]
  assert len(set(names)) == 1, names
  script = SCRIPTS[names[0]]
  listed = re.findall(r"(?<![\w-])--([a-z_]+)(?==|\s|$)", text, re.M)
  return script, [name for name in listed if "_" in name or "do" in name]


def parse(path):
  """Parses a file; raises an exception for a syntax error."""
  if path.suffix == ".yaml":
    yaml = pytest.importorskip("yaml")
    return list(yaml.safe_load_all(path.read_text()))
  if path.suffix == ".py":
    return ast.parse(path.read_text())
  return subprocess.run(["bash", "-n", path], check=True)


def test_the_page_names_every_file():
  page = (ROOT / "docs" / "cluster.md").read_text()
  assert set(re.findall(r"\(cluster/([\w.]+)\)", page)) == set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_a_file_has_no_syntax_error(name):
  assert parse(FOLDER / name)


@pytest.mark.parametrize("name", FILES)
def test_a_file_uses_flags_that_exist(name):
  text = (FOLDER / name).read_text()
  if name == "sagemaker_job.py":
    text += "".join(
      f" --{flag} " for flag in re.findall(r'^  "([a-z_]+)":', text, re.M)
    )
  script, flags = commands(text)
  assert len(flags) >= 6
  assert set(flags) <= flags_of(script)


@pytest.mark.parametrize(
  "name, path, expected",
  [
    ("tfjob.yaml", ["spec", "tfReplicaSpecs", "Worker", "replicas"], 2),
    ("job.yaml", ["spec", "template", "spec", "restartPolicy"], "Never"),
    ("vertex.yaml", ["scheduling", "restartJobOnWorkerRestart"], True),
  ],
)
def test_a_lost_machine_restarts_the_run(name, path, expected):
  [value] = parse(FOLDER / name)
  for key in path:
    value = value[key]
  assert value == expected


def test_slurm_queues_a_stopped_run_again():
  """The job's script, with imitated srun and scontrol."""
  script = f"""
    srun() {{ return $CODE; }}
    scontrol() {{ echo "scontrol $*"; }}
    . {FOLDER / "pretraining.sbatch"}"""
  printed = {}
  for code in (0, 1, 75):
    finished = subprocess.run(
      ["bash", "-c", script],
      env={"CODE": str(code), "SLURM_JOB_ID": "7"},
      capture_output=True,
      text=True,
    )
    assert finished.returncode == code
    printed[code] = finished.stdout
  assert printed == {0: "", 1: "", 75: "scontrol requeue 7\n"}


class Tracker:
  """Stands in for wandb, trackio and mlflow; keeps what it is given."""

  def __init__(self):
    self.logged = []

  def init(self, *, project):
    assert project
    return self

  def start_run(self):
    pass

  def log(self, data, step=None):
    self.logged.append((step, data))

  log_metrics = log


@pytest.mark.parametrize("name", ["wandb", "trackio", "mlflow"])
def test_trackers_get_the_numbers_of_every_step(name, tmp_path, monkeypatch):
  page = (ROOT / "docs" / "cluster.md").read_text()
  section = page.partition("## Trackers")[2].partition("\n## ")[0]
  assert name in section.lower()
  lines = re.findall(r"^    (.*)$", section, re.M)
  if name != "wandb":
    # A comment has MLflow's form of its line; trackio has wandb's calls.
    lines = [_line_for(name, line) for line in lines]
  folder = tmp_path / "pretraining_output"
  folder.mkdir()
  (folder / "train_log.jsonl").write_text(
    '{"step": 10, "loss": 2.5, "time": "2026-11-29"}\n{"eval_loss": 2.25}\n'
  )
  monkeypatch.chdir(tmp_path)
  tracker = Tracker()
  monkeypatch.setitem(sys.modules, name, tracker)
  exec("\n".join(lines), {})
  assert tracker.logged == [(10, {"loss": 2.5}), (None, {"eval_loss": 2.25})]


def _line_for(name, line):
  if name == "trackio":
    return line.replace("json, wandb", "json, trackio as wandb")
  code, _, other = line.partition("# ")
  if not other:
    return line.replace("json, wandb", "json, mlflow")
  if "import" in code:
    return "import json, mlflow"
  return code[: len(code) - len(code.lstrip())] + other
