"""What a script says: little on standard error, everything in a file.

logging.info and what is above it is for the user; logging.debug, and what
TensorFlow says, are details: for log.txt in --output_dir, and for the screen
with --verbose.
"""

import collections
import logging
import os
import sys

import tqdm
from absl import logging as absl_logging

FILE_NAME = "log.txt"
_MOST_WAITING = 10_000  # Records until there is a file.
_TENSORFLOW = f"{os.sep}tensorflow{os.sep}"


class _Screen(logging.Handler):
  """Standard error; a progress bar there moves down."""

  def filter(self, record):
    is_tensorflow = _TENSORFLOW in record.pathname
    return self.level <= logging.DEBUG or not (
      is_tensorflow and record.levelno < logging.ERROR
    )

  def emit(self, record):
    tqdm.tqdm.write(self.format(record), file=sys.stderr)


class _Line(logging.Formatter):
  """Says how bad it is; and when, where nobody watches."""

  def format(self, record):
    bad = record.levelno > logging.INFO
    text = f"{record.levelname.lower()}: " if bad else ""
    text += super().format(record)
    if sys.stderr.isatty():
      return text
    return f"{self.formatTime(record, '%H:%M:%S')} {text}"


class _Keeper(logging.Handler):
  """Writes to a file, once there is one."""

  def __init__(self):
    super().__init__()
    self._waiting = collections.deque(maxlen=_MOST_WAITING)
    self._file = None

  def emit(self, record):
    (self._file.emit if self._file else self._waiting.append)(record)

  def open(self, path):
    self._file = logging.FileHandler(
      path, encoding="utf-8", errors="backslashreplace"
    )
    self._file.setFormatter(logging.Formatter(
      "%(asctime)s %(levelname).1s %(filename)s:%(lineno)d] %(message)s"
    ))
    # A full disk ends the run where something is lost that counts.
    self._file.handleError = lambda record: None
    while self._waiting:
      self._file.emit(self._waiting.popleft())


_screen, _keeper = _Screen(), _Keeper()
_screen.setFormatter(_Line())


def start(level: int) -> None:
  """Takes over from absl's handler, and from TensorFlow's.

  Args:
    level: of logging; what is below it is not on the screen.
  """
  root = logging.getLogger()
  for handler in [*root.handlers]:
    root.removeHandler(handler)
  logging.getLogger("tensorflow").handlers.clear()
  absl_logging.set_verbosity(absl_logging.DEBUG)
  _screen.setLevel(level)
  root.addHandler(_screen)
  root.addHandler(_keeper)


def show_details() -> None:
  """As --verbose does."""
  _screen.setLevel(logging.DEBUG)


def show_warnings_alone() -> None:
  """For a script whose output says the rest."""
  _screen.setLevel(max(_screen.level, logging.WARNING))


def keep_in(folder: str) -> None:
  """Writes everything to a file in the run's folder, from the start on."""
  is_started = _keeper in logging.getLogger().handlers
  # The first folder of a command is --output_dir.
  if is_started and not _keeper._file and os.path.isdir(folder):
    _keeper.open(os.path.join(folder, FILE_NAME))
