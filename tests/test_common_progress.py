"""progress.py: the line of progress, and when it is shown."""

import io
import os
import subprocess
import sys

import pytest

from common import progress
from script_runner import ROOT


class Screen(io.StringIO):
  """A stream that claims to be a terminal."""

  def isatty(self):
    return True


def make(stream):
  return progress.Progress(
    200, parts=4, part_name="shards", unit="words", stream=stream
  )


def finished(stream):
  """Reports four parts; returns the text that the stream received."""
  bar = make(stream)
  for _ in range(4):
    bar.advance(50, 1)
  return stream.getvalue()


def test_the_line_has_share_parts_rate_and_remaining_time():
  bar = make(io.StringIO())
  assert "100" not in bar.line(0.0)
  bar.advance(50, 30000)
  assert bar.line(100.0) == "1/4 shards  300 words/s  05:00 left   25.0%"


def test_a_file_gets_only_the_last_line():
  text = finished(io.StringIO())
  assert text.count("\n") == 1 and text.startswith("4/4 shards  ")
  assert text.endswith("100.0%\n")


def test_a_terminal_gets_one_line_that_is_rewritten():
  text = finished(Screen())
  assert text.count("\r") >= 2 and text.count("\n") == 1
  last = text.strip().split("\r")[-1]
  assert last.startswith("4/4 shards  ") and "  00:00 left  100%|" in last


def drawn():
  """Returns a bar, and a function that draws it in a width and returns it."""
  bar = progress.bar(9, stream=Screen())
  bar.pos = 0  # Other tests leave bars on the screen.

  def draw(width):
    bar.dynamic_ncols = lambda stream: (width, 24)
    start = len(bar.fp.getvalue())
    bar.describe("step 3/9  loss 2.5", "rate 0.1")
    bar.refresh()
    return bar.fp.getvalue()[start:]

  return bar, draw


@pytest.mark.parametrize(
  "columns, has_details",
  # The texts have 28 columns; the bar needs 24 more.
  [(120, True), (80, True), (52, True), (51, False), (20, False)],
)
def test_the_numbers_come_first_and_the_rest_where_it_fits(
  columns, has_details
):
  bar, draw = drawn()
  bar.update(3)
  line = draw(columns).split("\r")[-1]
  assert line.startswith("step 3/9  loss 2.5") and len(line.rstrip()) <= columns
  assert ("  rate 0.1  " in line) == has_details
  assert columns < 40 or " left   33%|" in line


def test_a_resized_window_leaves_nothing_behind():
  _, draw = drawn()
  assert "\x1b" not in draw(120)
  narrow = draw(50)
  # The old line has wrapped to three rows.
  assert narrow.startswith("\r\x1b[2A\x1b[J\r")
  # No spaces overwrite the longer line, which would wrap again.
  assert len(narrow.split("\r")[-1]) <= 50
  assert draw(90).startswith("\r\x1b[J\r")


def test_a_resized_window_shows_the_texts_that_fit_now():
  bar, draw = drawn()
  assert "rate 0.1" in draw(120)
  for width, has_details in ((50, False), (120, True)):
    start = len(bar.fp.getvalue())
    bar.dynamic_ncols = lambda stream, width=width: (width, 24)
    bar.refresh()
    assert ("rate 0.1" in bar.fp.getvalue()[start:]) == has_details


def test_new_texts_are_drawn_with_the_next_step():
  bar, draw = drawn()
  draw(120)
  before = bar.fp.getvalue()
  bar.describe("step 4/9")
  assert bar.fp.getvalue() == before


@pytest.mark.parametrize("width", [80, 30])
def test_a_cleared_bar_leaves_an_empty_line(width):
  """The log clears the bar before it writes a line."""
  bar, draw = drawn()
  draw(80)
  start = len(bar.fp.getvalue())
  bar.dynamic_ncols = lambda stream: (width, 24)
  bar.clear()
  written = bar.fp.getvalue()[start:]
  if width == 80:
    assert written.startswith("\r") and not written.strip()
  else:
    assert written.startswith("\r\x1b[2A\x1b[J")


@pytest.mark.parametrize(
  "size, is_shown",
  [((40, 9), True), ((0, 0), False), ((40, 0), False), ((0, 9), False)],
)
def test_a_terminal_without_a_size_gets_no_bar(monkeypatch, size, is_shown):
  stream = Screen()
  stream.fileno = lambda: 2
  monkeypatch.setattr(os, "get_terminal_size", lambda number: size)
  assert progress.bar(4, stream=stream).disable != is_shown


@pytest.mark.parametrize(
  "seconds, text",
  [(0.9, "00:00"), (65, "01:05"), (3599, "59:59"), (3920.5, "1:05:20")],
)
def test_an_interval_as_text(seconds, text):
  assert progress.interval(seconds) == text


def test_only_a_terminal_needs_tqdm():
  code = (
    "import sys; from common import progress\n"
    "done = progress.Progress(1, parts=1, part_name='parts', unit='lines')\n"
    "done.advance(1, 5); print('tqdm' in sys.modules)"
  )
  run = subprocess.run(
    [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
  )
  assert run.stdout == "False\n" and "1/1 parts" in run.stderr


def test_a_notebook_has_a_bar():
  notebook = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.io"})
  assert not progress.bar(4, stream=notebook()).disable


def test_a_resumed_job_starts_with_what_is_done():
  bar = progress.bar(9, 3, stream=Screen())
  assert (bar.n, bar.total) == (3, 9)
  assert progress.bar(9, stream=Screen()).n == 0


def test_a_bar_follows_the_width_of_its_terminal():
  assert callable(progress.bar(9, stream=Screen()).dynamic_ncols)


@pytest.mark.parametrize(
  "seconds, text",
  [(0.9, "00:00"), (65, "01:05"), (3599, "59:59"), (3600, "1:00:00")],
)
def test_a_time_has_hours_if_it_needs_them(seconds, text):
  assert progress.interval(seconds) == text


def test_a_file_gets_a_line_every_half_a_minute(monkeypatch):
  class File(io.StringIO):
    flushed = 0

    def flush(self):
      self.flushed = self.getvalue().count("\n")

  times = iter([1000.0, 1029.0, 1030.0, 1059.0, 1059.0])
  monkeypatch.setattr(progress.time, "monotonic", lambda: next(times))
  stream = File()
  bar = make(stream)
  flushed = []
  for _ in range(4):
    bar.advance(50, 300)
    flushed.append(stream.flushed)
  assert flushed == [0, 1, 1, 2]
  rates = [line.split("  ")[1] for line in stream.getvalue().splitlines()]
  assert rates == ["20 words/s", "20 words/s"]
