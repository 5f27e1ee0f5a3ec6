"""Tests the wheel: its modules import each other from the package bert_tf2."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import pytest

import test_dockerfile
import test_layout
from script_runner import ROOT


def python(*arguments, folder, status=0, **environment):
  """Runs Python in a folder; returns what it printed, errors included."""
  done = subprocess.run(
    [sys.executable, *map(str, arguments)],
    cwd=folder,
    env={**os.environ, **environment},
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
  )
  assert done.returncode == status, done.stdout
  return done.stdout


def build_modules(folder, sources):
  """Runs the build on {path: source}; returns the built {path: source}."""
  for name in ("setup.py", "bert_tf2.py", "pyproject.toml", "README.md"):
    shutil.copy(ROOT / name, folder)
  for name, source in sources.items():
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(source)
  python("setup.py", "-q", "build_py", folder=folder)
  package = folder / "build" / "lib" / "bert_tf2"
  return {
    str(path.relative_to(package)): path.read_text()
    for path in package.rglob("*.py")
  }


def test_the_build_rewrites_the_projects_imports_and_nothing_else(tmp_path):
  user = "\n".join(
    [
      "import os",
      "import words",
      "from tools import saw, axe",
      "",
      "def f():",
      "  import words",
      "  from tools import saw",
      "",
      "import words.parts",
      "# import words",
      "from words import x",
      "from toolshed import rake",
      "",
    ]
  )
  built = build_modules(
    tmp_path,
    {
      "words.py": "x = 1\n",
      "user.py": user,
      "tools/__init__.py": '"""T."""\n',
      "tools/saw.py": "from tools import axe\n",
      "tools/axe.py": "",
    },
  )
  assert built["words.py"] == "x = 1\n"
  assert built["user.py"].split("\n") == [
    "import os",
    "from bert_tf2 import words",
    "from bert_tf2.tools import saw, axe",
    "",
    "def f():",
    "  from bert_tf2 import words",
    "  from bert_tf2.tools import saw",
    "",
    "import words.parts",
    "# import words",
    "from words import x",
    "from toolshed import rake",
    "",
  ]
  assert built["tools/saw.py"] == "from bert_tf2.tools import axe\n"
  assert sorted(built) == [
    "__init__.py",
    "tools/__init__.py",
    "tools/axe.py",
    "tools/saw.py",
    "user.py",
    "words.py",
  ]


def test_a_second_build_drops_removed_modules(tmp_path):
  build_modules(tmp_path, {"old.py": "x = 1\n", "user.py": "import old\n"})
  (tmp_path / "old.py").rename(tmp_path / "new.py")
  built = build_modules(tmp_path, {"user.py": "import new\n"})
  assert sorted(built) == ["__init__.py", "new.py", "user.py"]
  assert built["user.py"] == "from bert_tf2 import new\n"


def test_every_requirement_has_a_version_and_every_script_a_command():
  project = test_dockerfile.project()
  extras = project["optional-dependencies"]
  for text in [*project["dependencies"], *sum(extras.values(), [])]:
    assert re.search("[=>]=", text) or text.startswith("bert-tf2["), text
  assert {name.replace("-", "_") for name in project["scripts"]} == {
    f"bert_{verb}" for verb in test_layout.VERBS
  }


def test_versions_are_the_same_everywhere():
  project = test_dockerfile.project()
  cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
  assert f"version: {project['version']}\n" in cited
  assert f"\n## {project['version']}" in (ROOT / "CHANGELOG.md").read_text()
  hooks = (ROOT / ".pre-commit-config.yaml").read_text()
  version = re.search(r"rev: v(.*)", hooks)[1]
  assert f"ruff=={version}" in project["optional-dependencies"]["lint"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
  """A folder with the wheel, built from an sdist and installed in `site`."""
  folder = tmp_path_factory.mktemp("package")
  source = folder / "source"
  source.mkdir()
  for path in [
    *ROOT.glob("*.py"),
    ROOT / "README.md",
    ROOT / "LICENSE",
    ROOT / "pyproject.toml",
  ]:
    shutil.copy(path, source)
  for name in test_layout.FOLDERS:
    shutil.copytree(
      ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__")
    )
  build = "from setuptools import build_meta; build_meta.build_sdist('..')"
  python("-c", build, folder=source)
  pip = ["-m", "pip", "--quiet", "--disable-pip-version-check"]
  [archive] = folder.glob("*.tar.gz")
  options = ["--no-deps", "--use-pep517", "--no-build-isolation"]
  python(*pip, "wheel", *options, archive, folder=folder)
  [wheel] = folder.glob("*.whl")
  python(*pip, "install", "--no-deps", "--target", "site", wheel, folder=folder)
  return folder


@pytest.mark.slow
def test_the_wheel_holds_every_module_inside_the_package(installed):
  [wheel] = installed.glob("*.whl")
  names = zipfile.ZipFile(wheel).namelist()
  package = {name for name in names if ".dist-info/" not in name}
  expected = {"bert_tf2/__init__.py"} | {
    f"bert_tf2/{path.relative_to(ROOT)}"
    for path in [
      *test_layout.SOURCES,
      *ROOT.glob("reproduction/*.csv"),
      *ROOT.glob("reproduction/*.json"),
      *ROOT.glob("*/*.html"),
      *ROOT.glob("*/*/*.html"),
      *ROOT.glob("running/reports/*.md"),
    ]
  }
  assert package == expected


def module_name(path):
  parts = path.relative_to(ROOT).with_suffix("").parts
  return ".".join(["bert_tf2", *parts])


@pytest.mark.slow
def test_every_module_of_the_wheel_imports(installed, tmp_path):
  """Scripts may define the same flag, so each is imported in its own process.

  The processes are forks of one that has imported TensorFlow.
  """
  groups = [test_layout.NOUNS, *([p] for p in test_layout.VERBS.values())]
  loose = [*test_layout.MODULES, *test_layout.VERBS, *test_layout.FOLDERS]
  program = f"""
