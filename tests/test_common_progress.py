"""progress.py: the line of progress, and when it is shown."""

import io
import os

import pytest

from common import progress


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
  assert bar.line(100.0) == " 25.0%  1/4 shards  300 words/s  ETA 05:00"


def test_a_file_gets_only_the_last_line():
  text = finished(io.StringIO())
  assert text.count("\n") == 1 and "100.0%  4/4 shards" in text


def test_a_terminal_gets_one_line_that_is_rewritten():
  text = finished(Screen())
  assert text.count("\r") >= 2 and text.count("\n") == 1
  last = text.strip().split("\r")[-1]
  assert last.startswith("100.0%|") and "  4/4 shards  " in last
  assert last.endswith("ETA 00:00")


@pytest.mark.parametrize("size, is_shown", [((40, 9), True), ((0, 0), False)])
def test_a_terminal_without_a_size_gets_no_bar(monkeypatch, size, is_shown):
  stream = Screen()
  stream.fileno = lambda: 2
  monkeypatch.setattr(os, "get_terminal_size", lambda number: size)
  assert progress.bar(4, stream=stream).disable != is_shown
