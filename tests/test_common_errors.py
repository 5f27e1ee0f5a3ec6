"""The one sentence that a user's mistake ends a script with."""

import errno

import pytest

from common import errors


@pytest.fixture(autouse=True)
def script_name(monkeypatch):
  monkeypatch.setattr("sys.argv", ["some/folder/run_thing.py", "--flag"])


def raising(error):
  def main(argv):
    raise error

  return main


@pytest.mark.parametrize(
  "error, sentence",
  [
    (errors.InputError("a.txt:3: no tab; write one"), "a.txt:3: no tab; "),
    (
      FileNotFoundError(errno.ENOENT, "No such file or directory", "a.txt"),
      "No such file or directory: a.txt",
    ),
    (
      OSError(errno.ENOSPC, "No space left on device"),
      "No space left on device",
    ),
    (OSError("the disk is gone"), "the disk is gone"),
    (MemoryError("9 GB"), "not enough memory (9 GB); lower the batch size"),
    (
      type("ResourceExhaustedError", (Exception,), {})("OOM"),
      "not enough memory (OOM); ",
    ),
  ],
)
def test_a_users_mistake_is_one_sentence_and_exit_code_1(
  capsys, error, sentence
):
  with pytest.raises(SystemExit) as stopped:
    errors.report_input_errors(raising(error))(["run_thing.py"])
  assert stopped.value.code == 1
  printed = capsys.readouterr()
  assert printed.out == ""
  assert printed.err.startswith(f"run_thing.py: error: {sentence}")
  assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
  "error", [ValueError("ours"), KeyError("ours"), SystemExit(75)]
)
def test_anything_else_is_our_own_and_passes_through(capsys, error):
  with pytest.raises(type(error)) as raised:
    errors.report_input_errors(raising(error))([])
  assert raised.value is error
  assert capsys.readouterr().err == ""


def test_a_main_without_errors_is_left_alone():
  def main(argv):
    """Does a thing."""
    return len(argv)

  wrapped = errors.report_input_errors(main)
  assert wrapped(["a", "b"]) == 2
  assert (wrapped.__name__, wrapped.__doc__) == ("main", "Does a thing.")
