"""Shows the progress of a long job: a bar on a terminal, otherwise lines."""

import os
import sys
import time

import tqdm

# The interval between lines if standard error is not a terminal.
_SECONDS_BETWEEN_LINES = 30.0
# tqdm gives {bar} the columns that are left, and cuts off what does not fit.
_BAR_FORMAT = "{desc}  {remaining} left  {percentage:3.0f}%|{bar}|"
_LEAST_BAR = 24  # Columns for the bar, the percentage and the remaining time.


class Bar(tqdm.tqdm):
  """A progress bar with its numbers first, for terminals of any width."""

  _width = 0  # Columns of the terminal when the bar was last drawn.
  _texts = ("", "")

  def describe(self, text: str, details: str = "") -> None:
    """Sets the texts; `details` are shown if the terminal is wide enough."""
    if self.disable:
      return
    self._texts = text, details
    both = "  ".join(filter(None, self._texts))
    columns = self._columns()
    fits = columns is None or len(both) + _LEAST_BAR <= columns
    # No refresh here: `update` draws when tqdm's interval has passed.
    self.set_description_str(both if fits else text, refresh=False)

  def display(self, msg: str | None = None, pos: int | None = None) -> bool:
    """Draws the bar; in a resized window, clears the old one first."""
    self._follow_window()
    return super().display(msg, pos)

  def clear(self, nolock: bool = False) -> None:
    """Clears the bar, before a line of the log is written."""
    if not self.disable:
      self._follow_window()
      super().clear(nolock)

  def _columns(self) -> int | None:
    return self.dynamic_ncols(self.fp)[0] if self.dynamic_ncols else None

  def _follow_window(self) -> None:
    columns = self._columns()
    if self._width and columns and columns != self._width:
      # A terminal wraps the old bar, of `_width` columns, in a narrower window.
      rows = -(-self._width // columns) - 1
      self.fp.write("\r" + f"\x1b[{rows}A" * (rows > 0) + "\x1b[J")
      # The new printer does not overwrite the old bar with spaces.
      self.sp = self.status_printer(self.fp)
      self.describe(*self._texts)
    self._width = columns or 0


def bar(total: float, done: int = 0, stream=None) -> Bar:
  """Returns a progress bar, which is disabled without a terminal."""
  stream = stream or sys.stderr
  return Bar(
    total=total,
    initial=done,
    file=stream,
    disable=not _shows_bars(stream),
    bar_format=_BAR_FORMAT,
    dynamic_ncols=True,
  )


interval = tqdm.tqdm.format_interval  # 3920 -> "1:05:20"


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
