"""Checks the instructions of the Dockerfile without Docker."""

import ast
import fnmatch
import re
import subprocess
import sys

import pytest

import local_server
import script_flags
from common import flags
from test_layout import FOLDERS, ROOT, SOURCES

DOCKERFILE = ROOT / "Dockerfile"
# [[name, arguments]] of all instructions; continued lines are joined.
INSTRUCTIONS = [
  line.split(maxsplit=1)
  for line in re.sub(
    r"\\\n\s*|^#.*\n", "", DOCKERFILE.read_text(), flags=re.M
  ).splitlines()
  if line.strip()
]
# {name: default} of the build arguments.
ARGUMENTS = dict(
  value.split("=", 1) for name, value in INSTRUCTIONS if name == "ARG"
)
# [(name, value)] of every --build-arg that a reader is shown.
SHOWN = [
  name_and_value
  for path in [DOCKERFILE, ROOT / "README.md", *ROOT.glob("docs/*.md")]
  for name_and_value in re.findall(
    r"--build-arg (\w+)=(\S+)", path.read_text(encoding="utf-8")
  )
]


def project():
  """Returns the [project] table of pyproject.toml."""
  tomllib = pytest.importorskip("tomllib")  # Since Python 3.11.
  return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_shown_build_arguments_exist():
  assert (
    {name for name, _ in SHOWN} == set(ARGUMENTS) == {"BASE_IMAGE", "EXTRAS"}
  )
  for name, value in [*SHOWN, *ARGUMENTS.items()]:
    if name == "EXTRAS":
      assert set(value.split(",")) <= set(project()["optional-dependencies"])
    else:  # An image with a fixed version.
      assert re.fullmatch(r"[\w./-]+:\d+\.\d+[\w.-]*", value), value


def test_the_package_supports_python_of_the_base_images():
  bounds = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", project()["requires-python"])
  low, high = map(int, bounds.groups())
  # Ubuntu release: minor version of its python3.
  ubuntu_minors = {"22.04": 10, "24.04": 12}
  minors = [
    ubuntu_minors[value.rpartition("ubuntu")[2]]
    for name, value in SHOWN
    if name == "BASE_IMAGE"
  ]
  minors += [int(re.match(r"python:3\.(\d+)", ARGUMENTS["BASE_IMAGE"])[1])]
  assert len(minors) > 1 and all(low <= minor < high for minor in minors)


def test_an_ordinary_user_runs_a_command_of_the_package():
  last = dict(INSTRUCTIONS)
  assert last["USER"] == "1000"
  assert any(
    "useradd --create-home --uid=1000" in value
    for name, value in INSTRUCTIONS
    if name == "RUN"
  )
  assert ast.literal_eval(last["CMD"])[0] in project()["scripts"]


def test_the_whole_package_and_no_more_is_copied():
  copied = [value.split()[0] for name, value in INSTRUCTIONS if name == "COPY"]
  # The layer of the dependencies changes only with pyproject.toml.
  assert copied == ["pyproject.toml", "."]
  ignored = [
    line.removeprefix("**/")
    for line in (ROOT / ".dockerignore").read_text().splitlines()
    if line and not line.startswith("#")
  ]

  def is_left_out(path):
    parts = path.relative_to(ROOT).parts
    return any(fnmatch.filter(parts, pattern) for pattern in ignored)

  needed = [
    *SOURCES,
    *(path for name in FOLDERS for path in ROOT.glob(f"{name}/*.csv")),
    ROOT / "setup.py",
    ROOT / "pyproject.toml",
  ]
  assert not any(map(is_left_out, needed))
  assert FOLDERS and not {"tests", "docs", "benchmarks"} & set(FOLDERS)
  for name in (".git", ".venv", "tests", "docs", "out"):
    assert is_left_out(ROOT / name), name


def test_the_health_check_uses_the_port_of_the_server():
  stages = {name: value for name, value in INSTRUCTIONS if name != "ARG"}
  with script_flags.defined("serve"):
    port = str(flags.FLAGS["port"].default)
    command, *passed = ast.literal_eval(stages["ENTRYPOINT"])
    names = [flag.partition("=")[0].removeprefix("--") for flag in passed]
    assert set(names) <= set(flags.FLAGS)
  assert command in project()["scripts"] and stages["EXPOSE"] == port
  assert f"-p 127.0.0.1:{port}:{port} " in DOCKERFILE.read_text()
  _, code = stages["HEALTHCHECK"].split("CMD ")
  code = ast.literal_eval(code)[-1]
  with local_server.serve({"/healthz": b""}) as server:
    code = code.replace(port, server.url.rpartition(":")[2])
    server.statuses = [503]
    # The first check gets status 503, the second 200.
    assert subprocess.call([sys.executable, "-c", code]) == 1
    assert subprocess.call([sys.executable, "-c", code]) == 0
