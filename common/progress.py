"""Shows the progress of a long job: a bar on a terminal, otherwise lines."""

import os
import sys
import time

import tqdm

# The interval between lines if standard error is not a terminal.
_SECONDS_BETWEEN_LINES = 30.0
_BAR_FORMAT = "{percentage:5.1f}%|{bar:24}|  {desc}  ETA {remaining}"


def bar(total: float, done: int = 0, stream=None) -> tqdm.tqdm:
  """Returns a progress bar, which is disabled without a terminal."""
  stream = stream or sys.stderr
  return tqdm.tqdm(
    total=total,
    initial=done,
    file=stream,
    disable=not _shows_bars(stream),
    bar_format=_BAR_FORMAT,
    dynamic_ncols=True,
  )


interval = tqdm.tqdm.format_interval  # 3920 -> "1:05:20"


def _shows_bars(stream):
  try:
    # Some containers' terminals have no size; tqdm would show nothing there.
    return stream.isatty() and all(os.get_terminal_size(stream.fileno()))
  except OSError:
    return True


class Progress:
  """Shows the completed share, the rate, and the remaining time.

  37.5%|#########               |  12/32 shards  812,345 words/s  ETA 03:10
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
    # No refresh here: `update` draws when tqdm's interval has passed.
    self._bar.set_description_str(self._rate(now - self._start), refresh=False)
    self._bar.update(work)
    is_due = is_last or now - self._last_shown >= _SECONDS_BETWEEN_LINES
    if is_due and self._bar.disable:
      self._last_shown = now
      print(self.line(now - self._start), file=self._stream, flush=True)
    if is_last:
      self._bar.close()

  def _rate(self, seconds):
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
    return f"{fraction:6.1%}  {self._rate(seconds)}  ETA {left}"
