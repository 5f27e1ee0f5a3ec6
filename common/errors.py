"""User errors, reported in one sentence.

A library module raises `InputError` with one sentence: the bad input, what was
expected and the remedy. `report_input_errors`, which wraps a script's `main`,
prints the sentence and exits with code 1 (other codes are below). Most other
exceptions are bugs: their traceback is written to a file, and also shown if
BERT_TRACEBACK is set.
"""

import contextlib
import errno
import functools
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from typing import TypeGuard

from absl import logging

from common import program

# Exit codes besides 1; two of them are EX_TEMPFAIL and EX_UNAVAILABLE of
# sysexits.h.
INTERRUPTED = 130  # After Ctrl-C, as in a shell.
STOPPED = 75  # After SIGTERM or SIGINT: a run is saved and can continue.
UNAVAILABLE = 69  # Another process of the run ended; this one can start again.

# Remedies for faults of the disk.
_REMEDIES = {
  errno.ENOSPC: "make room, and run the same command again",
  errno.EDQUOT: "make room or raise the quota, and run the same command again",
  errno.EROFS: "pass a folder that can be written",
  errno.EIO: "check the disk, or the connection to the network's file system",
}


class InputError(ValueError):
  """A flag, file, checkpoint or other input of the user cannot be used."""


@contextlib.contextmanager
def placed(place: str) -> Iterator[None]:
  """Prefixes the InputErrors of a block with a place, such as a file."""
  try:
    yield
  except InputError as error:
    raise InputError(f"{place}: {error}") from error


@functools.cache
def warn_once(message: str) -> None:
  """Logs a warning; each message is logged once per process."""
  logging.warning("%s", message)


def is_of_tensorflow(error: BaseException) -> bool:
  """Whether TensorFlow, which may not be imported, raised an error itself."""
  is_its_own = type(error).__module__.startswith("tensorflow.")
  return is_its_own and hasattr(error, "error_code")


def reason_of(error: BaseException) -> str:
  """Returns an error's text, without names of TensorFlow's operations."""
  if _is_plain(error):
    # str(error) would begin with "[Errno 2]".
    named = f": {error.filename}" if error.filename else ""
    return f"{error.strerror or error}{named}"
  text = str(getattr(error, "message", None) or error)
  text = re.sub(r"\{\{.*?\}\} *| *\[Op:\w+\]", "", text)
  return " ".join(text.split()) if is_of_tensorflow(error) else text


def _is_plain(error: BaseException) -> TypeGuard[OSError]:
  return type(error).__module__ == "builtins" and isinstance(error, OSError)


def remedy_of(error: BaseException) -> str:
  """Returns the remedy for a full or failing disk; "" for other errors.

  TensorFlow reports the system's reason in its text alone.
  """
  code = getattr(error, "errno", None)
  for number, remedy in _REMEDIES.items():
    is_in_text = is_of_tensorflow(error) and os.strerror(number) in str(error)
    if code == number or is_in_text:
      return remedy
  return ""


def unwritable(what: str, error: BaseException) -> InputError:
  """Returns the InputError for a file or folder that cannot be written."""
  parts = [f"cannot write {what}: {reason_of(error)}", remedy_of(error)]
  return InputError("; ".join(filter(None, parts)))


@contextlib.contextmanager
def by_product(path: str) -> Iterator[None]:
  """Wraps the writing of a file that a run can lack, such as a log.

  If it cannot be written, a warning says so, and the program goes on.
  """
  try:
    yield
  except Exception as error:
    if not is_of_files(error):
      raise
    warn_once(
      f"{path} cannot be written ({reason_of(error)}); the run goes on without "
      "it"
    )


def is_of_files(error: BaseException) -> bool:
  """Whether an error says that a file cannot be read or written."""
  return isinstance(error, (OSError, InputError)) or is_of_tensorflow(error)


def require_text(text: str, place: str = "") -> None:
  """Raises InputError if a text, from any source, is empty or white space.

  As in the original: extract_features.py and the readers of SQuAD's and some of
  GLUE's files accept empty texts. Functions that return vectors do so, too.
  """
  if not text or text.isspace():
    reason = "an empty text; pass a text that is not only white space"
    raise InputError(f"{place}: {reason}" if place else reason)


