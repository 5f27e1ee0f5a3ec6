"""Runs jobs in which one call of the C library fails, and judges the results.

A job is a script whose output folder may already have files. A clean run shows
how many calls it makes and what it writes under each name. After a fault,

* the exit code is 0 and all results are there, or it is 1 and one sentence
  names the cause and a file or folder;
* each file under its final name has a content of the clean run;
* each checkpoint that was complete is complete;
* the same command, without a fault, then gives the results of the clean run.

By-products (logs, the report) may be missing after exit code 0, if a message
names one of them and the cause.
"""

import contextlib
import errno
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from typing import NamedTuple

import script_runner
import stored_weights
from common import errors, json_files

TESTS = pathlib.Path(__file__).parent
# {letter of failing_calls.c: [(error, letters of the calls that fail later)]}
FULL, READ_ONLY, ONCE = "wom", "wsromu", "-"
SHORT = 0
VARIANTS = {
  "w": [
    (errno.ENOSPC, FULL),
    (errno.EIO, ONCE),
    (SHORT, ONCE),
    (errno.ENOSPC, ONCE),
    (errno.EIO, READ_ONLY),
  ],
  "s": [(errno.EIO, ONCE), (errno.ENOSPC, FULL), (errno.EIO, "ws")],
  "r": [(errno.EIO, ONCE), (errno.ENOSPC, FULL), (errno.EROFS, READ_ONLY)],
  "o": [(errno.ENOSPC, FULL), (errno.EROFS, READ_ONLY), (errno.EIO, ONCE)],
  "m": [(errno.ENOSPC, FULL), (errno.EROFS, READ_ONLY), (errno.EIO, ONCE)],
  "u": [(errno.EIO, ONCE), (errno.EROFS, READ_ONLY)],
  "l": [(errno.ENOLCK, ONCE)],
}
NAMES = dict(
  zip("wsromul", "write fsync rename open mkdir unlink flock".split())
)
# Files that a run can lack; some of them vary between runs, as the fingerprint
# of a SavedModel, which has a random id.
BY_PRODUCTS = re.compile(
  r"(.*/)?(log\.txt|run\.lock|events\.out\..*|train_log\.jsonl|report\.html"
  r"|final_model/README\.md|fingerprint\.pb)"
)
# If a run cannot write these files, it warns, and the same command writes them.
_REPAIRED = re.compile(r"(.*/)?(checkpoint|flags\.txt)")
_TEMPORARY = re.compile(r"\.tmp-.*")
_SECONDS = 900


class Fault(NamedTuple):
  """A call that fails, see failing_calls.c."""

  number: int
  letter: str
  code: int
  then: str

  def __str__(self):
    name = errno.errorcode.get(self.code, "SHORT")
    later = {ONCE: "once", FULL: "full disk", READ_ONLY: "read-only"}
    then = later.get(self.then, self.then)
    return f"{NAMES[self.letter]} {self.number} {name} {then}"


class Job(NamedTuple):
  """A command under test.

  Attributes:
    flags: {name: value}; "{out}" stands for the folder of all outputs.
    before: the flags of an earlier run with the same output folder.
    eagerly: whether tf.functions are executed without being compiled.
    limit: the largest number of faults.
  """

  name: str
  script: str
  flags: dict
  before: dict | None = None
  eagerly: bool = False
  limit: int = 350


class Outcome(NamedTuple):
  """What a fault did: its class, the last line, what is wrong with it."""

  kind: str
  line: str
  violations: list


def compiled(folder: pathlib.Path) -> pathlib.Path | None:
  """Compiles failing_calls.c; returns None if there is no compiler."""
  compiler = shutil.which("cc")
  if not compiler or not sys.platform.startswith("linux"):
    return None
  path = folder / "failing_calls.so"
  source = TESTS / "failing_calls.c"
  command = [compiler, "-shared", "-fPIC", "-O1", "-o", path, source, "-ldl"]
  subprocess.run(command, check=True)
  return path


