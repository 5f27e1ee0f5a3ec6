"""Runs a script as a user does: flags in, exit code and output back.

Importing TensorFlow takes seconds. So `run` forks a process that has imported
TensorFlow and the larger modules, but has computed nothing yet. `start` starts
a fresh interpreter.
"""

import atexit
import json
import multiprocessing
import os
import pathlib
import re
import runpy
import subprocess
import sys
import tempfile
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[1]

# The modules that a process imports before it is forked to run scripts. These
# imports work if the tests run in the project's folder.
PRELOADED = [
  "common.lean_tensorflow",
  "tensorboard.summary.v2",
  "classification.job",
  "pretraining.networks.encoder",
  "exports.network_export",
  "exports.saved_model",
  "serving.text_models",
  "squad.job",
  "tagging.model",
  "training.loop",
]
_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(PRELOADED)


class Finished(NamedTuple):
  """The exit code and the output of a script.

  Attributes:
    code: exit code; negative for a signal.
    out, err: standard output and standard error.
  """

  code: int
  out: str
  err: str

  @property
  def last_line(self):
    """The last line of standard error, "" if there is none."""
    return self.err.strip().split("\n")[-1]


def command_line(flags):
  """{"do_eval": True, "text": ["a", "b"]} -> --do_eval=True --text=a --text=b

  A flag whose value is None is left out.
  """
  return [
    f"--{name}={value}"
    for name, values in flags.items()
    for value in (values if isinstance(values, list) else [values])
    if value is not None
  ]


def run(
  script,
  *arguments,
  code=None,
  environment=None,
  stdin=None,
  eager=False,
  **flags,
):
  """Runs a script, such as "fill_mask.py", to its end; returns Finished.

  Args:
    arguments: words after the flags on the command line, such as "--".
    code: the expected exit code; None allows any.
    environment: dict of variables to add to the environment.
    stdin: bytes for the standard input, which is empty by default.
    eager: whether to compute without graphs. A few steps of a tiny model then
      take a third of the time. It is for tests of what a script accepts, says
      and writes; others must compute as a user's script does.
  """
  process = Forked(
    script,
    *arguments,
    environment=environment,
    stdin=stdin,
    eager=eager,
    **flags,
  )
  out, err = process.communicate()
  assert code in (None, process.returncode), err
  return Finished(process.returncode, out, err)


class Forked:
  """A script in a forked process, with methods of a subprocess.Popen.

  The arguments are those of `run`. `communicate` must be called in the end.
  """

  def __init__(
    self, script, *arguments, environment=None, stdin=None, eager=False, **flags
  ):
    self._folder = tempfile.TemporaryDirectory()
    folder = self._folder.name
    if stdin is not None:
      pathlib.Path(folder, "in").write_bytes(stdin)
    self._outputs = [pathlib.Path(folder, name) for name in ("out", "err")]
    self._process = _FORKING.Process(
      target=run_here,
      args=(
        script,
        [*command_line(flags), *arguments],
        [
          os.devnull if stdin is None else os.path.join(folder, "in"),
          *map(str, self._outputs),
        ],
        folder,
        environment,
        eager,
      ),
    )
    self._process.start()
    self.pid, self.kill = self._process.pid, self._process.kill
    # At its exit, this process would wait for the script for ever.
    atexit.register(self.kill)

  @property
  def returncode(self):
    return self._process.exitcode

  def poll(self):
    return self._process.exitcode

  def wait(self, timeout=None):
    self._process.join(timeout)
    if self.returncode is None:
      raise subprocess.TimeoutExpired("script", timeout)
    return self.returncode

  def send_signal(self, number):
    if self.returncode is None:
      os.kill(self.pid, number)

  def communicate(self, timeout=None):
    """Waits for the end; returns the texts of the output and the errors."""
    self.wait(timeout)
    atexit.unregister(self.kill)
    texts = [
      path.read_text(encoding="utf-8") if path.exists() else ""
      for path in self._outputs
    ]
    self._folder.cleanup()
    return texts


def succeed(script, *arguments, **options):
  """Returns Finished of a run that must succeed; `options` as for `run`."""
  return run(script, *arguments, code=0, **options)


def results_in(text):
  """Returns {name: number} from a text, a file or the folder of a run."""
  if isinstance(text, pathlib.Path):
    is_run = text.is_dir()
    text = (text / "eval_results.txt" if is_run else text).read_text()
  pairs = re.findall(r"^(\S+) = (\S+)$", text, re.M)
  return {name: float(value) for name, value in pairs}


def logged(folder):
  """Returns the lines of a run's train_log.jsonl, a list of dicts."""
  lines = (folder / "train_log.jsonl").read_text().splitlines()
  return [json.loads(line) for line in lines]


def refuse(script, message, *arguments, **flags):
  """Returns Finished of a run that must end with an error with `message`."""
  finished = run(script, *arguments, **flags)
  # If a file has several faults, the error has a line for each.
  _, mark, error = f"\n{finished.err}".rpartition(f"\n{script}: error: ")
  assert finished.code == 1 and mark, finished.err
  assert message in error and "Traceback" not in finished.err, finished.err
  return finished


def run_here(script, arguments, streams, folder, environment, eager=False):
  """Runs the script as the main program of this process, which has been forked.

  Args:
    arguments: list of command line arguments.
    streams: paths of the standard input, output and error.
    folder: folder for temporary files.
    environment: dict of variables to add to the environment, or None.
    eager: whether to compute without graphs.
  """
  os.environ.update({**_environment(), **(environment or {})})
  # A forked process does not delete its temporary files (autograph writes one
  # for each function that it compiles), so they go into `run`'s folder.
  tempfile.tempdir = folder
  for number, path in enumerate(streams):
    os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), number)
  if eager:
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
  path = str(ROOT / script)
  sys.argv = [path, *arguments]
  sys.path.insert(0, str(ROOT))
  runpy.run_path(path, run_name="__main__")


def start(script, **flags):
  """Starts a script; returns a subprocess.Popen whose stderr is a text pipe."""
  return subprocess.Popen(
    [sys.executable, str(ROOT / script), *command_line(flags)],
    stdout=subprocess.DEVNULL,
    stderr=subprocess.PIPE,
    env={**os.environ, **_environment()},
    text=True,
  )


def _environment():
  """Returns environment variables: CPU only, few log lines, tracebacks."""
  return {
    "CUDA_VISIBLE_DEVICES": "-1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "BERT_TRACEBACK": "1",
  }
