"""What a script says: little on standard error, everything in a file.

logging.info and what is above it is for the user; logging.debug, and what
TensorFlow says, are details: for log.txt in --output_dir, and for the screen
with --verbose.
"""

import collections
import logging
import logging.handlers
import os
import sys

import tqdm
from absl import logging as absl_logging

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


def _make_keeper():
  """Returns what holds records until there is a file."""
  keeper = logging.handlers.MemoryHandler(1)
  # A server never has a file.
  keeper.buffer = collections.deque(maxlen=10_000)
  return keeper


_screen, _keeper = _Screen(), _make_keeper()
_screen.setFormatter(_Line())


def start(level: int) -> None:
  """Takes over from absl's handler, and from TensorFlow's.

  What is below `level`, one of logging's, is not on the screen.
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
  """Writes everything to log.txt in the run's folder, from the start on."""
  is_started = _keeper in logging.getLogger().handlers
  # The first folder of a command is --output_dir.
  if not is_started or _keeper.target or not os.path.isdir(folder):
    return
  file = logging.FileHandler(
    os.path.join(folder, "log.txt"), encoding="utf-8", errors="backslashreplace"
  )
  file.setFormatter(logging.Formatter(
    "%(asctime)s %(levelname).1s %(filename)s:%(lineno)d] %(message)s"
  ))
  # A full disk ends the run where something is lost that counts.
  file.handleError = lambda record: None
  _keeper.setTarget(file)
  _keeper.flush()
