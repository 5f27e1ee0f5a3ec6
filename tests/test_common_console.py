"""The screen shows few messages, and the run's log file has all of them."""

import errno
import io
import logging
import sys
import types

import pytest
from absl import logging as absl_logging

from common import console, native_messages


@pytest.fixture
def screen(monkeypatch, capsys):
  """Yields capsys, and restores the log handlers and the verbosity."""
  root = logging.getLogger()
  handlers, verbosity = [*root.handlers], absl_logging.get_verbosity()
  monkeypatch.setattr(console, "_keeper", console._make_keeper())
  monkeypatch.setattr(native_messages, "messages", ["E0000 x.cc:1] no GPU"])
  yield capsys
  root.handlers[:] = handlers
  absl_logging.set_verbosity(verbosity)


def log_every_level():
  absl_logging.debug("a detail")
  absl_logging.info("news")
  absl_logging.warning("%s", "careful")
  record = logging.LogRecord(
    "absl", logging.WARNING, "/lib/tensorflow/python/x.py", 1, "blah", (), None
  )
  logging.getLogger().handle(record)


def shown(capsys):
  lines = capsys.readouterr().err.splitlines()
  return [line.partition(" ")[2] for line in lines]


@pytest.mark.parametrize(
  "prepare, lines",
  [
    (lambda: console.start(logging.INFO), ["news", "warning: careful"]),
    (lambda: console.start(logging.WARNING), ["warning: careful"]),
    (
      lambda: (console.start(logging.INFO), console.show_warnings_alone()),
      ["warning: careful"],
    ),
    (
      lambda: (console.start(logging.INFO), console.show_details()),
      ["a detail", "news", "warning: careful", "warning: blah"],
    ),
  ],
)
def test_the_screen_shows_the_levels_of_its_mode(screen, prepare, lines):
  prepare()
  log_every_level()
  assert shown(screen) == lines


def test_errors_of_tensorflow_are_shown(screen):
  console.start(logging.INFO)
  for level in (logging.WARNING, logging.ERROR):
    record = logging.LogRecord(
      "absl", level, "/lib/tensorflow/x.py", 1, f"at {level}", (), None
    )
    logging.getLogger().handle(record)
  assert shown(screen) == [f"error: at {logging.ERROR}"]


@pytest.mark.parametrize("has_bars", [False, True])
def test_a_line_is_written_above_a_bar(screen, monkeypatch, has_bars):
  written = []

  class Bars:
    @staticmethod
    def write(text, file):
      written.append((text.partition(" ")[2], file))

  monkeypatch.delitem(sys.modules, "tqdm", raising=False)
  if has_bars:
    monkeypatch.setitem(sys.modules, "tqdm", types.SimpleNamespace(tqdm=Bars))
  console.start(logging.INFO)
  absl_logging.info("news")
  assert written == ([("news", sys.stderr)] if has_bars else [])
  assert shown(screen) == ([] if has_bars else ["news"])


def test_the_handlers_of_absl_and_tensorflow_are_replaced(screen):
  tensorflow = logging.getLogger("tensorflow")
  for logger in (logging.getLogger(), tensorflow):
    logger.addHandler(logging.NullHandler())
  console.start(logging.INFO)
  assert logging.getLogger().handlers == [console._screen, console._keeper]
  assert not tensorflow.handlers


def test_a_session_leaves_nothing_behind(screen, tmp_path):
  root, functions = logging.getLogger(), []
  absl_logging.set_verbosity(absl_logging.WARNING)
  before = [*root.handlers], absl_logging.get_verbosity(), root.level
  keeper = console._keeper
  with console.session():
    absl_logging.info("news")
    console.when_kept.append(functions.append)
    console.keep_in(str(tmp_path))
    file = console._keeper.target
    root.setLevel(logging.ERROR)
  console._keeper = keeper
  assert shown(screen) == ["news"] and functions == [str(tmp_path)]
  assert "] news" in (tmp_path / "log.txt").read_text()
  assert file.stream is None and not console.when_kept
  after = [*root.handlers], absl_logging.get_verbosity(), root.level
  assert after == before


def test_each_line_is_in_the_file_at_once(screen, tmp_path):
  console.start(logging.INFO)
  absl_logging.info("before")
  console.keep_in(str(tmp_path))
  assert (tmp_path / "log.txt").read_text().endswith("before\n")
  absl_logging.info("after")
  assert (tmp_path / "log.txt").read_text().endswith("after\n")


def test_a_server_keeps_few_lines():
  """It never opens a file."""
  keeper = console._make_keeper()
  for _ in range(20_000):
    keeper.buffer.append(None)
  assert len(keeper.buffer) <= 10_000


def test_a_full_disk_is_named_once(screen, tmp_path, monkeypatch):
  console.start(logging.INFO)
  console.keep_in(str(tmp_path))

  class Full(io.StringIO):
    def write(self, text):
      raise OSError(errno.ENOSPC, "No space left on device")

  monkeypatch.setattr(console._keeper.target, "stream", Full())
  for _ in range(2):
    absl_logging.debug("a detail")
  (line,) = shown(screen)
  assert line.startswith(
    f"warning: {tmp_path}/log.txt cannot be written (No sp"
  )


def test_the_log_file_has_everything_from_the_start(screen, tmp_path):
  console.start(logging.INFO)
  absl_logging.debug("before the folder is known \udcff")
  console.keep_in(str(tmp_path / "none"))
  console.keep_in(str(tmp_path))
  log_every_level()
  (tmp_path / "seed_1").mkdir()
  console.keep_in(str(tmp_path / "seed_1"))
  lines = (tmp_path / "log.txt").read_text().splitlines()
  assert [line.split("] ", 1)[1] for line in lines] == [
    "E0000 x.cc:1] no GPU",
    r"before the folder is known \udcff",
    "a detail",
    "news",
    "careful",
    "blah",
  ]
  assert " D test_common_console.py:" in lines[1]
  assert not (tmp_path / "seed_1" / "log.txt").exists()


def test_a_library_writes_no_file(screen, tmp_path):
  console.keep_in(str(tmp_path))
  assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
  "is_terminal, shown",
  [(True, "a\tb\\x1b[2J\\x9bc\\x0d\n"), (False, "a\tb\x1b[2J\x9bc\r\n")],
)
def test_a_terminal_gets_no_escape_sequences(monkeypatch, is_terminal, shown):
  stream = io.TextIOWrapper(io.BytesIO(), "ascii", newline="")
  stream.isatty = lambda: is_terminal
  monkeypatch.setattr("sys.stdout", stream)
  console.print_line("a\tb\x1b[2J\x9bc\r", flush=True)
  assert stream.buffer.getvalue().decode() == shown
