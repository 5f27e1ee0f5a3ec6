"""The commands that make pre-training records: ours and the original's."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What a run on this text costs is the start: mostly importing TensorFlow.
TINY_TEXT = "one sentence\nand another one\n"

# The original as it is, with whichever TensorFlow there is as version 1.
_RUN_ORIGINAL = """
import runpy, sys
import tensorflow.compat.v1
sys.modules["tensorflow"] = tensorflow.compat.v1
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def ours(flags):
  """Returns the command of create_pretraining_data.py with flags."""
  return [sys.executable, ROOT / "create_pretraining_data.py", *flags]


def original(checkout, flags, python=sys.executable):
  """Returns the command of the original's script.

  Args:
    checkout: folder of google-research/bert.
    flags: list of str.
    python: an interpreter with TensorFlow, 1.15 or 2.
  """
  script = pathlib.Path(checkout) / "create_pretraining_data.py"
  return [python, "-c", _RUN_ORIGINAL, script, *flags]
