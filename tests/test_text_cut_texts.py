"""Texts that were cut are counted, and named in few lines."""

import pytest

from text import cut_texts


@pytest.fixture
def clock(monkeypatch):
  """A list with the time in seconds."""
  times = [100.0]
  monkeypatch.setattr(cut_texts.time, "monotonic", lambda: times[0])
  return times


def test_each_call_says_what_was_cut_since_the_last_line(clock, caplog):
  cut = cut_texts.CutTexts(4, "pairs")
  for counts in ((0, 3), (2, 5), (0, 1), (1, 1)):
    cut.add(*counts)
    cut.log("a.txt")
  line = "a.txt: {} pairs are longer than 4 tokens and were cut"
  assert caplog.messages == [line.format("2 of 5"), line.format("1 of 1")]


def test_a_server_says_it_once_in_a_while(clock, caplog):
  cut = cut_texts.CutTexts(4)
  cut.add(0, 6)
  cut.log(seconds=60)
  for seconds in (0, 59, 1, 60):
    clock[0] += seconds
    cut.add(1)
    cut.log(seconds=60)
  assert [message.partition(" are")[0] for message in caplog.messages] == [
    "1 of 7 texts",
    "2 of 2 texts",
    "1 of 1 texts",
  ]
