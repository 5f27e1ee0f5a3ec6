"""Answers lines immediately, as a terminal or another process sends them.

The answers come from a function of a list of texts, independent of any model.
"""

import io
import queue
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TextIO

from common import errors

# Control characters except the tab and the line feed.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def standard_streams():
  """Returns the streams to read and write, in UTF-8 with any locale."""
  sys.stdout.reconfigure(encoding="utf-8")
  target = sys.stdout
  if target.isatty():
    target = _Terminal(target)
  # With sys.stdin.buffer, Python would abort at exit: it cannot close that
  # while the thread of `read_batches` still waits for a line.
  return open(sys.stdin.fileno(), "rb", closefd=False), target


class _Terminal(io.TextIOBase):
  """Writes to a terminal; escapes control characters of labels and texts."""

  def __init__(self, stream):
    super().__init__()
    self._stream = stream

  def write(self, text):
    return self._stream.write(_CONTROL.sub(
      lambda match: f"\\x{ord(match[0]):02x}", text
    ))

  def flush(self):
    self._stream.flush()


def answer_lines(
  source: Iterable[bytes], target: TextIO,
  answer: Callable[[list[tuple[int, str]]], list[str]], *,
  format_error: Callable[[int, errors.InputError], str], batch_size: int = 1,
  takes_empty: bool = False,
) -> int:
  """Reads lines and writes the answer to each immediately, in order.

  Lines that are waiting when the model is free are answered together. A line
  that is unreadable (not UTF-8, empty, or refused by `answer`) is answered by
  an error; the others are still answered. Returns how many lines were answered
  by an error.

  Args:
    target: flushed after each batch.
    answer: takes the numbers, from 1, and texts of some lines, and returns
      their answers, without line ends. It raises InputError if it cannot
      answer one of them; it is then called for fewer lines, down to one.
    format_error: returns the line in place of an answer.
    batch_size: at most N lines are answered together.
    takes_empty: whether a line of white space is answered like any other.
  """
  bad = 0
  for lines in read_batches(source, batch_size):
    texts, answers = {}, {}  # By the number of the line.
    for number, line in lines:
      try:
        text = decode(line)
        if not takes_empty:
          errors.require_text(text, "the line")
        texts[number] = text
      except errors.InputError as error:
        answers[number] = error
    answers.update(zip(texts, _answers(answer, list(texts.items()))))
    for number, _ in lines:
      result = answers[number]
      if isinstance(result, errors.InputError):
        bad += 1
        target.write(f"{format_error(number, result)}\n")
      else:
        target.write(f"{result}\n")
    target.flush()
  return bad


def require_all_answered(bad: int) -> None:
  """Raises InputError if lines (`bad` of them) were answered by errors."""
  if bad:
    raise errors.InputError(
      f"{bad} line{'s' * (bad > 1)} of the standard input could not be "
      "answered; the output has an error in place of each: fix them and send "
      "them again"
    )


def decode(line: bytes) -> str:
  """Returns a line without its end; raises InputError if it is not UTF-8."""
  try:
    return line.decode("utf-8").rstrip("\r\n")
  except UnicodeDecodeError as error:
    raise errors.InputError(
      f"not UTF-8 (byte {error.start} of the line); send UTF-8"
    ) from error


def _answers(answer, lines):
  """Returns the answer to each line, or the InputError that it raises."""
  if not lines:
    return []
  try:
    return answer(lines)
  except errors.InputError as error:
    if len(lines) == 1:
      return [error]
  # Lines are halved until the bad line is alone: the others are still
  # answered, and many of them together.
  middle = len(lines) // 2
  return _answers(answer, lines[:middle]) + _answers(answer, lines[middle:])


def read_batches(
  source: Iterable[bytes], batch_size: int
) -> Iterator[list[tuple[int, bytes]]]:
  """Yields lists of (number, line) with all lines that have arrived.

  It raises an error of reading after the lines that came before it.
  """
  waiting: queue.Queue = queue.Queue(maxsize=4 * batch_size)

  def read():
    failure = None
    try:
      for numbered in enumerate(source, 1):
        waiting.put(numbered)
    except Exception as error:
      failure = error
    waiting.put((None, failure))  # The end of the stream.

  threading.Thread(target=read, daemon=True).start()
  lines = []
  number, line = waiting.get()
  while number is not None:
    lines.append((number, line))
    # No other line has arrived: these lines are answered now.
    if len(lines) == batch_size or waiting.empty():
      yield lines
      lines = []
    number, line = waiting.get()
  if lines:
    yield lines
  if line:
    raise line