@contextlib.contextmanager
def needs_extra(extra: str) -> Iterator[None]:
  """Wraps imports of packages that an extra of the project installs.

  Raises InputError: a package is not installed.
  """
  try:
    yield
  except ImportError as error:
    raise InputError(
      f'this needs {error.name}: run pip install "bert-tf2[{extra}]", or, in '
      f"a clone of this project, pip install '.[{extra}]'"
    ) from error


@contextlib.contextmanager
def needs_tensorflow() -> Iterator[None]:
  """Wraps imports for computations that need TensorFlow.

  Raises InputError: it is not installed.
  """
  try:
    yield
  except ModuleNotFoundError as error:
    if not (error.name or "").startswith("tensorflow"):
      raise
    raise InputError(
      f"a model of this format needs {error.name}: install it (see README.md), "
      "or pass a folder that export_saved_model.py wrote with --format=onnx or "
      "litert"
    ) from error


_FAULTS_SHOWN = 20


class Faults:
  """The faults of a file, collected to be reported together."""

  def __init__(self) -> None:
    self.messages: list[str] = []

  @contextlib.contextmanager
  def collected(self) -> Iterator[None]:
    """Collects an InputError of the block, and goes on after the block."""
    try:
      yield
    except InputError as error:
      self.messages.append(str(error))

  def refuse(self, path: str) -> None:
    """Raises InputError with all faults, if there are any."""
    count = len(self.messages)
    if self.messages:
      raise InputError(
        # A single fault keeps its message unchanged.
        self.messages[0]
        if count == 1
        else f"{path}: {count} faults; fix them:{listed(self.messages)}"
      )


def listed(faults: list[str]) -> str:
  """Formats a message's end: the first 20 faults and the count of the rest."""
  shown = "".join(f"\n  {fault}" for fault in faults[:_FAULTS_SHOWN])
  more = len(faults) - _FAULTS_SHOWN
  return shown + (f"\n  ... and {more} more" if more > 0 else "")


def report_input_errors(main: Callable) -> Callable:
  """Wraps a script's `main`, a function of absl's `argv`: see `report`."""

  @functools.wraps(main)
  def wrapped(argv: list[str]):
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
  message = f"\n{program.name()}: interrupted"
  if not is_interrupt:
    message = f"{program.name()}: error: {program.hint(_sentence(error))}"
  print(message, file=sys.stderr)
  flush_output()
  if _is_lost_process(error):
    return UNAVAILABLE
  return INTERRUPTED if is_interrupt else 1


def _is_lost_process(error: BaseException) -> bool:
  """Whether another process of a run on several machines has ended."""
  return (
    type(error).__name__ == "UnavailableError" and "TF_CONFIG" in os.environ
  )


def _sentence(error: BaseException) -> str:
  if isinstance(error, InputError):
    return str(error)
  remedy = remedy_of(error)
  if remedy or _is_plain(error):
    return "; ".join(filter(None, [reason_of(error), remedy]))
  if isinstance(error, ModuleNotFoundError) and error.name:
    return (
      f"{error.name} is not installed: run pip install {error.name}, or, in a "
      "clone of this project, pip install -e . for everything that it needs"
    )
  type_name, text = type(error).__name__, str(error).strip().split("\n")[0]
  # ResourceExhaustedError is TensorFlow's, which may not be imported.
  if type_name in ("MemoryError", "ResourceExhaustedError"):
    return (
      f"not enough memory ({text or type_name}); lower the batch size or "
      "--max_seq_length, use a smaller model, or lift the limit (ulimit -v)"
    )
  if _is_lost_process(error):
    return (
      "another process of this run ended or cannot be reached: see its "
      "messages, then start all processes again with the same commands; "
      "training resumes from its newest checkpoint"
    )
  message = f"{type_name}: {text}" if text else type_name
  return f"{message}; the details are in {_write_details(error)}"


def _write_details(error: BaseException):
  """Writes the traceback to a file, or else prints it; returns where it is."""
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
  """Flushes the output; a closed pipe is replaced by the null device."""
  try:
    sys.stdout.flush()
  except BrokenPipeError:
    # Without this, Python would flush again at exit and print an error.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
