"""Native messages of an import go to log.txt, everything else to the screen."""

import os
import subprocess
import sys

import pytest

import serving_models
import test_layout
from common import native_messages

BANNER = (
  "WARNING: All log messages before absl::InitializeLog() is called are "
  "written to STDERR"
)
INFO = "I0000 00:00:1795902537.603665   10254 cudart_stub.cc:31] no GPU"
ERROR = "E0000 00:00:1795902537.603999   10254 cuda_dnn.cc:8301] no cuDNN"
PYTHON = "x.py:1: DeprecationWarning: é"


@pytest.fixture
def level(monkeypatch):
  monkeypatch.setattr(native_messages, "messages", [])
  monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
  return lambda value: monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", value)


def write():
  os.write(2, "\n".join([BANNER, INFO, PYTHON, ERROR, ""]).encode())


def test_native_messages_are_kept_and_others_are_shown(level, capfd):
  with native_messages.held_back():
    write()
  assert native_messages.messages == [BANNER, INFO, ERROR]
  assert capfd.readouterr().err == f"{PYTHON}\n"
  os.write(2, b"after\n")
  assert capfd.readouterr().err == "after\n"


def test_bytes_that_are_no_text_are_shown(level, capfdbinary):
  with native_messages.held_back():
    os.write(2, b"a \xff\n")
  assert capfdbinary.readouterr().err == "a \ufffd\n".encode()


def test_lines_keep_their_order_with_those_of_python(level, capfd, monkeypatch):
  """A stream of Python may keep a part of a line."""
  stream = open(2, "w", buffering=99, closefd=False)
  monkeypatch.setattr(sys, "stderr", stream)
  stream.write("before, ")
  with native_messages.held_back():
    os.write(2, b"within, ")
    stream.write("also within")
  os.write(2, b", after")
  assert capfd.readouterr().err == "before, within, also within, after"


def test_a_failed_import_shows_its_errors(level, capfd):
  with pytest.raises(ImportError):
    with native_messages.held_back():
      write()
      raise ImportError
  assert capfd.readouterr().err == f"{PYTHON}\n{ERROR}\n"


def test_level_0_shows_all_at_once(level, capfd):
  level("0")
  with native_messages.held_back():
    write()
    assert capfd.readouterr().err.splitlines() == [BANNER, INFO, PYTHON, ERROR]
  assert native_messages.messages == []


LOAD = (
  "from bert_tf2.serving import text_models; "
  f"text_models.load({str(serving_models.FOLDER)!r}).embed('a')"
)


@pytest.mark.parametrize("name", ["modeling", "keras_layer", "load"])
def test_python_programs_import_in_silence(name):
  """TensorFlow 2.21 itself writes four lines."""
  quiet = {k: v for k, v in os.environ.items() if k[:6] != "TF_CPP"}
  done = subprocess.run(
    [
      sys.executable,
      "-c",
      LOAD if name == "load" else f"from bert_tf2 import {name}",
    ],
    capture_output=True,
    text=True,
    cwd=test_layout.ROOT,
    env=quiet,
  )
  assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_stream_stops_nothing(tmp_path):
  code = (
    "from common import native_messages\n"
    "with native_messages.held_back(): print('imported')"
  )
  done = subprocess.run(
    ["sh", "-c", f'exec "{sys.executable}" -c "{code}" 2>&-'],
    stdout=subprocess.PIPE,
    cwd=test_layout.ROOT,
    text=True,
  )
  assert done.stdout == "imported\n"
