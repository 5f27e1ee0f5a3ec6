"""What a script is called: run_squad.py, or bert-run-squad of the wheel."""

import importlib.metadata
import os
import pathlib
import platform
import re
import sys

_PREFIX = "bert-"
_ROOT = pathlib.Path(__file__).parents[1]


def name() -> str:
  """Returns what the user called."""
  return os.path.basename(sys.argv[0])


def module_name(command: str) -> str:
  """"/bin/bert-run-squad" -> "run_squad" """
  return pathlib.Path(command).stem.removeprefix(_PREFIX).replace("-", "_")


def hint(text: str) -> str:
  """Returns a text where scripts are named as the user calls them."""
  if not name().startswith(_PREFIX):
    return text
  return re.sub(r"(?:\bpython )?\b(\w+)\.py\b", _command, text)


def _command(match):
  path = _ROOT / f"{match[1]}.py"
  if not path.is_file() or "command.run(main" not in path.read_text("utf-8"):
    return match[0]
  return _PREFIX + match[1].replace("_", "-")


def version() -> str:
  """Returns the line of --version."""
  try:
    own = importlib.metadata.version("bert-tf2")
  except importlib.metadata.PackageNotFoundError:
    text = (_ROOT / "pyproject.toml").read_text(encoding="utf-8")
    [own] = re.findall(r'^version = "(.*)"', text, re.M)
  try:
    tensorflow = importlib.metadata.version("tensorflow")
  except importlib.metadata.PackageNotFoundError:
    tensorflow = "not installed"
  return (
    f"{name()} (bert-tf2 {own}, TensorFlow {tensorflow}, Python "
    f"{platform.python_version()})"
  )
