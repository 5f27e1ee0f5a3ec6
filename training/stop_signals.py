"""SIGTERM and SIGINT as a wish to end soon, not at once."""

import contextlib
import signal
from collections.abc import Iterator

from absl import logging


class StopRequest:
  """Whether something has asked the run to end, and what.

  Attributes:
    by: name of the signal, or None.
  """

  by = None

  @property
  def requested(self) -> bool:
    """Whether the run is to end."""
    return self.by is not None

  def note(self, number, frame):
    """Takes note of a signal; a second SIGINT interrupts."""
    del frame
    # Who presses Ctrl-C twice does not want to wait. A second SIGTERM changes
    # nothing: schedulers may send several.
    if self.requested and number == signal.SIGINT:
      raise KeyboardInterrupt
    self.by = signal.Signals(number).name
    logging.info("%s: finishing the steps under way, then saving", self.by)


@contextlib.contextmanager
def catch_signals() -> Iterator[StopRequest]:
  """Notes SIGTERM and SIGINT in its block, instead of dying of them."""
  stop = StopRequest()
  before = {
    number: signal.signal(number, stop.note)
    for number in (signal.SIGTERM, signal.SIGINT)
  }
  try:
    yield stop
  finally:
    for number, handler in before.items():
      signal.signal(number, handler)
