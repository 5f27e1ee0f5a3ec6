"""Reads lines of standard input, and hands on what has arrived.

A thread reads ahead, so a pipe is as fast as a file, and a line that a user
types is answered at once.
"""

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

from common import file_io

_NAME = "standard input"
_Item = TypeVar("_Item")


def lines() -> Iterator[tuple[str, str]]:
  """Yields ("standard input:1", line) for each line; raises InputError."""
  # With a second stream, a waiting thread does not hold sys.stdin's lock.
  for number, line in enumerate(open(0, "rb", closefd=False), 1):
    try:
      yield f"{_NAME}:{number}", line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
      raise file_io.not_utf8(_NAME, number, error) from error


def as_they_arrive(items: Iterable[_Item], most: int) -> Iterator[list[_Item]]:
  """Yields lists of the items that have arrived, without waiting for more.

  A list has at most `most` items. An exception is raised after the items that
  precede it.
  """
  waiting: queue.Queue = queue.Queue(most)

  def read() -> None:
    end: Exception | None = None
    try:
      for item in items:
        waiting.put([item])
    except Exception as error:
      end = error
    waiting.put(end)

  threading.Thread(target=read, daemon=True).start()
  block: list[_Item] = []
  while isinstance(entry := waiting.get(), list):
    block += entry
    if len(block) == most or waiting.empty():
      yield block
      block = []
  if block:
    yield block
  if entry:
    raise entry
