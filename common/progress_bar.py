"""A progress bar on a terminal; see progress.bar."""

import tqdm

# tqdm gives {bar} the columns that are left, and cuts off what does not fit.
FORMAT = "{desc}  {remaining} left  {percentage:3.0f}%|{bar}|"
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
