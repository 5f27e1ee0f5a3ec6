"""A script's version and name: run_squad.py, or bert-run-squad in the wheel."""

import os
import pathlib
import platform
import re
import sys

# As in pyproject.toml.
TENSORFLOW = "tensorflow>=2.20,<2.22"
_PREFIX = "bert-"
_ROOT = pathlib.Path(__file__).parents[1]


def name() -> str:
  """Returns the command's name as the user typed it."""
  return os.path.basename(sys.argv[0])


def module_name(command: str) -> str:
  """Returns "run_squad" for "/bin/bert-run-squad"."""
  return pathlib.Path(command).stem.removeprefix(_PREFIX).replace("-", "_")


def hint(text: str) -> str:
  """Replaces script names with the wheel's commands if such a command runs."""
  if not name().startswith(_PREFIX):
    return text
  return re.sub(r"(?:\bpython )?\b(\w+)\.py\b", _command, text)


def _command(match: re.Match) -> str:
  path = _ROOT / f"{match[1]}.py"
  if not path.is_file() or "command.run(main" not in path.read_text("utf-8"):
    return match[0]
  return _PREFIX + match[1].replace("_", "-")


def package_version() -> str:
  """Returns the project's version, from the clone or else from the wheel."""
  described = _ROOT / "pyproject.toml"
  if not described.exists():
    return installed_version("bert-tf2")
  text = described.read_text(encoding="utf-8")
  return re.findall(r'^version = "(.*)"', text, re.M)[0]


def installed_version(package: str) -> str:
  """Returns the version of an installed package, or ""."""
  # Imported here, because it takes 6 % of an export's start.
  import importlib.metadata

  try:
    return importlib.metadata.version(package)
  except importlib.metadata.PackageNotFoundError:
    return ""


def version() -> str:
  """Returns the line that --version prints."""
  tensorflow = installed_version("tensorflow") or "not installed"
  return (
    f"{name()} (bert-tf2 {package_version()}, TensorFlow {tensorflow}, Python "
    f"{platform.python_version()})"
  )
