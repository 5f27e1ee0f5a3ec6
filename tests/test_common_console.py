"""The screen shows few messages, and the run's log file has all of them."""

import io
import logging

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
