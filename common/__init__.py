"""General utilities: errors, atomic files, JSON, flags, worker processes."""

import importlib.util
import sys

# Every script imports this package first. Without this check, its modules would
# fail with a traceback on an old Python or without the project's packages.
if sys.version_info < (3, 10) or importlib.util.find_spec("absl") is None:
  sys.exit(
    f"error: {sys.executable} is Python {sys.version.split()[0]}, for "
    "which the packages of this project are not installed (they need 3.10 to "
    "3.13): run python3.12 -m venv .venv, then .venv/bin/pip install -e ."
  )
