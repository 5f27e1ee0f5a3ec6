"""`from bert_tf2 import ...` works in a clone and an editable installation."""

import re
import subprocess
import sys
import sysconfig

import pytest

import test_package
from script_runner import ROOT

# Fails if a file of the project is loaded as two modules.
ONCE = """
import collections, sys
loaded = {id(m): getattr(m, "__file__", None) for m in sys.modules.values()}
counts = collections.Counter(loaded.values())
files = {p: n for p, n in counts.items() if p and p.startswith(ROOT)}
assert files and max(files.values()) == 1, files
"""


def run(lines, folder, interpreter=sys.executable, **environment):
  program = f"ROOT = {str(ROOT)!r}\n" + "\n".join([*lines, ONCE])
  finished = subprocess.run(
    [interpreter, "-c", program],
    cwd=folder,
    capture_output=True,
    text=True,
    env={**test_package.os.environ, **environment},
  )
  assert finished.returncode == 0, finished.stderr
  return finished.stdout


def test_a_clone_has_the_package():
  output = run(
    [
      "import bert_tf2",
      "from bert_tf2.squad import scores",
      "from bert_tf2 import configuration",
      "print(bert_tf2.__version__)",
      "import sys",
      "assert not {'common', 'configuration', 'squad'} & set(sys.modules)",
      "try: import bert_tf2.nothing",
      "except ModuleNotFoundError: print('none')",
    ],
    ROOT,
  )
  version = test_package.test_dockerfile.project()["version"]
  assert output.split() == [version, "none"]


@pytest.mark.parametrize(
  "first, second",
  [
    (
      "from {}squad import answers, scores; import tokenization",
      "from {}squad import answers, scores; from bert_tf2 import tokenization",
    ),
    (
      "from bert_tf2.squad import answers, scores; "
      "from bert_tf2 import tokenization",
      "from {}squad import answers, scores; import tokenization",
    ),
  ],
  ids=["clone's spelling first", "package's spelling first"],
)
def test_both_spellings_are_one_module(first, second):
  other_package = "bert_tf2." if first.startswith("from {}") else ""
  run(
    [
      first.format(""),
      "before = answers, scores, tokenization",
      second.format(other_package),
      "after = answers, scores, tokenization",
      "assert all(a is b for a, b in zip(before, after)), (before, after)",
      "from common import errors as loose",
      "from bert_tf2.common import errors",
      "assert loose is errors is tokenization.errors",
      "import text.input_sequences",
      "from bert_tf2.text import input_sequences",
      "assert text.input_sequences is input_sequences",
    ],
    ROOT,
  )


def test_a_users_modules_of_the_same_name_are_not_replaced(tmp_path):
  (tmp_path / "common.py").write_text("mine = 1")
  run(
    [
      "import common",
      "from bert_tf2.common import errors",
      "assert common.mine and errors.InputError",
      "from bert_tf2 import tokenization",
      "import sys",
      "assert sys.modules['common'] is common",
    ],
    tmp_path,
    PYTHONPATH=f"{tmp_path}{test_package.os.pathsep}{ROOT}",
  )


@pytest.mark.slow
def test_an_editable_installation_has_only_the_package(tmp_path):
  test_package.python("-m", "venv", "--without-pip", "env", folder=tmp_path)
  interpreter_without_pip = tmp_path / "env" / "bin" / "python"
  pip = ["-m", "pip", "--quiet", "--disable-pip-version-check"]
  test_package.python(
    *pip,
    "--python",
    interpreter_without_pip,
    "install",
    "--no-deps",
    "--no-build-isolation",
    "--editable",
    ROOT,
    folder=tmp_path,
    PYTHONPATH=sysconfig.get_path("purelib"),
  )
  libraries = {"PYTHONPATH": sysconfig.get_path("purelib")}
  (tmp_path / "common.py").write_text("mine = 1")
  run(
    [
      "import common",
      "from bert_tf2.squad import scores",
      "from bert_tf2 import tokenization",
      "assert common.mine",
      "try: import squad",
      "except ModuleNotFoundError: pass",
      "else: raise AssertionError(squad)",
    ],
    tmp_path,
    interpreter_without_pip,
    **libraries,
  )
  for command in (
    [tmp_path / "env" / "bin" / "bert-create-vocabulary"],
    [interpreter_without_pip, "-m", "bert_tf2.create_vocabulary"],
  ):
    finished = subprocess.run(
      [*command, "--input_file=text.txt", "--output_file=v", "--vocab_size=12"],
      cwd=tmp_path,
      capture_output=True,
      text=True,
      env={**test_package.os.environ, **libraries},
    )
    assert finished.returncode == 1
    assert re.search("error: no such file: text.txt\n$", finished.stderr), (
      finished.stderr
    )
