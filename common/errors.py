"""What a user can get wrong, said in one sentence.

A noun raises `InputError` with what came, what was expected and what to do;
a verb wraps its `main` in `report_input_errors`, which prints that sentence
and ends the process with exit code 1. Anything else is a fault of ours and
keeps its traceback.
"""

import contextlib
import functools
import os
import sys


class InputError(ValueError):
  """Something given by the user (flag, file, checkpoint) cannot be used."""


def require_text(text: str, place: str) -> None:
  """Refuses an empty text: the rule of every way in which texts come.

  Files, the standard input, Python and the server follow it for every head.
  As in the original: an empty text has vectors (extract_features.py, `encode`,
  `embed`), and empty texts in files of GLUE's tasks and SQuAD's form are read.

  Raises:
    InputError: there is nothing but white space.
  """
  if not text or text.isspace():
    raise InputError(
      f"{place}: an empty text; pass one with a character that is no space"
    )


_FAULTS_SHOWN = 20


class Faults:
  """What is wrong with a file, collected to be reported together.

  Attributes:
    found: list of str, a sentence each.
  """

  def __init__(self):
    self.found = []

  @contextlib.contextmanager
  def collected(self):
    """Takes the InputError that is raised within; what follows goes on."""
    try:
      yield
    except InputError as error:
      self.found.append(str(error))

  def refuse(self, path):
    """Ends the reading of a file that has faults.

    Raises:
      InputError: there is one (then that is the message) or more.
    """
    # As it would be without this class: no list of one.
    if len(self.found) == 1:
      raise InputError(self.found[0])
    if self.found:
      raise InputError(
        f"{path}: {len(self.found)} faults; fix them:{listed(self.found)}"
      )


def listed(faults):
  """Returns lines for the end of a message: the first 20 faults and a count."""
  shown = "".join(f"\n  {fault}" for fault in faults[:_FAULTS_SHOWN])
  more = len(faults) - _FAULTS_SHOWN
  return shown + (f"\n  ... and {more} more" if more > 0 else "")


def report_input_errors(main):
  """Wraps a script's `main`: an InputError or OSError becomes one sentence.

  Args:
    main: function of absl's `argv`.

  Returns:
    A function for `absl.app.run` that prints "<script>: error: <sentence>" on
    standard error and exits with code 1 where `main` raises InputError, or
    OSError (a missing, unreadable or unwritable file, a full disk), or where
    memory runs out.
  """

  @functools.wraps(main)
  def wrapped(argv):
    try:
      return main(argv)
    except InputError as error:
      sentence = str(error)
    except OSError as error:
      # str(error) would begin with "[Errno 2]".
      named = f": {error.filename}" if error.filename else ""
      sentence = f"{error.strerror or error}{named}"
    except Exception as error:
      # The second one is TensorFlow's, which may not be there.
      if not isinstance(error, MemoryError) and (
        type(error).__name__ != "ResourceExhaustedError"
      ):
        raise
      sentence = (
        f"not enough memory ({error}); lower the batch size or "
        "--max_seq_length, take a smaller model, or lift the limit (ulimit -v)"
      )
    script = os.path.basename(sys.argv[0])
    print(f"{script}: error: {sentence}", file=sys.stderr)
    sys.exit(1)

  return wrapped
