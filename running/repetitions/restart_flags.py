"""--max_restarts: starts the command again after a failure that may pass.

A small process, which does not import TensorFlow, starts the same command as
its child and waits. It starts the child again, from the newest checkpoint, if

  a signal killed it, as Linux does when memory is short, or as TensorFlow does
  when it crashes; or
  another process of the run ended (errors.UNAVAILABLE).

It does not start it again after a mistake (exit code 1), because the same
command would end in the same way, nor after SIGTERM or SIGINT, which it passes
on. Its exit code is the last child's; 128 + n for signal n. No TensorFlow.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from common import command, errors, flags, program
from running import repetitions

FLAG = "max_restarts"
_LONGEST_PAUSE = 60.0  # Seconds.
# Set in the environment of a child.
_IS_CHILD = "BERT_TF2_RESTARTED"
_PR_SET_PDEATHSIG = 1


def is_for(script: repetitions.Script) -> bool:
  """Returns True: each script that trains has the flag."""
  del script
  return True


def define(script: repetitions.Script, not_with: str) -> None:
  """Defines --max_restarts, which no other flag excludes."""
  del script, not_with
  flags.DEFINE_integer(
    "max_restarts",
    0,
    "Start the command again, at most N times, if it was killed (for example "
    "because memory was short) or if another process of the run ended. It "
    "continues from its newest checkpoint. Mistakes, full disks, SIGTERM and "
    "SIGINT end it.",
    lower_bound=0,
    needs="do_train",
  )
  command.check_early(_check)


def _check() -> None:
  """Becomes the parent of the command if --max_restarts is given."""
  most = flags.FLAGS.max_restarts
  if os.environ.pop(_IS_CHILD, None):
    _end_with_parent()
    return
  if not most:
    return
  words = sys.argv[1:]
  if sys.orig_argv[-len(words) :] != words:
    raise errors.InputError(
      f"max_restarts={most} restarts a command; leave it out in Python"
    )
  errors.flush_output()
  # Not sys.exit, because the caller would report an error.
  os._exit(run_again([sys.executable, *sys.orig_argv[1:]], most))


def _end_with_parent() -> None:
  """Lets a child that outlives its parent save and end (on Linux)."""
  if sys.platform == "linux":
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def run_again(
  words: Sequence[str], most: int, sleep: Callable[[float], None] = time.sleep
) -> int:
  """Runs a command, and again after failures; returns its last exit code.

  Args:
    words: the command and its arguments.
    most: the maximum number of restarts.
    sleep: waits for a number of seconds.
  """
  stop = _Stop()
  before = {
    number: signal.signal(number, stop.note)
    for number in (signal.SIGTERM, signal.SIGINT)
  }
  try:
    for restarts in range(most + 1):
      code = stop.code_of(words)
      reason = _reason_to_restart(code)
      if stop.number or not reason:
        break
      if restarts == most:
        _say(f"the command ended: {reason}; --max_restarts={most} is used up")
        break
      pause = min(2.0**restarts, _LONGEST_PAUSE)
      _say(f"{reason}; restart {restarts + 1} of {most} in {pause:.0f} s")
      sleep(pause)
      if stop.number:
        # The newest checkpoint is complete, so the command may continue later.
        return errors.STOPPED
  finally:
    for number, handler in before.items():
      signal.signal(number, handler)
  return code if code >= 0 else 128 - code


class _Stop:
  """A request to end, which is passed on to the child."""

  number = 0
  _child: subprocess.Popen | None = None

  def note(self, number: int, frame: object) -> None:
    """Records a signal."""
    del frame
    self.number = number
    if self._child:
      # A terminal also sends its SIGINT to the child, and a second one would
      # end it at once. After a SIGINT, a SIGTERM changes nothing.
      self._child.send_signal(signal.SIGTERM)

  def code_of(self, words: Sequence[str]) -> int:
    """Runs a child; returns its code, -n if signal n killed it."""
    if self.number:
      return errors.STOPPED
    self._child = subprocess.Popen(words, env={**os.environ, _IS_CHILD: "1"})
    if self.number:  # It came while the child was started.
      self._child.send_signal(signal.SIGTERM)
    try:
      return self._child.wait()
    finally:
      self._child = None


def _reason_to_restart(code: int) -> str:
  """Returns why a command with this exit code may run better again, or ""."""
  if code == errors.UNAVAILABLE:
    return "another process of the run ended"
  # A shell between the two processes adds 128 to the number of a signal.
  number = -code if code < 0 else code - 128
  if number not in set(signal.Signals) - {signal.SIGTERM, signal.SIGINT}:
    return ""
  name = signal.Signals(number).name
  short = " (often because memory was short)" if name == "SIGKILL" else ""
  return f"{name} killed the process{short}"


def _say(text: str) -> None:
  print(f"{program.name()}: {text}", file=sys.stderr, flush=True)