import importlib, os, sys
from bert_tf2.common import lean_tensorflow
for names in {[[module_name(path) for path in paths] for paths in groups]}:
  if not (child := os.fork()):
    for name in names:
      module = importlib.import_module(name)
    loose = set(sys.modules) & {set(loose)}
    assert not loose, loose
    print("last:", module.__file__)
    break
  assert os.waitpid(child, 0)[1] == 0, names
"""
  output = python(
    "-c", program, folder=tmp_path, PYTHONPATH=str(installed / "site")
  )
  site = installed / "site" / "bert_tf2"
  expected = [f"last: {site / p[-1].relative_to(ROOT)}" for p in groups]
  lines = output.split("\n")
  assert [line for line in lines if line.startswith("last: ")] == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", test_layout.VERBS)
def test_every_script_is_a_command_and_a_module(installed, tmp_path, name):
  site = installed / "site"
  command = site / "bin" / f"bert-{name.replace('_', '-')}"
  for words in ([command], ["-m", f"bert_tf2.{name}"]):
    output = python(
      *words,
      "--help",
      folder=tmp_path,
      PYTHONPATH=str(site),
      status=1,  # absl's exit status after --help.
    )
    assert "Try --helpfull" in output
    # The example in the script's docstring has the command's name.
    assert f"  {command.name} " in output or words != [command]


@pytest.mark.slow
def test_an_empty_environment_gets_a_command_that_runs(installed, tmp_path):
  """Only the wheel is installed; PYTHONPATH supplies its requirements."""
  python("-m", "venv", "--without-pip", "env", folder=tmp_path)
  bare = tmp_path / "env" / "bin" / "python"
  [wheel] = installed.glob("*.whl")
  pip = ["-m", "pip", "--quiet", "--disable-pip-version-check"]
  python(*pip, "--python", bare, "install", "--no-deps", wheel, folder=tmp_path)
  pip.remove("--quiet")
  packages = python(
    *pip, "--python", bare, "list", "--format=freeze", folder=tmp_path
  )
  assert [line.split("==")[0] for line in packages.split()] == ["bert-tf2"]
  done = subprocess.run(
    [
      tmp_path / "env" / "bin" / "bert-create-vocabulary",
      "--input_file=text.txt",
      "--output_file=vocab.txt",
      "--vocab_size=12",
    ],
    cwd=tmp_path,
    env={**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")},
    capture_output=True,
    text=True,
  )
  assert done.returncode == 1
  expected = "bert-create-vocabulary: error: no such file: text.txt\n"
  assert done.stderr.endswith(expected), done.stderr
