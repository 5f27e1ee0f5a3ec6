"""Runs fuzzed_files.py: damaged files of every format, with every reader."""

import os
import subprocess
import sys

import pytest

import script_runner

TESTS = script_runner.ROOT / "tests"
# The nightly job reads 2,000 files.
FILES = int(os.environ.get("FUZZED_FILES", "300"))
SEED = 20


@pytest.mark.slow
def test_a_damaged_file_is_read_or_refused(tmp_path):
  command = [sys.executable, TESTS / "fuzzed_files.py", str(SEED), str(FILES)]
  finished = subprocess.run(
    [*command, tmp_path / "files"],
    env={
      **os.environ,
      "PYTHONPATH": os.pathsep.join(map(str, (script_runner.ROOT, TESTS))),
      "CUDA_VISIBLE_DEVICES": "-1",
      "TF_CPP_MIN_LOG_LEVEL": "3",
    },
    capture_output=True,
    text=True,
  )
  last = (tmp_path / "files" / "last").read_text()
  assert finished.returncode == 0, (
    last,
    finished.stdout,
    finished.stderr[-900:],
  )
  print(finished.stdout)