class Worker:
  """Runs faults one after another, in a folder of its own."""

  def __init__(self, folder: pathlib.Path, preloaded: pathlib.Path):
    self.folder = folder.resolve()
    self.out = self.folder / "out"
    self._before = self.folder / "before"
    self.folder.mkdir(parents=True)
    self._server = subprocess.Popen(
      [sys.executable, TESTS / "fault_server.py"],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      text=True,
      env={
        **os.environ,
        "LD_PRELOAD": str(preloaded),
        "PYTHONPATH": os.pathsep.join(map(str, (script_runner.ROOT, TESTS))),
        # TensorFlow's threads would outnumber the processors.
        "TF_NUM_INTEROP_THREADS": "1",
        "TF_NUM_INTRAOP_THREADS": "1",
      },
    )

  def close(self):
    self._server.stdin.close()
    self._server.wait()

  def run(self, job, fault=None, trace=None):
    """Runs a job's command; returns script_runner.Finished."""
    environment = {"BERT_TRACEBACK": ""}
    if fault or trace:
      number, letter, code, then = fault or (0, "w", 0, ONCE)
      environment["FAULT_PLAN"] = f"{number} {letter} {code} {then}"
      environment["FAULT_FOLDER"] = str(self.out)
    if trace:
      environment["FAULT_TRACE"] = str(trace)
    arguments = [
      text.replace("{out}", str(self.out))
      for text in script_runner.command_line(job.flags)
    ]
    with tempfile.TemporaryDirectory(dir=self.folder) as folder:
      paths = [os.path.join(folder, name) for name in ("out", "err")]
      run = {
        "script": job.script,
        "arguments": arguments,
        "streams": [os.devnull, *paths],
        "folder": folder,
        "environment": environment,
        "seconds": _SECONDS,
        "eagerly": job.eagerly,
      }
      self._server.stdin.write(json.dumps(run) + "\n")
      self._server.stdin.flush()
      code = int(self._server.stdout.readline())
      texts = [pathlib.Path(path).read_text("utf-8") for path in paths]
    return script_runner.Finished(code, *texts)

  def prepare(self, job):
    """Runs a job without faults; call it before `judge`."""
    for path in (self.out, self._before, self.folder / "trace"):
      shutil.rmtree(path, ignore_errors=True)
    if job.before:
      finished = self.run(job._replace(flags=job.before))
      assert finished.code == 0, finished.err
    self.out.mkdir(exist_ok=True)
    self._remember()
    trace = self.folder / "trace"
    trace.mkdir()
    finished = self.run(job, trace=trace)
    assert finished.code == 0, finished.err
    self.expected = _contents(self.out)
    self.calls, self._allowed = self._read_trace(trace)
    for files in (_contents(self._before), self.expected):
      for name, content in files.items():
        self._allowed.setdefault(name, set()).add(content)
    self._complete = _complete_steps(self._before)
    self._recovered: dict = {}

  def _remember(self):
    shutil.rmtree(self._before, ignore_errors=True)
    shutil.copytree(self.out, self._before, symlinks=True)

  def _read_trace(self, trace):
    """Returns ({letter: number of calls}, {name: contents ever published})."""
    calls, allowed = dict.fromkeys(NAMES, 0), {}
    for line in (trace / "calls").read_text().splitlines():
      kind, _, rest = line.partition(" ")
      if kind != "=":
        calls[kind[0]] += 1
        continue
      number, _, path = rest.partition(" ")
      name = os.path.relpath(path, self.out)
      content = _checksum(trace / number)
      allowed.setdefault(name, set()).add(content)
    return calls, allowed

  def faults(self, limit):
    """Returns the job's faults; of more than `limit`, an even sample."""
    faults = [
      Fault(number, letter, code, then)
      for letter, count in self.calls.items()
      for code, then in VARIANTS[letter]
      for number in range(1, count + 1)
    ]
    step = max(1.0, len(faults) / limit)
    count = min(len(faults), limit)
    return [faults[int(index * step)] for index in range(count)]

  def judge(self, job, fault):
    """Runs a job with a fault; returns its Outcome."""
    shutil.rmtree(self.out)
    shutil.copytree(self._before, self.out, symlinks=True)
    trace = self.folder / "faults"
    shutil.rmtree(trace, ignore_errors=True)
    trace.mkdir()
    finished = self.run(job, fault, trace)
    violations = list(self._half_written())
    if finished.code == 0:
      kind = "went on"
      violations += self._wrong_results(job, finished, fault)
    else:
      kind = "stopped with a sentence"
      violations += self._wrong_sentence(job, finished, fault)
      violations += self._not_repeatable(job)
    if violations:
      kind = "VIOLATION"
    return Outcome(kind, finished.last_line, violations)

  def _half_written(self):
    """Yields the files whose content no clean run has under this name."""
    for name, content in _contents(self.out).items():
      if BY_PRODUCTS.fullmatch(name) or ".tmp-" in name:
        continue
      # A checkpoint that was about to be replaced has another name; readers
      # know it.
      if content not in self._allowed.get(name.replace(".earlier.", "."), ()):
        yield f"{name} is half written"
    # The tensors of an index must be those of its data.
    for index in self.out.rglob("*.index"):
      prefix = index.with_suffix("")
      # A SavedModel's variables have the names of objects.
      if prefix.name == "variables" or ".tmp-" in str(index):
        continue
      if prefix.with_suffix(".commit").exists():
        continue
      try:
        stored_weights.read(str(prefix))
      except errors.InputError as error:
        yield f"{index.name} cannot be read: {error}"
    lost = self._complete - _complete_steps(self.out)
    for name in sorted(lost & set(self.expected)):
      yield f"{name} was complete and is not"

  def _wrong_results(self, job, finished, fault):
    """Yields what is wrong with a run that did not stop."""
    actual = _contents(self.out)
    different = [
      name
      for name, content in self.expected.items()
      if actual.get(name) != content and not BY_PRODUCTS.fullmatch(name)
    ]
    for name in different:
      if not _REPAIRED.fullmatch(name):
        yield f"exit code 0, but {name} differs"
    warnings = " ".join(
      line for line in finished.err.splitlines() if "warning: " in line
    )
    for letter, path in self._failed():
      # Most writers repeat a call that writes less than it should.
      if letter not in "wo" or fault.code == SHORT:
        continue
      # A folder that cannot be listed keeps an older run's temporary files.
      if letter == "o" and os.path.isdir(path):
        continue
      name = re.split(r"\.out\.|\.tmp-", os.path.basename(path))[0]
      # TensorFlow's writer of events hides some errors that pass.
      is_hidden = name == "events" and fault.then == ONCE
      if name not in warnings and not is_hidden:
        yield f"exit code 0 without a warning that names {name}"
    if different:
      yield from self._not_repeatable(job)

  def _failed(self):
    """Returns the (letter, path) of the calls that failed."""
    lines = (self.folder / "faults" / "calls").read_text().splitlines()
    return {(line[0], line[3:]) for line in lines if line[1] == "!"}

  def _wrong_sentence(self, job, finished, fault):
    line = finished.last_line
    if finished.code != 1:
      yield f"exit code {finished.code}: {line}"
    if not line.startswith(f"{job.script}: error: "):
      yield f"no sentence: {finished.err[-400:]}"
    if "the details are in" in line or "Traceback" in finished.err:
      yield f"a traceback: {finished.err[-600:]}"
    if fault.code and os.strerror(fault.code).lower() not in line.lower():
      yield f"the cause is not named: {line}"
    if str(self.out) not in line:
      yield f"no file is named: {line}"

  def _not_repeatable(self, job):
    """Yields what the same command, without a fault, does not repair."""
    state = _state(self.out)
    if state not in self._recovered:
      finished = self.run(job)
      faults = []
      if finished.code:
        faults.append(f"the same command ends with {finished.last_line}")
      else:
        actual = _contents(self.out)
        for name in sorted({*self.expected, *actual}):
          if BY_PRODUCTS.fullmatch(name):
            continue
          if actual.get(name) != self.expected.get(name):
            faults.append(f"the same command gives another {name}")
      self._recovered[state] = faults
    yield from self._recovered[state]


def _checksum(path):
  return hashlib.sha256(path.read_bytes()).hexdigest()


def _contents(folder):
  """Returns {name below the folder: checksum}."""
  return {
    str(path.relative_to(folder)): _checksum(path)
    for path in sorted(folder.rglob("*"))
    if path.is_file()
  }


def _state(folder):
  """Returns a key of what a later run can see in a folder."""
  return tuple(
    (_TEMPORARY.sub(".tmp", name), content)
    for name, content in _contents(folder).items()
    if not BY_PRODUCTS.fullmatch(name)
  )


def _complete_steps(folder):
  """Returns the names of the complete checkpoints' .commit files."""
  names = set()
  for path in folder.rglob("*.commit"):
    with contextlib.suppress(errors.InputError, FileNotFoundError):
      files = json_files.read_sealed(str(path))["files"]
      checksums = [
        hashlib.sha256((path.parent / name).read_bytes()).hexdigest()
        for name in files
      ]
      if checksums == [file["sha256"] for file in files.values()]:
        names.add(str(path.relative_to(folder)))
  return names
