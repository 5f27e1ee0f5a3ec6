"""TensorFlow is imported without Keras, which can be imported afterwards."""

import importlib.metadata
import os
import subprocess
import sys

import pytest

import test_layout
from common import program

# Stand-ins for the real packages, whose import takes seconds.
TENSORFLOW = f"""
__version__ = "{importlib.metadata.version("tensorflow")}"
try:
  import keras
  HAS_KERAS = True
except ImportError:
  HAS_KERAS = False
"""
FILES = {
  "tensorflow/__init__.py": TENSORFLOW,
  "keras/__init__.py": "",
  "keras/_tf_keras/keras/__init__.py": "name = 'keras'",
}


def refusal(folder, **versions):
  """Returns the message for package versions; `files`: tf.__version__."""
  files = {
    f"{name}-{version}.dist-info/METADATA": (
      f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    )
    for name, version in versions.items()
    if name != "files"
  }
  [message] = run(
    folder,
    [
      "from absl import logging; logging.warning = lambda _, text: print(text)",
      "from common import errors",
      "try: from common import lean_tensorflow; "
      "lean_tensorflow.import_tensorflow_text()",
      "except errors.InputError as error: print('refused:', error)",
    ],
    {
      **files,
      "tensorflow_text/__init__.py": "",
      "tensorflow/__init__.py": versions["files"]
      and f"__version__ = {versions['files']!r}",
    },
  )
  return message


PIP = 'run pip install "tensorflow>=2.20,<2.22"'


@pytest.mark.parametrize(
  "versions, text",
  [
    (
      {"tensorflow": "2.15.1", "files": "2.15.1"},
      "refused: TensorFlow 2.15 is installed, but 2.20 or 2.21 is needed: "
      + PIP,
    ),
    # A newer version only causes a warning.
    (
      {"tensorflow": "2.22.0", "files": "2.22.0.dev1"},
      "TensorFlow 2.22 is installed, but 2.20 or 2.21 is needed: " + PIP,
    ),
    (
      {"tensorflow": "2.21.0", "files": "2.20.0"},
      "refused: another package replaced or removed files of TensorFlow 2.21: "
      "run "
      'pip install --force-reinstall --no-deps "tensorflow>=2.20,<2.22"',
    ),
    (
      {"tensorflow": "2.20.0", "files": ""},
      "refused: another package replaced or removed files of TensorFlow 2.20: "
      "run "
      'pip install --force-reinstall --no-deps "tensorflow>=2.20,<2.22"',
    ),
  ],
)
def test_another_tensorflow_is_named_with_the_remedy(tmp_path, versions, text):
  assert refusal(tmp_path, **versions) == text


def test_the_range_is_the_one_that_pip_installs():
  pins = (test_layout.ROOT / "pyproject.toml").read_text()
  assert f'"{program.TENSORFLOW}"' in pins
  assert 'requires-python = ">=3.10,<3.14"' in pins


def run(folder, lines, files=FILES):
  """Runs Python with `files` on its path; returns the lines of its output."""
  for name, text in files.items():
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
  path = os.pathsep.join([str(folder), str(test_layout.ROOT)])
  finished = subprocess.run(
    [sys.executable, "-c", "\n".join(lines)],
    capture_output=True,
    text=True,
    env={**os.environ, "PYTHONPATH": path},
  )
  assert finished.returncode == 0, finished.stderr
  return finished.stdout.splitlines()


@pytest.mark.parametrize(
  "first, has_keras",
  [("", False), ("import tensorflow", True), ("import keras", True)],
)
def test_tensorflow_comes_without_keras(tmp_path, first, has_keras):
  lines = [
    first,
    "from common import lean_tensorflow",
    "import tensorflow, keras",
    f"assert tensorflow.HAS_KERAS is {has_keras}",
  ]
  if not first:
    lines.append("from tensorflow.keras import name; assert name == 'keras'")
  assert run(tmp_path, lines) == []


def test_keras_need_not_be_installed(tmp_path):
  lines = [
    "import importlib.util",
    "find = importlib.util.find_spec",
    "importlib.util.find_spec = lambda n: None if n == 'keras' else find(n)",
    "from common import lean_tensorflow",
    "import tensorflow",
    "assert not tensorflow.HAS_KERAS",
  ]
  assert run(tmp_path, lines) == []
