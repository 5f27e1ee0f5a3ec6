"""How a script starts: flags first, then TensorFlow; errors in a sentence.

A script defines its flags, calls `parse_flags(__name__)`, and only then
imports what needs TensorFlow: --help and a mistyped flag are answered in a
fraction of a second.
"""

import atexit
import gc
import os
import pathlib
import runpy
import sys

from absl import app

from common import errors, lazy_tensorflow

_parsed = []  # What absl left of the command line, once it is parsed.


def parse_flags(module_name, imports_tensorflow=True):
  """Parses the flags, or prints the help that they ask for and exits.

  Does nothing in a script that is imported instead of run.

  Args:
    module_name: the script's `__name__`.
    imports_tensorflow: whether every run needs TensorFlow, which is then
      imported the quick way; False to import it when it is used.
  """
  if module_name != "__main__":
    return
  # TensorFlow's own start-up lines: asked for by setting the variable.
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  app.define_help_flags()
  _parsed.append(app.parse_flags_with_usage(sys.argv))
  begin_imports(imports_tensorflow)


@errors.report_input_errors
def begin_imports(imports_tensorflow):
  """Makes a script's imports, which follow, take little time.

  Ends in a sentence and exit code 1 where TensorFlow cannot be loaded, or an
  argument is not UTF-8.

  Args:
    imports_tensorflow: as of `parse_flags`.
  """
  for argument in sys.argv:
    # Of bytes that are not UTF-8, Python makes halves of surrogate pairs.
    if any("\ud800" <= char <= "\udfff" for char in argument):
      raise errors.InputError(
        f"{ascii(argument)} is not UTF-8, as the names of files must be here; "
        "rename the file or folder"
      )
  # What the imports make stays. To look for garbage in it would take a third
  # of their time, and as much again at the end of the program.
  gc.disable()
  atexit.register(gc.freeze)
  if not imports_tensorflow:
    lazy_tensorflow.install()
    return
  try:
    from common import lean_tensorflow  # noqa: F401
  except (ImportError, MemoryError) as error:
    raise errors.InputError(
      f"TensorFlow cannot be loaded ({error}); install it (see README.md), or "
      "lift the limit on memory (ulimit -v)"
    ) from error


def run(main):
  """Runs a script's `main`; its InputError ends in a sentence and exit code 1.

  Args:
    main: function of the arguments that are no flags, as absl's.
  """
  # Disabled by `begin_imports`.
  gc.freeze()
  gc.enable()
  # Parsed once: a flag that may be repeated would hold its values twice.
  parse = (lambda argv: _parsed[-1]) if _parsed else app.parse_flags_with_usage
  app.run(errors.report_input_errors(main), flags_parser=parse)


def run_installed():
  """Entry point of the wheel's commands: bert-run-squad runs run_squad.py."""
  # Which command it is, from the name that it was called by.
  name = pathlib.Path(sys.argv[0]).stem.removeprefix("bert-").replace("-", "_")
  package = __name__.removesuffix("common.command")  # "bert_tf2." or "".
  # As a script: its flags are defined and parsed in that run.
  runpy.run_module(f"{package}{name}", run_name="__main__", alter_sys=True)
