"""Lines answered as they come."""

import io
import os
import subprocess
import sys
import threading

import pytest

import script_runner
from common import errors, line_answers


def shout(lines):
  if any("?" in text for _, text in lines):
    raise errors.InputError("no questions")
  return [f"{number} {text.upper()}" for number, text in lines]


def told(number, error):
  return f"{number}: {error}"


def answers(source, **options):
  target = io.StringIO()
  bad = line_answers.answer_lines(
    source, target, shout, format_error=told, **options
  )
  return bad, target.getvalue()


@pytest.mark.parametrize("batch_size", [1, 2, 9])
def test_each_line_has_its_answer_or_what_is_wrong(batch_size):
  source = io.BytesIO(b"a b\r\n \nwhy?\n\xff\nc")
  bad, written = answers(source, batch_size=batch_size)
  first, empty, *others = written.splitlines()
  assert (bad, first) == (3, "1 A B")
  assert empty.startswith("2: the line: an empty text")
  assert others == [
    "3: no questions", "4: not UTF-8 (byte 0 of the line); send UTF-8", "5 C"
  ]


def test_empty_lines_may_be_answered_as_others_are():
  assert answers(io.BytesIO(b"\na\n"), takes_empty=True) == (0, "1 \n2 A\n")


def test_a_script_may_end_while_a_line_is_awaited():
  """The thread that waits for the standard input must not abort Python."""
  code = (
    "from common import line_answers\n"
    "source, _ = line_answers.standard_streams()\n"
    "for lines in line_answers.read_batches(source, 1): raise SystemExit(3)"
  )
  with subprocess.Popen(
    [sys.executable, "-c", code], stdin=subprocess.PIPE,
    stderr=subprocess.PIPE, cwd=script_runner.ROOT,
  ) as process:
    process.stdin.write(b"a\n")
    process.stdin.flush()  # And the pipe stays open.
    assert process.wait(20) == 3, process.stderr.read()


def test_a_line_is_answered_before_the_next_one_comes():
  answered = threading.Event()

  def source():
    yield b"a\n"
    assert answered.wait(10)
    yield b"b\n"

  class Target(io.StringIO):
    def flush(self):
      answered.set()

  target = Target()
  line_answers.answer_lines(
    source(), target, shout, format_error=told, batch_size=8
  )
  assert target.getvalue() == "1 A\n2 B\n"


def test_lines_that_are_there_are_answered_together():
  batches = list(line_answers.read_batches([b"a", b"b", b"c"], 2))
  numbered = [pair for lines in batches for pair in lines]
  assert numbered == [(1, b"a"), (2, b"b"), (3, b"c")]
  assert max(map(len, batches)) <= 2


def test_a_bad_line_leaves_the_others_together(monkeypatch):
  asked, target = [], io.StringIO()

  def answer(lines):
    asked.append(len(lines))
    return shout(lines)

  lines = [(n, b"a?" if n == 61 else b"b") for n in range(1, 129)]
  monkeypatch.setattr(line_answers, "read_batches", lambda *_: [lines])
  line_answers.answer_lines([], target, answer, format_error=told)
  *before, error, after = target.getvalue().splitlines()[:62]
  assert before == [f"{number} B" for number in range(1, 61)]
  assert (error, after) == ("61: no questions", "62 B")
  # All, then two halves at each of the seven halvings down to one line.
  assert len(asked) == 1 + 2 * 7


@pytest.mark.parametrize("count", [500, 5000])
def test_lines_in_memory_do_not_grow_with_their_number(count):
  held = []

  class Target(io.StringIO):
    answered = 0

    def write(self, line):
      self.answered += 1
      return super().write(line)

  target = Target()

  def source():
    for number in range(count):
      held.append(number + 1 - target.answered)
      yield b"a\n"

  line_answers.answer_lines(
    source(), target, shout, format_error=told, batch_size=16
  )
  assert target.answered == count
  assert max(held) <= 6 * 16  # A batch, and those that are read ahead.


@pytest.mark.parametrize("is_terminal, shown", [
  (True, "a\tb\\x1b[2J\\x9bc\\x0d\n"), (False, "a\tb\x1b[2J\x9bc\r\n"),
])
def test_a_terminal_gets_no_escape_sequences(monkeypatch, is_terminal, shown):
  class Stream(io.StringIO):
    def reconfigure(self, encoding):
      assert encoding == "utf-8"

    def isatty(self):
      return is_terminal

  stream = Stream(newline="")
  monkeypatch.setattr("sys.stdout", stream)
  monkeypatch.setattr("sys.stdin", open(os.devnull))
  _, target = line_answers.standard_streams()
  print("a\tb\x1b[2J\x9bc\r", file=target, flush=True)
  assert stream.getvalue() == shown
