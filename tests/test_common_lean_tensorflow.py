"""TensorFlow is imported without Keras, and Keras is there afterwards."""

import os
import subprocess
import sys

import pytest

import test_layout

# In place of the real ones, whose import takes seconds.
TENSORFLOW = """
try:
  import keras
  HAS_KERAS = True
except ImportError:
  HAS_KERAS = False
"""
FILES = {
  "tensorflow/__init__.py": TENSORFLOW, "keras/__init__.py": "",
  "keras/_tf_keras/keras/__init__.py": "name = 'keras'",
}


def run(folder, lines, files=FILES):
  """Runs Python with `files` in place of the real ones; returns its output."""
  for name, text in files.items():
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
  path = os.pathsep.join([str(folder), str(test_layout.ROOT)])
  done = subprocess.run(
    [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True,
    env={**os.environ, "PYTHONPATH": path},
  )
  assert done.returncode == 0, done.stderr
  return done.stdout.splitlines()


@pytest.mark.parametrize("first, has_keras", [
  ("", False), ("import tensorflow", True), ("import keras", True)
])
def test_tensorflow_comes_without_keras(tmp_path, first, has_keras):
  lines = [
    first, "from common import lean_tensorflow", "import tensorflow, keras",
    f"assert tensorflow.HAS_KERAS is {has_keras}",
  ]
  if not first:
    lines.append("from tensorflow.keras import name; assert name == 'keras'")
  assert run(tmp_path, lines) == []
