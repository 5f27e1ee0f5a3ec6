"""Shows the progress of a long job: a bar on a terminal, otherwise lines."""

import os
import sys
import time
from typing import Any

# The interval between lines if standard error is not a terminal.
_SECONDS_BETWEEN_LINES = 30.0


class NoBar:
  """Stands for a progress bar where there is no terminal."""

  disable = True
  n = 0

  def describe(self, text: str, details: str = "") -> None:
    """Does nothing, like the other methods."""

  def update(self, n: float) -> None:
    """Does nothing."""

  def close(self) -> None:
    """Does nothing."""


def bar(total: float, done: int = 0, stream=None) -> Any:
  """Returns a progress_bar.Bar, or without a terminal a NoBar."""
  stream = stream or sys.stderr
  if not _shows_bars(stream):
    return NoBar()
  # Importing tqdm takes 40 ms, which only terminals need.
  from common import progress_bar

  return progress_bar.Bar(
    total=total,
    initial=done,
    file=stream,
    bar_format=progress_bar.FORMAT,
    dynamic_ncols=True,
  )


def interval(seconds: float) -> str:
  """Returns a time as text: 3920 is "1:05:20", 65 is "01:05"."""
  minutes, rest = divmod(int(seconds), 60)
  hours, minutes = divmod(minutes, 60)
  return f"{hours}:" * (hours > 0) + f"{minutes:02}:{rest:02}"


def _shows_bars(stream) -> bool:
  if type(stream).__module__.startswith("ipykernel."):
    return True  # A notebook rewrites a line like a terminal.
  try:
    # Some containers' terminals have no size; tqdm would show nothing there.
    return stream.isatty() and all(os.get_terminal_size(stream.fileno()))
  except OSError:
    return True


class Progress:
  """Shows the parts, the rate, the remaining time and the completed share.

  12/32 shards  812,345 words/s  03:10 left   37%|#########               |
  """

  def __init__(
    self, total: float, *, parts: int, part_name: str, unit: str, stream=None
  ):
    """Starts the clock.

    `total` is the sum of `work` over all calls of `advance`, one call per part.
    `part_name` and `unit` (for the rate) are plural nouns to show.
    """
    self._total, self._parts = total, parts
    self._part_name, self._unit = part_name, unit
    self._stream = stream or sys.stderr
    self._done: float = 0
    self._done_parts = self._units = 0
    self._start = self._last_shown = time.monotonic()
    self._bar = bar(total, stream=self._stream)

  def advance(self, work: float, units: int) -> None:
    """Records a finished part: its share of `total`, and its count of units."""
    self._done += work
    self._done_parts += 1
    self._units += units
    now = time.monotonic()
    is_last = self._done_parts == self._parts
    self._bar.describe(self._rate(now - self._start))
    self._bar.update(work)
    is_due = is_last or now - self._last_shown >= _SECONDS_BETWEEN_LINES
    if is_due and self._bar.disable:
      self._last_shown = now
      print(self.line(now - self._start), file=self._stream, flush=True)
    if is_last:
      self._bar.close()

  def _rate(self, seconds: float) -> str:
    rate = self._units / max(seconds, 1e-9)
    return (
      f"{self._done_parts}/{self._parts} {self._part_name}  "
      f"{rate:,.0f} {self._unit}/s"
    )

  def line(self, seconds: float) -> str:
    """Returns the line after `seconds` of work."""
    fraction = self._done / max(1, self._total)
    # The estimate assumes that the rest has the same speed.
    left = interval(seconds / max(fraction, 1e-9) * (1 - fraction))
    return f"{self._rate(seconds)}  {left} left  {fraction:6.1%}"
