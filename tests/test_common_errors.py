"""A user's mistake ends a script with one sentence."""

import errno

import pytest
from absl import logging

from common import errors


@pytest.fixture(autouse=True)
def script_name(monkeypatch):
  monkeypatch.delenv("BERT_TRACEBACK", raising=False)
  monkeypatch.setattr("sys.argv", ["some/folder/run_thing.py", "--flag"])


def raising(error):
  def main(argv):
    raise error

  return main


def of_tensorflow(name, message):
  """Returns an exception like TensorFlow's."""
  module = {"__module__": "tensorflow.python.framework", "error_code": 8}
  return type(name, (Exception,), {**module, "message": message})(message)


def report(error, capsys):
  """Returns the exit code and the text on standard error."""
  with pytest.raises(SystemExit) as stopped:
    errors.report_input_errors(raising(error))(["run_thing.py"])
  printed = capsys.readouterr()
  assert printed.out == ""
  return stopped.value.code, printed.err


@pytest.mark.parametrize(
  "error, start",
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
    (
      ModuleNotFoundError("No module named 'tqdm'", name="tqdm"),
      "tqdm is not installed: run pip install tqdm, or, in a clone of this ",
    ),
    (MemoryError("9 GB"), "not enough memory (9 GB); lower the batch size"),
    (
      of_tensorflow("ResourceExhaustedError", "OOM"),
      "not enough memory (OOM); ",
    ),
    # TensorFlow has the same exception for a full disk.
    (
      of_tensorflow(
        "ResourceExhaustedError",
        "{{node Save}} /tmp/a.data; No space left on device [Op:SaveV2]",
      ),
      "/tmp/a.data; No space left on device; make room, and run the same ",
    ),
    (
      of_tensorflow("UnknownError", "/tmp/a.data; Input/output error"),
      "/tmp/a.data; Input/output error; check the disk",
    ),
    (
      OSError(errno.EROFS, "Read-only file system", "a/b.txt"),
      "Read-only file system: a/b.txt; pass a folder that can be written",
    ),
  ],
)
def test_a_users_mistake_is_one_sentence_and_exit_code_1(capsys, error, start):
  code, text = report(error, capsys)
  assert code == 1 and text.count("\n") == 1
  assert text.startswith(f"run_thing.py: error: {start}")


@pytest.mark.parametrize(
  "module, names, is_its_own",
  [
    ("tensorflow.python.framework", {"error_code": 8}, True),
    ("tensorflow.python.framework", {}, False),
    ("grpc", {"error_code": 8}, False),
    ("tensorflowish", {"error_code": 8}, False),
  ],
)
def test_which_errors_are_tensorflows(module, names, is_its_own):
  error = type("AnyError", (Exception,), {"__module__": module, **names})()
  assert errors.is_of_tensorflow(error) == is_its_own
  assert errors.is_of_files(error) == is_its_own


def test_the_reason_of_tensorflows_errors_names_no_operation():
  error = of_tensorflow("UnknownError", "a  b\n {{node Save}} c [Op:SaveV2]")
  error.args = ("Graph execution error: ...",)
  assert errors.reason_of(error) == "a b c"
  assert errors.reason_of(errors.InputError("a  b")) == "a  b"


@pytest.mark.parametrize(
  "error, line",
  [
    (KeyError("ours"), "KeyError: 'ours'"),
    (ValueError("ours\nin two lines"), "ValueError: ours"),
    (AssertionError(), "AssertionError"),
    # An error of a package that derives from OSError.
    (
      type("OfNetwork", (OSError,), {"__module__": "requests"})("lost"),
      "OfNetwork: lost",
    ),
  ],
)
def test_a_bug_is_described_in_a_file(
  capsys, monkeypatch, tmp_path, error, line
):
  monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
  code, text = report(error, capsys)
  [path] = tmp_path.iterdir()
  assert code == 1
  assert text == f"run_thing.py: error: {line}; the details are in {path}\n"
  assert path.name.startswith("run_thing-")
  assert "raise error" in path.read_text()
  # If the file cannot be written, the traceback is shown.
  monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
  assert "raise error" in report(error, capsys)[1]


