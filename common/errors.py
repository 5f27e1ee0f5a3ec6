"""What a user can get wrong, said in one sentence.

A noun raises `InputError` with what came, what was expected and what to do;
a verb wraps its `main` in `report_input_errors`, which prints that sentence
and ends the process with exit code 1. Anything else is a fault of ours and
keeps its traceback.
"""

import functools
import os
import sys


class InputError(ValueError):
  """Something given by the user (flag, file, checkpoint) cannot be used."""


def report_input_errors(main):
  """Wraps a script's `main`: an InputError or OSError becomes one sentence.

  Args:
    main: function of absl's `argv`.

  Returns:
    A function for `absl.app.run` that prints "<script>: error: <sentence>" on
    standard error and exits with code 1 where `main` raises InputError, or
    OSError (a missing, unreadable or unwritable file, a full disk).
  """

  @functools.wraps(main)
  def wrapped(argv):
    try:
      return main(argv)
    except InputError as error:
      sentence = str(error)
    except OSError as error:
      named = f": {error.filename}" if error.filename else ""
      sentence = f"{error.strerror or error}{named}"
    script = os.path.basename(sys.argv[0])
    print(f"{script}: error: {sentence}", file=sys.stderr)
    sys.exit(1)

  return wrapped
