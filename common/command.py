"""Starts a script: parses its flags, loads TensorFlow, and reports errors.

A script defines its flags, calls `parse_flags(__name__)`, and only then imports
modules that need TensorFlow. This order answers --help and a mistyped flag in a
fraction of a second.
"""

import atexit
import contextlib
import difflib
import gc
import importlib.util
import os
import platform
import re
import signal
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from absl import app, logging
from absl.logging import converter as absl_converter

from common import (
  completion_flags,
  errors,
  flag_help,
  flags,
  overwriting,
  program,
)

_parsed: list[list[str]] = []  # The arguments that remain after parsing.


def parse_flags(
  module_name: str, imports_tensorflow: bool | Callable[[], bool] = True
) -> None:
  """Parses the flags; for --help, prints the help and exits.

  Args:
    module_name: the script's `__name__`; an imported script parses nothing.
    imports_tensorflow: whether to import TensorFlow (without Keras). A function
      decides after the flags are parsed.
  """
  if module_name != "__main__":
    return
  _open_closed_streams()
  # Handles errors before `run`, such as Ctrl-C while TensorFlow loads.
  sys.excepthook = lambda *raised: os._exit(errors.report(raised[1]))
  try:
    _parsed.append(_parse(sys.argv))
  except flags.Error as error:
    sys.exit(errors.report(errors.InputError(_flag_fault(error))))
  finally:
    # Also flushes the output of --help, whose reader may have closed the pipe.
    errors.flush_output()
  if flags.FLAGS.verbose:
    os.environ["BERT_TRACEBACK"] = "1"
  # Controls the log messages of TensorFlow's C++ code.
  level = "0" if flags.FLAGS.verbose else "3"
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", level)
  flags.expand_home()
  _check_paths(flags.FLAGS.flag_values_dict())
  if callable(imports_tensorflow):
    imports_tensorflow = imports_tensorflow()
  begin_imports(imports_tensorflow)


# Checks to run before TensorFlow is imported.
_checks: list[Callable[[], Any]] = []


def check_early(check: Callable[[], Any]) -> None:
  """Registers a function to call after the flags are parsed, before imports.

  It may raise InputError.
  """
  _checks.append(check)


def _check_files(values: Mapping[str, Any]) -> None:
  overwriting.refuse_missing(values)
  for check in _checks:
    check()


_check_paths = errors.report_input_errors(_check_files)


def _parse(arguments: list[str]):
  if "--version" in arguments:
    print(program.version())
    sys.exit()
  main = sys.modules["__main__"]
  main.__doc__ = program.hint(main.__doc__ or "")  # The start of --help.
  for name in flags.FLAGS:
    flags.FLAGS[name].help = program.hint(flags.FLAGS[name].help)
  app.define_help_flags()
  flags.DEFINE_flag(_HelpFlag())
  define_verbose()
  completion_flags.define(flags.of_script)
  try:
    return flags.FLAGS(arguments)
  except BrokenPipeError:
    sys.exit(1)


class _HelpFlag(app.HelpFlag):
  """Replaces absl's --help, to show the script's flags in groups."""

  def __init__(self) -> None:
    super().__init__()
    self.allow_override = True

  def parse(self, arg) -> None:
    if not self._parse(arg):
      return
    print(
      sys.modules["__main__"].__doc__,
      flag_help.text(flags.of_script()),
      "Try --helpfull to get a list of all flags.",
      sep="\n",
    )
    sys.exit(1)  # absl's --help exits with 1, too.


def define_verbose() -> None:
  """Defines --verbose, which all scripts have."""
  flags.DEFINE_bool(
    "verbose",
    False,
    "Show details, such as examples, each logged step and TensorFlow's "
    "messages. With --output_dir, the details are always in its log.txt.",
  )


def _flag_fault(error: BaseException) -> str:
  """Returns absl's message as a sentence, without "flag --x=None: "."""
  text = str(error)
  if isinstance(error, flags.UnrecognizedFlagError):
    # absl would also suggest its own flags.
    names = [flag.name for flag in flags.of_script()]
    similar = difflib.get_close_matches(error.flagname, names)
    text, _, _ = text.partition(". Did you mean")
    text += f" (did you mean --{' or --'.join(similar)}?)" if similar else ""
  text = re.sub(r"^flags? .*?=None: (?=Flag )", "", text, flags=re.MULTILINE)
  text = text.replace(" other than None", "")
  return f"{' '.join(text.split()).rstrip('.')}; --help lists all flags"


def _open_closed_streams() -> None:
  """Reopens closed standard streams, so no file gets their descriptors."""
  for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
    if getattr(sys, name) is None:
      setattr(sys, name, open(os.devnull, mode))
  handler = logging.get_absl_handler().python_handler
  handler.stream = handler.stream or sys.stderr