def test_a_lost_process_of_several_is_named(capsys, monkeypatch):
  error = type("UnavailableError", (Exception,), {})("Graph execution error:")
  monkeypatch.delenv("TF_CONFIG", raising=False)
  assert "UnavailableError: Graph execution error" in report(error, capsys)[1]
  monkeypatch.setenv("TF_CONFIG", "{}")
  code, text = report(error, capsys)
  assert code == errors.UNAVAILABLE and text.count("\n") == 1
  assert text.startswith("run_thing.py: error: another process of this run ")
  code, text = report(OSError("the disk is gone"), capsys)
  assert code == 1 and "another process" not in text


def test_tracebacks_are_shown_on_request(capsys, monkeypatch):
  monkeypatch.setenv("BERT_TRACEBACK", "1")
  assert "raise error" in report(OSError("gone"), capsys)[1]
  assert "raise error" not in report(errors.InputError("a"), capsys)[1]


@pytest.mark.parametrize(
  "error, code, message",
  [
    (KeyboardInterrupt(), 130, "\nrun_thing.py: interrupted\n"),
    (SystemExit(75), 75, ""),
  ],
)
def test_other_exits_keep_their_code(capsys, error, code, message):
  assert report(error, capsys) == (code, message)


def test_a_main_without_errors_is_left_alone():
  def main(argv):
    """Does a thing."""
    return len(argv)

  wrapped = errors.report_input_errors(main)
  assert wrapped(["a", "b"]) == 2
  assert (wrapped.__name__, wrapped.__doc__) == ("main", "Does a thing.")


def test_a_by_product_that_cannot_be_written_is_named(caplog):
  for error in (
    OSError(errno.ENOSPC, "No space left on device"),
    of_tensorflow("ResourceExhaustedError", "No space left on device"),
    errors.InputError("No space left on device"),
  ):
    with errors.by_product(f"{type(error)}.html"):
      raise error
    assert caplog.messages[-1] == (
      f"{type(error)}.html cannot be written (No space left on device); the run"
      " goes on without it"
    )
  with pytest.raises(KeyError), errors.by_product("a.html"):
    raise KeyError("ours")


def test_the_same_warning_is_logged_once(monkeypatch):
  logged = []
  monkeypatch.setattr(logging, "warning", lambda *values: logged.append(values))
  for message in ("a: key x is ignored", "a: 100 %", "a: key x is ignored"):
    errors.warn_once(message)
  assert logged == [("%s", "a: key x is ignored"), ("%s", "a: 100 %")]


def faults_of(count):
  """Returns the message for a file with this number of faults."""
  faults = errors.Faults()
  for number in range(count):
    with faults.collected():
      raise errors.InputError(f"a.txt:{number}: bad")
  with pytest.raises(errors.InputError) as raised:
    faults.refuse("a.txt")
  return str(raised.value).split("\n")


def test_the_faults_of_a_file_are_reported_together():
  errors.Faults().refuse("a.txt")  # There are none.
  assert faults_of(1) == ["a.txt:0: bad"]
  for count in (2, 20, 21):
    first, *lines = faults_of(count)
    assert first.startswith(f"a.txt: {count} faults")
    shown = [f"  a.txt:{number}: bad" for number in range(min(count, 20))]
    assert lines == shown + ["  ... and 1 more"] * (count > 20)


@pytest.mark.parametrize("text", ["", " \t\n"])
def test_an_empty_text_is_refused_with_its_place(text):
  errors.require_text(" a ")
  with pytest.raises(errors.InputError, match="^an empty text"):
    errors.require_text(text)
  with pytest.raises(errors.InputError, match="^b.txt:3: an empty text"):
    errors.require_text(text, "b.txt:3")


@pytest.mark.parametrize(
  "name, is_named",
  [("tensorflow", True), ("tensorflow.io", True), ("numpy", False), (None, 0)],
)
def test_a_missing_tensorflow_is_named(name, is_named):
  error = ModuleNotFoundError("No module", name=name)
  expected = errors.InputError if is_named else ModuleNotFoundError
  with pytest.raises(expected, match=name if is_named else "No module"):
    with errors.needs_tensorflow():
      raise error
