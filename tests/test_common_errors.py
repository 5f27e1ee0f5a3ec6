"""The one sentence that a user's mistake ends a script with."""

import errno

import pytest

from common import errors


@pytest.fixture(autouse=True)
def script_name(monkeypatch):
  monkeypatch.delenv("BERT_TRACEBACK", raising=False)
  monkeypatch.setattr("sys.argv", ["some/folder/run_thing.py", "--flag"])


def raising(error):
  def main(argv):
    raise error

  return main


@pytest.mark.parametrize("error, sentence", [
  (errors.InputError("a.txt:3: no tab; write one"), "a.txt:3: no tab; "),
  (FileNotFoundError(errno.ENOENT, "No such file or directory", "a.txt"),
   "No such file or directory: a.txt"),
  (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
  (OSError("the disk is gone"), "the disk is gone"),
  (MemoryError("9 GB"), "not enough memory (9 GB); lower the batch size"),
  (type("ResourceExhaustedError", (Exception,), {})("OOM"),
   "not enough memory (OOM); "),
])
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


def report(error, capsys):
  """Returns the exit code and what was said."""
  with pytest.raises(SystemExit) as stopped:
    errors.report_input_errors(raising(error))([])
  return stopped.value.code, capsys.readouterr().err


@pytest.mark.parametrize("error, said", [
  (KeyError("ours"), "KeyError: 'ours'"),
  (ValueError("ours\nin two lines"), "ValueError: ours"),
  (AssertionError(), "AssertionError"),
])
def test_a_fault_of_ours_is_a_sentence_and_a_file(
  capsys, monkeypatch, tmp_path, error, said
):
  monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
  code, text = report(error, capsys)
  [path] = tmp_path.iterdir()
  assert code == 1
  assert text == f"run_thing.py: error: {said}; the details are in {path}\n"
  assert path.name.startswith("run_thing-")
  assert "raise error" in path.read_text()
  # A full disk: shown instead.
  monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
  assert "raise error" in report(error, capsys)[1]


def test_tracebacks_are_shown_where_asked_for(capsys, monkeypatch):
  monkeypatch.setenv("BERT_TRACEBACK", "1")
  assert "raise error" in report(OSError("gone"), capsys)[1]
  assert "raise error" not in report(errors.InputError("a"), capsys)[1]


def test_an_interrupt_is_a_word_and_code_130(capsys):
  assert report(KeyboardInterrupt(), capsys) == (
    130, "\nrun_thing.py: interrupted\n"
  )


def test_another_exit_code_passes_through():
  with pytest.raises(SystemExit) as stopped:
    errors.report_input_errors(raising(SystemExit(75)))([])
  assert stopped.value.code == 75


def test_a_main_without_errors_is_left_alone():
  def main(argv):
    """Does a thing."""
    return len(argv)

  wrapped = errors.report_input_errors(main)
  assert wrapped(["a", "b"]) == 2
  assert (wrapped.__name__, wrapped.__doc__) == ("main", "Does a thing.")
