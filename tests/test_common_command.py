"""Scripts answer --help and mistyped flags before TensorFlow is loaded."""

import os
import subprocess
import sys

import pytest

import test_layout
from common import command

# An import of any of them ends the script with an ImportError.
BLOCKED = """
import runpy, sys
for name in ("tensorflow", "tensorflow_text", "numpy", "torch"):
  sys.modules[name] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run_blocked(script, *arguments):
  return subprocess.run(
    [sys.executable, "-c", BLOCKED, script, *arguments],
    capture_output=True,
    text=True,
    env={**os.environ, "PYTHONPATH": str(test_layout.ROOT)},
  )


@pytest.mark.parametrize("name", test_layout.VERBS)
def test_help_and_mistakes_need_no_tensorflow(name):
  script = str(test_layout.VERBS[name])
  done = run_blocked(script, "--help")
  assert done.returncode == 1  # What absl gives after any help.
  for flag in test_layout.flags_of(name):
    assert f"--{flag}:" in done.stdout or f"--[no]{flag}:" in done.stdout
  assert max(map(len, done.stdout.splitlines())) <= 80
  done = run_blocked(script, "--no_such_flag=1")
  assert done.returncode == 1
  assert "Unknown command line flag 'no_such_flag'" in done.stderr
  # The block is real: past the flags, TensorFlow is wanted.
  assert "parse_flags" in test_layout.VERBS[name].read_text()


def test_garbage_is_collected_in_main_but_not_in_what_was_imported(tmp_path):
  script = tmp_path / "script.py"
  script.write_text("""
import atexit, gc
from common import command
# Called last: in the reverse order of registering.
atexit.register(lambda: print(gc.get_freeze_count()))
command.parse_flags(__name__, imports_tensorflow=False)
imported = [[]]
assert not gc.isenabled()
def main(_):
  assert gc.isenabled() and not any(o is imported for o in gc.get_objects())
  print(gc.get_freeze_count())
command.run(main)
""")
  done = subprocess.run(
    [sys.executable, script], capture_output=True, text=True,
    env={**os.environ, "PYTHONPATH": str(test_layout.ROOT)},
  )
  assert done.returncode == 0, done.stderr
  in_main, at_exit = map(int, done.stdout.split())
  assert 0 < in_main < at_exit


def test_a_command_of_the_wheel_runs_the_script_of_its_name(monkeypatch):
  runs = []
  monkeypatch.setattr(
    command.runpy, "run_module", lambda *args, **kwargs: runs.append(args[0])
  )
  for name in ("bert-run-squad", "bert-fill-mask.exe"):
    monkeypatch.setattr(sys, "argv", [f"/somewhere/bin/{name}", "--flag"])
    command.run_installed()
  assert runs == ["run_squad", "fill_mask"]


def test_a_path_that_is_not_utf8_and_a_missing_tensorflow_are_said(
  monkeypatch, capsys
):
  monkeypatch.setattr(command.gc, "disable", lambda: None)
  monkeypatch.setattr(sys, "argv", ["run.py", "--model_dir=a\udcff"])
  with pytest.raises(SystemExit, match="1"):
    command.begin_imports(True)
  assert "'--model_dir=a\\udcff' is not UTF-8" in capsys.readouterr().err
  monkeypatch.setattr(sys, "argv", ["run.py"])
  monkeypatch.setitem(sys.modules, "common.lean_tensorflow", None)
  monkeypatch.delattr("common.lean_tensorflow", raising=False)
  with pytest.raises(SystemExit, match="1"):
    command.begin_imports(True)
  assert "TensorFlow cannot be loaded (" in capsys.readouterr().err
