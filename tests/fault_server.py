"""Runs scripts whose calls of the C library fail, each in a forked process.

The process imports TensorFlow once, with failing_calls.c preloaded. It reads a
run from each line of its standard input, and answers with its exit code.
"""

import importlib
import json
import os
import signal
import sys
import traceback
import warnings

import script_runner


def serve():
  """Answers until the input ends; the lines are JSON, see fault_runs."""
  for name in script_runner.PRELOADED:
    importlib.import_module(name)
  for line in sys.stdin:
    run = json.loads(line)
    process = os.fork()
    if not process:
      os._exit(_exit_code(run))
    _, status = os.waitpid(process, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)


def _exit_code(run):
  """Runs the script in this process; returns its exit code."""
  signal.alarm(run.pop("seconds"))  # Ends a run that hangs, with -14.
  import tensorflow as tf

  # Eager execution takes a third of the time that tracing would take, and
  # reads and writes the same files.
  tf.config.run_functions_eagerly(run.pop("eagerly"))
  warnings.filterwarnings("ignore", "Even though")
  try:
    script_runner.run_here(**run)
  except SystemExit as error:
    code = error.code
    return code if isinstance(code, int) else 0 if code is None else 1
  except BaseException:
    traceback.print_exc()
    return 1
  finally:
    sys.stdout.flush()
    sys.stderr.flush()
  return 0


if __name__ == "__main__":
  serve()
