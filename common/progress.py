"""How far a long job is: a line that is rewritten, or one now and then."""

import sys
import time

_BAR_WIDTH = 24
# Where standard error is no terminal, a line comes this often.
_SECONDS_BETWEEN_LINES = 30.0
_SECONDS_BETWEEN_REDRAWS = 0.2


class Progress:
  """Tells how much is done, at which rate, and when the rest will be.

  [#########               ]  37.5 %  12/32 shards  812,345 words/s  ETA 0:03:10
  """

  def __init__(self, total, *, parts, part_name, unit, stream=None):
    """Starts the clock.

    Args:
      total: the amount of work, in whatever `advance` counts.
      parts: the number of parts that the work has, `part_name`s.
      part_name: what the parts are called, in the plural.
      unit: what the rate counts, in the plural.
      stream: where to write; standard error if None.
    """
    self._total, self._parts = total, parts
    self._part_name, self._unit = part_name, unit
    self._stream = stream or sys.stderr
    self._done = self._done_parts = self._units = 0
    self._start = self._told = time.monotonic()

  def advance(self, work, units):
    """Takes note of one more part done: its share of `total`, its units."""
    self._done += work
    self._done_parts += 1
    self._units += units
    now = time.monotonic()
    is_terminal = self._stream.isatty()
    pause = _SECONDS_BETWEEN_REDRAWS if is_terminal else _SECONDS_BETWEEN_LINES
    is_last = self._done_parts == self._parts
    if is_last or now - self._told >= pause:
      self._told = now
      end = "\n" if is_last or not is_terminal else ""
      start = "\r" if is_terminal else ""
      self._stream.write(f"{start}{self.line(now - self._start)}{end}")
      self._stream.flush()

  def line(self, seconds):
    """Returns the line after `seconds` of work."""
    fraction = self._done / max(1, self._total)
    bar = "#" * int(_BAR_WIDTH * fraction)
    rate = self._units / max(seconds, 1e-9)
    left = seconds / max(fraction, 1e-9) * (1 - fraction)
    return (
      f"[{bar:{_BAR_WIDTH}}] {fraction:6.1%}  {self._done_parts}/{self._parts} "
      f"{self._part_name}  {rate:,.0f} {self._unit}/s  ETA {_clock(left)}"
    )


def _clock(seconds):
  minutes, seconds = divmod(round(seconds), 60)
  hours, minutes = divmod(minutes, 60)
  return f"{hours}:{minutes:02}:{seconds:02}"
