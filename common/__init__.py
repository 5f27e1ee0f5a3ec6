"""General utilities: errors, atomic files, JSON, flags, worker processes."""

import importlib.util
import sys

# Scripts import this package before any installed one. Without this check, they
# would fail with a traceback on an old Python or without those packages.
if sys.version_info < (3, 10) or importlib.util.find_spec("absl") is None:
  sys.exit(
    f"error: {sys.executable} is Python {sys.version.split()[0]}, for "
    "which the packages of this project are not installed (they need 3.10 to "
    "3.13): run python3.12 -m venv .venv, then .venv/bin/pip install -e ."
  )
