"""What a user can get wrong, said in one sentence.

A noun raises `InputError` with what came, what was expected and what to do;
a verb wraps its `main` in `report_input_errors`, which prints that sentence
and ends the process with exit code 1. Anything else is a fault of ours: its
traceback is written to a file, or shown where BERT_TRACEBACK is set.
"""

import contextlib
import functools
import os
import sys
import tempfile
import traceback

from absl import logging

from common import program

INTERRUPTED = 130  # Exit code after Ctrl-C, as of a shell.


class InputError(ValueError):
  """Something given by the user (flag, file, checkpoint) cannot be used."""


@contextlib.contextmanager
def placed(place):
  """Puts a place, such as a file, before the InputErrors of a block."""
  try:
    yield
  except InputError as error:
    raise InputError(f"{place}: {error}") from error


@functools.cache
def warn_once(message: str) -> None:
  """Logs a warning; the same message is logged once per process.

  For an entry of a file or folder that is read but not honoured.
  """
  logging.warning("%s", message)


def require_text(text: str, place: str = "") -> None:
  """Refuses an empty text: the rule of every way in which texts come.

  As in the original: an empty text has vectors (extract_features.py, `encode`,
  `embed`), and empty texts in files of GLUE's tasks and SQuAD's form are read.
  Raises InputError: there is nothing but white space.
  """
  if not text or text.isspace():
    said = "an empty text; pass one with a character that is no space"
    raise InputError(f"{place}: {said}" if place else said)


@contextlib.contextmanager
def needs_extra(extra: str):
  """Around imports of packages that only one extra of the project has.

  Raises InputError: a package is not installed.
  """
  try:
    yield
  except ImportError as error:
    raise InputError(
      f"this needs {error.name}: run pip install \"bert-tf2[{extra}]\", or, in "
      f"a clone of this project, pip install '.[{extra}]'"
    ) from error


@contextlib.contextmanager
def needs_tensorflow():
  """Around imports for what only TensorFlow computes.

  Raises InputError: it is not installed.
  """
  try:
    yield
  except ModuleNotFoundError as error:
    if not (error.name or "").startswith("tensorflow"):
      raise
    raise InputError(
      f"a model of this format needs {error.name}: install it (see README.md), "
      "or name a folder of export_saved_model.py --format=onnx or litert"
    ) from error


_FAULTS_SHOWN = 20


class Faults:
  """What is wrong with a file, collected to be reported together."""

  def __init__(self):
    self.found: list[str] = []

  @contextlib.contextmanager
  def collected(self):
    """Takes the InputError that is raised within; what follows goes on."""
    try:
      yield
    except InputError as error:
      self.found.append(str(error))

  def refuse(self, path: str) -> None:
    """Raises InputError if there is a fault (it is the message) or more."""
    count = len(self.found)
    if self.found:
      raise InputError(
        # As it would be without this class: no list of one.
        self.found[0] if count == 1
        else f"{path}: {count} faults; fix them:{listed(self.found)}"
      )


def listed(faults: list[str]) -> str:
  """Returns lines for the end of a message: the first 20 faults and a count."""
  shown = "".join(f"\n  {fault}" for fault in faults[:_FAULTS_SHOWN])
  more = len(faults) - _FAULTS_SHOWN
  return shown + (f"\n  ... and {more} more" if more > 0 else "")


def report_input_errors(main):
  """Wraps a script's `main`, a function of absl's `argv`: see `report`."""

  @functools.wraps(main)
  def wrapped(argv):
    try:
      result = main(argv)
      flush_output()
      return result
    except (Exception, KeyboardInterrupt) as error:
      sys.exit(report(error))

  return wrapped


def report(error: BaseException) -> int:
  """Prints "<script>: error: <sentence>"; returns the exit code."""
  if os.environ.get("BERT_TRACEBACK") and not isinstance(error, InputError):
    traceback.print_exception(error)
  is_interrupt = isinstance(error, KeyboardInterrupt)
  said = f"\n{program.name()}: interrupted"
  if not is_interrupt:
    said = f"{program.name()}: error: {program.hint(_sentence(error))}"
  print(said, file=sys.stderr)
  flush_output()
  return INTERRUPTED if is_interrupt else 1


def _sentence(error):
  if isinstance(error, InputError):
    return str(error)
  if type(error).__module__ == "builtins" and isinstance(error, OSError):
    # str(error) would begin with "[Errno 2]".
    named = f": {error.filename}" if error.filename else ""
    return f"{error.strerror or error}{named}"
  kind, text = type(error).__name__, str(error).strip().split("\n")[0]
  # The second one is TensorFlow's, which may not be there.
  if kind in ("MemoryError", "ResourceExhaustedError"):
    return (
      f"not enough memory ({text or kind}); lower the batch size or "
      "--max_seq_length, take a smaller model, or lift the limit (ulimit -v)"
    )
  if kind == "UnavailableError" and "TF_CONFIG" in os.environ:
    return (
      "another process of this run ended or cannot be reached: see what it "
      "said, then start all of them again with the same commands; a training "
      "goes on from its newest checkpoint"
    )
  said = f"{kind}: {text}" if text else kind
  return f"{said}; the details are in {_write_details(error)}"


def _write_details(error):
  """Returns the file of the traceback; shows it where none can be written."""
  stem = os.path.splitext(program.name())[0]
  try:
    number, path = tempfile.mkstemp(prefix=f"{stem}-", suffix=".txt")
    with open(number, "w", encoding="utf-8", errors="replace") as stream:
      traceback.print_exception(error, file=stream)
  except OSError:
    traceback.print_exception(error)
    return "the lines above"
  return path


def flush_output() -> None:
  """Writes what is left; where the reader has gone, to nowhere."""
  try:
    sys.stdout.flush()
  except BrokenPipeError:
    # Python would try once more at its end, and complain.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
