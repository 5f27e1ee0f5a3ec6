"""Errors, atomic files, JSON, flags, worker processes: nothing of BERT."""

import importlib.util
import sys

# Every script imports this package first, and its modules fail with a traceback
# on an old Python, or where nothing is installed.
if sys.version_info < (3, 10):  # noqa: UP036
  sys.exit(
    f"error: this is Python {sys.version_info[0]}.{sys.version_info[1]}, and "
    "3.10 to 3.13 are needed: run python3.12 -m venv .venv, then "
    ".venv/bin/pip install -e ."
  )
if importlib.util.find_spec("absl") is None:
  sys.exit(
    "error: the packages that this project needs are not installed for "
    f"{sys.executable}: run pip install -e . in its folder"
  )
