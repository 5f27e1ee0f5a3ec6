"""Tests .ci/make_env.sh, which creates the environment of the Makefile."""

import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def test_a_link_to_another_environment_is_not_emptied(tmp_path):
  project, other = tmp_path / "project", tmp_path / "other"
  (project / ".ci").mkdir(parents=True)
  other.mkdir()
  for name in (".ci/make_env.sh", "pyproject.toml"):
    shutil.copy(ROOT / name, project / name)
  (other / "package.py").write_text("1\n")
  (project / ".venv").symlink_to(other)
  finished = subprocess.run(
    ["bash", project / ".ci/make_env.sh"], capture_output=True, text=True
  )
  assert finished.returncode == 1
  assert str(other) in finished.stderr and "link" in finished.stderr
  assert [path.name for path in other.iterdir()] == ["package.py"]
