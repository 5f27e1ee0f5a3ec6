"""Tests of --max_restarts: what is started again, and what is not."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from common import errors
from running.repetitions import restart_flags

KILL = f"os.kill(os.getpid(), {int(signal.SIGKILL)})"
# A command that notes its starts in a file; the n-th start does action n.
COMMAND = """
import os, sys, time
path, *actions = sys.argv[1:]
with open(path, "a+") as stream:
  stream.write(".")
  stream.seek(0)
  exec(actions[min(len(stream.read()), len(actions)) - 1])
"""


def words_of(path, *actions):
  return [sys.executable, "-c", COMMAND, str(path), *actions]


def run(path, most, *actions):
  """Returns the exit code, the number of starts, and the pauses."""
  pauses = []
  words = words_of(path, *actions)
  code = restart_flags.run_again(words, most, sleep=pauses.append)
  return code, len(path.read_text()), pauses


@pytest.mark.parametrize(
  "actions, most, expected",
  [
    (["pass"], 3, (0, 1, [])),
    ([KILL, "pass"], 3, (0, 2, [1])),
    ([KILL, "sys.exit(69)", "os.abort()", "pass"], 3, (0, 4, [1, 2, 4])),
    ([KILL], 2, (137, 3, [1, 2])),
    (["sys.exit(137)", "pass"], 1, (0, 2, [1])),
    ([KILL], 0, (137, 1, [])),
    ([f"sys.exit({errors.UNAVAILABLE})"], 1, (69, 2, [1])),
    # A mistake, an end by a signal and a second Ctrl-C are final.
    (["sys.exit(1)"], 3, (1, 1, [])),
    ([f"sys.exit({errors.STOPPED})"], 3, (75, 1, [])),
    ([f"sys.exit({errors.INTERRUPTED})"], 3, (130, 1, [])),
    (["os.kill(os.getpid(), 15)"], 3, (143, 1, [])),
  ],
)
def test_which_ends_are_followed_by_a_start(tmp_path, actions, most, expected):
  assert run(tmp_path / "starts", most, *actions) == expected


def test_messages_name_the_cause_and_the_count(tmp_path, capsys):
  run(tmp_path / "starts", 1, KILL)
  first, last = capsys.readouterr().err.splitlines()
  assert "SIGKILL" in first and "restart 1 of 1" in first
  assert "SIGKILL" in last and "--max_restarts=1" in last


def test_pauses_are_bounded(tmp_path):
  _, _, pauses = run(tmp_path / "starts", 8, KILL)
  assert max(pauses) == pauses[-1] == 60


def signal_when(condition):
  """Sends this process a SIGTERM once a condition holds."""

  def watch():
    while not condition():
      time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)

  threading.Thread(target=watch, daemon=True).start()


def test_a_signal_is_passed_on_and_ends_the_restarts(tmp_path):
  path, ready = tmp_path / "starts", tmp_path / "ready"
  handler = (
    "import signal; signal.signal(15, lambda *_: os._exit(75)); "
    f"open({str(ready)!r}, 'w').close(); time.sleep(60)"
  )
  signal_when(ready.exists)
  assert run(path, 3, handler) == (75, 1, [])


def test_a_signal_during_a_pause_ends_the_restarts(tmp_path):
  path = tmp_path / "starts"

  def sleep(seconds):
    os.kill(os.getpid(), signal.SIGTERM)

  code = restart_flags.run_again(words_of(path, KILL), 3, sleep)
  assert code == errors.STOPPED
  assert len(path.read_text()) == 1
  assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_the_real_command_is_restarted(tmp_path):
  """A script is started again with its flags, without TensorFlow before."""
  script = tmp_path / "train.py"
  script.write_text(
    "import os, sys\n"
    f"sys.path.insert(0, {os.path.dirname(os.path.dirname(__file__))!r})\n"
    "from common import command, flags\n"
    "from running import repetitions\n"
    "flags.DEFINE_bool('do_train', False, 'Whether to train.')\n"
    "flags.DEFINE_string('starts', None, 'A file.')\n"
    "repetitions.define(repetitions.Script('pretraining'))\n"
    "command.parse_flags(__name__, imports_tensorflow=False)\n"
    "open(flags.FLAGS.starts, 'a').write('.')\n"
    "assert 'BERT_TF2_RESTARTED' not in os.environ\n"
    "if len(open(flags.FLAGS.starts).read()) == 1:\n"
    f"  {KILL}\n"
    "print('trained', flags.FLAGS.max_restarts)\n"
  )
  words = [sys.executable, str(script), f"--starts={tmp_path}/starts"]
  words += ["--do_train", "--max_restarts=2"]
  result = subprocess.run(words, capture_output=True, text=True, timeout=120)
  assert (result.returncode, result.stdout) == (0, "trained 2\n")
  assert result.stderr.startswith("train.py: SIGKILL killed the process")
  assert (tmp_path / "starts").read_text() == ".."


@pytest.mark.skipif(sys.platform != "linux", reason="uses prctl")
def test_a_child_ends_after_its_parent(tmp_path):
  ready, ended = tmp_path / "ready", tmp_path / "ended"
  action = (
    f"sys.path.insert(0, {os.path.dirname(os.path.dirname(__file__))!r}); "
    "import signal; from running.repetitions import restart_flags; "
    "restart_flags._end_with_parent(); signal.signal(15, lambda *_: "
    f"(open({str(ended)!r}, 'w').close(), os._exit(75))); "
    f"open({str(ready)!r}, 'w').close(); time.sleep(60)"
  )
  parent = subprocess.Popen(
    [
      sys.executable,
      "-c",
      "import subprocess, sys; subprocess.run(sys.argv[1:])",
      *words_of(tmp_path / "starts", action),
    ]
  )
  wait_for(ready)
  parent.kill()
  parent.wait()
  wait_for(ended)


def wait_for(path, seconds=60):
  end = time.monotonic() + seconds
  while not path.exists():
    assert time.monotonic() < end, path
    time.sleep(0.01)
