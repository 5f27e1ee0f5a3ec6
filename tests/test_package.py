"""The wheel: one package, bert_tf2, whose modules import each other by it."""

import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

import test_layout

ROOT = pathlib.Path(__file__).parent.parent


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


def build_modules(folder, **modules):
  """Runs the build on the given sources; returns the built package."""
  shutil.copy(ROOT / "setup.py", folder)
  for name, source in modules.items():
    (folder / f"{name}.py").write_text(source)
  python("setup.py", "-q", "build_py", folder=folder)
  return {
    path.name: path.read_text()
    for path in (folder / "build" / "lib" / "bert_tf2").iterdir()
  }


def test_the_build_rewrites_sibling_imports_and_nothing_else(tmp_path):
  user = "\n".join([
    "import os", "import words", "", "def f():", "  import words", "",
    "import words.parts", "# import words", "from words import x", "",
  ])
  built = build_modules(tmp_path, words="x = 1\n", user=user)
  assert sorted(built) == ["__init__.py", "user.py", "words.py"]
  assert built["words.py"] == "x = 1\n"
  assert built["user.py"].split("\n") == [
    "import os", "from bert_tf2 import words", "", "def f():",
    "  from bert_tf2 import words", "",
    "import words.parts", "# import words", "from words import x", "",
  ]


def test_a_second_build_ships_what_there_is_now(tmp_path):
  build_modules(tmp_path, old="x = 1\n", user="import old\n")
  (tmp_path / "old.py").rename(tmp_path / "new.py")
  built = build_modules(tmp_path, user="import new\n")
  assert sorted(built) == ["__init__.py", "new.py", "user.py"]
  assert built["user.py"] == "from bert_tf2 import new\n"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
  """A folder with the wheel, built through a source archive, and a `site`."""
  folder = tmp_path_factory.mktemp("package")
  source = folder / "source"
  source.mkdir()
  for path in [*ROOT.glob("*.py"), ROOT / "README.md", ROOT / "LICENSE"]:
    shutil.copy(path, source)
  build = "from setuptools import build_meta; build_meta.build_sdist('..')"
  python("-c", build, folder=source)
  pip = ["-m", "pip", "--quiet", "--disable-pip-version-check"]
  [archive] = folder.glob("*.tar.gz")
  options = ["--no-deps", "--use-pep517", "--no-build-isolation"]
  python(*pip, "wheel", *options, archive, folder=folder)
  [wheel] = folder.glob("*.whl")
  python(
    *pip, "install", "--no-deps", "--target", "site", wheel, folder=folder
  )
  return folder


@pytest.mark.slow
def test_the_wheel_holds_every_module_and_no_loose_one(installed):
  [wheel] = installed.glob("*.whl")
  names = zipfile.ZipFile(wheel).namelist()
  package = {name for name in names if ".dist-info/" not in name}
  expected = ["__init__", *test_layout.MODULES]
  assert package == {f"bert_tf2/{name}.py" for name in expected}


# Two scripts may define the same flag: each is imported in a process.
@pytest.mark.slow
@pytest.mark.parametrize(
  "names",
  [test_layout.NOUNS, *([verb] for verb in test_layout.VERBS)],
  ids=lambda names: names[0],
)
def test_every_module_of_the_wheel_imports(installed, tmp_path, names):
  program = f"""
import sys
from bert_tf2 import {", ".join(names)}
loose = set(sys.modules) & {set(test_layout.MODULES)}
assert not loose, loose
print({names[0]}.__file__)
"""
  output = python(
    "-c", program, folder=tmp_path, PYTHONPATH=str(installed / "site")
  )
  expected = installed / "site" / "bert_tf2" / f"{names[0]}.py"
  assert output.strip().split("\n")[-1] == str(expected)


@pytest.mark.slow
def test_a_script_of_the_wheel_runs_as_a_module(installed, tmp_path):
  output = python(
    "-m", "bert_tf2.run_pretraining", "--helpshort",
    folder=tmp_path,
    status=1,  # What absl gives after any help.
    PYTHONPATH=str(installed / "site"),
  )
  assert "--bert_config_file" in output
  assert "--num_train_steps" in output