@errors.report_input_errors
def begin_imports(imports_tensorflow: bool) -> None:
  """Makes the script's imports faster, and imports TensorFlow if needed.

  Prints an error and exits with code 1 if TensorFlow cannot be loaded, or an
  argument is not UTF-8.
  """
  for argument in sys.argv:
    # Python decodes bytes that are not UTF-8 to lone surrogates.
    if any("\ud800" <= char <= "\udfff" for char in argument):
      raise errors.InputError(
        f"{ascii(argument)} is not UTF-8, but file names must be; rename the "
        "file or folder"
      )
  # The imported objects are never freed. Collecting garbage among them would
  # take a third of the imports' time, and as long again at exit.
  gc.disable()
  atexit.register(gc.freeze)
  if not imports_tensorflow:
    return
  try:
    with ending_at_once():
      from common import lean_tensorflow  # noqa: F401
  except (ImportError, MemoryError) as error:
    raise errors.InputError(
      f"TensorFlow cannot be loaded ({str(error) or 'MemoryError'}): run "
      f'pip install "{program.TENSORFLOW}" (with Python 3.10 to 3.13; this is '
      f"{platform.python_version()}), or lift the limit on memory (ulimit -v)"
    ) from error


@contextlib.contextmanager
def ending_at_once() -> Iterator[None]:
  """Makes Ctrl-C end the process at once, for the block.

  TensorFlow's imports ignore some of the KeyboardInterrupts that are raised
  within them, so the process would go on.
  """

  def end(*_) -> None:
    os._exit(errors.report(KeyboardInterrupt()))

  before = signal.getsignal(signal.SIGINT)
  # A shell makes a background process ignore Ctrl-C.
  if before != signal.default_int_handler:
    yield
    return
  signal.signal(signal.SIGINT, end)
  try:
    yield
  finally:
    signal.signal(signal.SIGINT, before)


def run(main: Callable[[list[str]], Any], takes_words: bool = False) -> None:
  """Runs `main` with the script's name and the arguments that are not flags.

  An error is printed as one sentence, and the exit code is then 1.
  """
  # `begin_imports` disabled garbage collection.
  gc.freeze()
  gc.enable()

  def checked_main(argv: list[str]):
    # Imported here, because --help does not need it.
    from common import console

    console.start(_screen_level())
    console.when_kept.append(flags.write_file)
    if argv[1:] and not takes_words:
      raise errors.InputError(
        f"unexpected {' '.join(argv[1:])}: flags start with --, and values "
        "follow =, as in --flag=value"
      )
    return main(argv)

  # Parsing twice would repeat the values of a flag that may be repeated.
  parse = (lambda argv: _parsed[-1]) if _parsed else app.parse_flags_with_usage
  app.run(errors.report_input_errors(checked_main), flags_parser=parse)


def call(script: str, values: Mapping[str, Any]) -> None:
  """Runs a script's `main` in another program, such as a notebook.

  Args:
    script: the script's module, such as "run_ner".
    values: {name of a flag: value}; None: the flag is not given.

  Raises:
    InputError: a flag is unknown or invalid, or the script raises it.
  """
  # Imported here, because --help does not need it.
  from common import console

  package = __name__.removesuffix("common.command")  # "bert_tf2." or "".
  if package:
    spec: Any = importlib.util.find_spec(package + script)
  else:
    # By its file: bert_tf2's finder gives a module that is loaded only once.
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = os.path.join(root, f"{script}.py")
    spec = importlib.util.spec_from_file_location(script, path)
  module = importlib.util.module_from_spec(spec)
  arguments, sys.argv = sys.argv, [f"{script}.py"]
  with contextlib.ExitStack() as stack:
    stack.callback(setattr, sys, "argv", arguments)
    stack.enter_context(flags.of_one_script())
    stack.enter_context(console.session())
    _checks.clear()
    spec.loader.exec_module(module)  # Defines the flags.
    define_verbose()
    # The report and the model card show the equal command.
    sys.argv += flags.as_words(values)
    try:
      words = flags.FLAGS(sys.argv)
    except flags.Error as error:
      raise errors.InputError(_flag_fault(error)) from error
    flags.expand_home()
    _check_files(flags.FLAGS.flag_values_dict())
    console.when_kept.append(flags.write_file)
    module.main(words)


def _screen_level() -> int:
  """Returns the screen's log level, from --verbose and absl's --verbosity."""
  verbosity = flags.FLAGS["verbosity"]
  value = verbosity.value if verbosity.present else logging.INFO
  if "verbose" in flags.FLAGS and flags.FLAGS.verbose:
    value = logging.DEBUG
  return absl_converter.absl_to_standard(value)


def run_installed() -> None:
  """Entry point of the wheel's commands: bert-run-squad runs run_squad.py."""
  sys.argv[0] = program.name()
  package = __name__.removesuffix("common.command")  # "bert_tf2." or "".
  # The module runs as a script, which defines and parses its flags. Unlike
  # runpy, this code leaves the command's name in sys.argv.
  spec: Any = importlib.util.find_spec(
    package + program.module_name(sys.argv[0])
  )
  main = types.ModuleType("__main__")
  main.__spec__, main.__file__ = spec, spec.origin
  sys.modules["__main__"] = main
  exec(spec.loader.get_code(spec.name), vars(main))
