"""Errors, atomic files, JSON, flags, worker processes: nothing of BERT."""

import importlib.util
import sys

# Every script imports this package first, and its modules fail with a traceback
# on an old Python, or where nothing is installed.
if sys.version_info < (3, 10) or importlib.util.find_spec("absl") is None:
  sys.exit(
    f"error: {sys.executable} is Python {sys.version.split()[0]}, for "
    "which the packages of this project are not installed (they need 3.10 to "
    "3.13): run python3.12 -m venv .venv, then .venv/bin/pip install -e ."
  )
