"""Shows the results of a script, and logs its messages.

`print_line` writes results to standard output. Log messages go to standard
error and to log.txt in --output_dir. Without --verbose, details (logging.debug,
and TensorFlow's messages except errors) go only to log.txt.
"""

import collections
import contextlib
import logging
import logging.handlers
import os
import re
import sys
from collections.abc import Callable, Iterator

from absl import logging as absl_logging

from common import errors, native_messages

_TENSORFLOW = f"{os.sep}tensorflow{os.sep}"
# Control characters except the tab and the line feed.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def print_line(text: str, *, flush: bool = False) -> None:
  """Prints a result, in UTF-8 under any locale.

  On a terminal, the control characters of texts and labels are escaped.
  """
  if sys.stdout.encoding != "utf-8":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
  if sys.stdout.isatty():
    text = _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
  print(text, flush=flush)


class _Screen(logging.Handler):
  """A handler for standard error that keeps a progress bar below the text."""

  def filter(self, record: logging.LogRecord):
    is_tensorflow = _TENSORFLOW in record.pathname
    return self.level <= logging.DEBUG or not (
      is_tensorflow and record.levelno < logging.ERROR
    )

  def emit(self, record) -> None:
    # Without the module there is no bar, and its import takes time.
    if bars := sys.modules.get("tqdm"):
      bars.tqdm.write(self.format(record), file=sys.stderr)
    else:
      print(self.format(record), file=sys.stderr)


class _QuietFile(logging.FileHandler):
  """Names the first write error: on a full disk, each would be a traceback."""

  _is_named = False

  def handleError(self, record) -> None:
    error = sys.exc_info()[1]
    if self._is_named:
      return
    self._is_named = True
    # Straight to the screen: this file has just failed.
    _screen.handle(
      logging.makeLogRecord(
        {
          "levelno": logging.WARNING,
          "levelname": "WARNING",
          "msg": f"{self.baseFilename} cannot be written "
          f"({getattr(error, 'strerror', None) or error}); the run goes on "
          "without it",
        }
      )
    )


class _Line(logging.Formatter):
  """Adds the level to warnings and errors; without a terminal, adds times."""

  def format(self, record: logging.LogRecord) -> str:
    is_problem = record.levelno > logging.INFO
    text = f"{record.levelname.lower()}: " if is_problem else ""
    text += super().format(record)
    if sys.stderr.isatty():
      return text
    return f"{self.formatTime(record, '%H:%M:%S')} {text}"


def _make_keeper() -> logging.handlers.MemoryHandler:
  """Returns the handler that stores records until a file is open."""
  keeper = logging.handlers.MemoryHandler(1)
  # The limit matters for a server, which never opens a file.
  keeper.buffer = collections.deque(maxlen=10_000)  # type: ignore[assignment]
  return keeper


_screen, _keeper = _Screen(), _make_keeper()
# Functions of the folder to which `keep_in` writes; they may write files, too.
when_kept: list[Callable[[str], None]] = []
_screen.setFormatter(_Line())


def start(level: int) -> None:
  """Replaces the log handlers of absl and TensorFlow.

  The screen does not show records below `level`, a logging level.
  """
  root = logging.getLogger()
  for handler in [*root.handlers]:
    root.removeHandler(handler)
  logging.getLogger("tensorflow").handlers.clear()
  absl_logging.set_verbosity(absl_logging.DEBUG)
  _screen.setLevel(level)
  root.addHandler(_screen)
  root.addHandler(_keeper)
  for message in native_messages.messages:
    absl_logging.debug("%s", message)


@contextlib.contextmanager
def session() -> Iterator[None]:
  """Logs as a script does during a block of another program."""
  global _keeper
  root, verbosity = logging.getLogger(), absl_logging.get_verbosity()
  handlers, _keeper = [*root.handlers], _make_keeper()
  level = root.level
  try:
    start(logging.INFO)
    yield
  finally:
    if _keeper.target:
      _keeper.target.close()
    when_kept.clear()
    root.handlers[:] = handlers
    absl_logging.set_verbosity(verbosity)
    root.setLevel(level)


def show_details() -> None:
  """Shows details, like --verbose."""
  _screen.setLevel(logging.DEBUG)


def show_warnings_alone() -> None:
  """Shows only warnings and errors, for a script that prints all the rest."""
  _screen.setLevel(max(_screen.level, logging.WARNING))


def keep_in(folder: str) -> None:
  """Writes all records, including earlier ones, to log.txt in a folder.

  Then calls `when_kept`.
  """
  is_started = _keeper in logging.getLogger().handlers
  # Only the first folder counts: it is --output_dir.
  if not is_started or _keeper.target or not os.path.isdir(folder):
    return
  path = os.path.join(folder, "log.txt")
  with errors.by_product(path):
    file = _QuietFile(path, encoding="utf-8", errors="backslashreplace")
    file.setFormatter(
      logging.Formatter(
        "%(asctime)s %(levelname).1s %(filename)s:%(lineno)d] %(message)s"
      )
    )
    _keeper.setTarget(file)
    _keeper.flush()
  for function in when_kept:
    function(folder)
