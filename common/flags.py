"""absl's flags, with finite numbers only, and rules about when they apply.

  flags.DEFINE_integer("bilstm_size", 768, "Units.", needs="feature_layers")

`needs`, `not_with` and `why` are fields of run_settings.Rule. The first two
become part of the flag's help, and run_settings.refuse_ignored applies all.
"""

import contextlib
import functools
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from absl import flags
from absl.flags import (
  FLAGS,
  DEFINE_flag,
  Error,
  UnrecognizedFlagError,
  mark_flag_as_required,
  register_multi_flags_validator,
)

from common import errors, file_io, options, overwriting, program, run_settings

__all__ = [
  "DEFINE_flag",
  "FLAGS",
  "Error",
  "UnrecognizedFlagError",
  "mark_flag_as_required",
  "register_multi_flags_validator",
]

# The file in --output_dir that repeats a command.
_FILE = "flags.txt"
# The names of the flags that name files and folders.
_PATHS = "(.*_)?(dir|file|checkpoint|html|input|output|search)|add_tokens"


def _with_rule(define: Callable[..., Any]) -> Callable[..., None]:
  @functools.wraps(define)
  def define_flag(
    name: str,
    *args: Any,
    needs: str = "",
    not_with: str = "",
    why: str = "",
    names_model: bool = False,
    **more: Any,
  ) -> None:
    define(name, *args, **more)
    rule(name, needs=needs, not_with=not_with, why=why)
    if names_model:
      flag: Any = FLAGS[name]  # absl's class declares no such attribute.
      flag.names_model = True
      _require_models()

  return define_flag


class _Integer(flags.IntegerParser):
  """Parses an integer of at most 64 bits, TensorFlow's largest size."""

  def convert(self, argument: Any) -> int:
    value = super().convert(argument)
    if not -(2**63) <= value < 2**63:
      raise ValueError("expected an integer of at most 64 bits")
    return value


class _Float(flags.FloatParser):
  """Parses a number that is neither NaN nor infinite."""

  def convert(self, argument: Any) -> float:
    value = super().convert(argument)
    if not math.isfinite(value):
      raise ValueError("expected a finite number")
    return value


def _numbers(parser: Callable[..., Any]) -> Callable[..., None]:
  def define(
    name: str,
    default: float | None,
    meaning: str,
    lower_bound: float | None = None,
    upper_bound: float | None = None,
  ) -> None:
    flags.DEFINE(
      parser(lower_bound, upper_bound),
      name,
      default,
      meaning,
      serializer=flags.ArgumentSerializer(),
    )

  return _with_rule(define)


DEFINE_bool = _with_rule(flags.DEFINE_bool)
DEFINE_enum = _with_rule(flags.DEFINE_enum)
DEFINE_float = _numbers(_Float)
DEFINE_integer = _numbers(_Integer)
DEFINE_list = _with_rule(flags.DEFINE_list)
DEFINE_multi_string = _with_rule(flags.DEFINE_multi_string)
DEFINE_spaceseplist = _with_rule(flags.DEFINE_spaceseplist)
DEFINE_string = _with_rule(flags.DEFINE_string)


def define_options(table: Iterable[options.Option]) -> None:
  """Defines a flag for each options.Option of a table."""
  for option in table:
    define: Callable[..., None] = DEFINE_string
    values: list[tuple[str, ...]] = []
    if option.choices:
      define, values = DEFINE_enum, [option.choices]
    elif isinstance(option.default, (bool, list)):
      is_list = isinstance(option.default, list)
      define = DEFINE_list if is_list else DEFINE_bool
    elif option.is_fraction:
      define = DEFINE_float
    elif option.lower_bound is not None:
      define = functools.partial(DEFINE_integer, lower_bound=option.lower_bound)
    define(
      option.name,
      option.default,
      *values,
      option.meaning,
      needs=option.rule.needs,
      not_with=option.not_with,
      names_model=option.names_model,
    )


def that_name_models() -> list[str]:
  """Returns the flags whose value may be the name of a model of the Hub."""
  return [each.name for each in of_script() if hasattr(each, "names_model")]


def require_model(name: str) -> None:
  """Adds a rule: a flag needs one that names a model, perhaps a later one."""
  flag: Any = FLAGS[name]
  flag.model_rule = run_settings.Rule(name)
  _require_models()


def _require_models() -> None:
  """Makes the rules of `require_model` list all flags so far."""
  models = "|".join(that_name_models())
  for flag in of_script():
    if old := getattr(flag, "model_rule", None):
      flag.model_rule = new = old._replace(needs=models)
      flag.rules = [new, *(each for each in flag.rules if each is not old)]
      flag.help = flag.help.removesuffix(old.help) + new.help


def rule(
  names: str, *, needs: str = "", not_with: str = "", why: str = ""
) -> None:
  """Adds a rule to defined flags; spaces separate the names."""
  for name in names.split():
    new_rule = run_settings.Rule(name, needs, not_with, why)
    # Any, because the class in absl declares no attribute `rules`.
    flag: Any = FLAGS[name]
    rules = list(getattr(flag, "rules", ()))
    flag.rules = rules + [new_rule] if new_rule.help else rules
    flag.help += new_rule.help


def of_script() -> list[Any]:
  """Returns the flags defined so far, except absl's own, sorted by name."""
  return [FLAGS[n] for n in sorted(FLAGS) if hasattr(FLAGS[n], "rules")]


@contextlib.contextmanager
def of_one_script() -> Iterator[None]:
  """Lets FLAGS hold only absl's flags, and those that the block defines."""
  values = vars(FLAGS)
  before, fresh = dict(values), flags.FlagValues()
  for name in FLAGS:
    if str(FLAGS.find_module_defining_flag(name)).startswith("absl."):
      fresh._flags()[name] = FLAGS[name]  # Without the check of short names.
  values.clear()
  values.update(vars(fresh))
  try:
    yield
  finally:
    values.clear()
    values.update(before)


def as_words(given: Mapping[str, Any]) -> list[str]:
  """Returns the command line for {name of a flag: value}; skips None."""
  words = []
  for name, value in given.items():
    if isinstance(value, (list, tuple)) and name in FLAGS:
      is_multiple = isinstance(FLAGS[name], flags.MultiFlag)
      value = [*map(str, value)]
      value = value if is_multiple else [",".join(value)]
    for each in value if isinstance(value, list) else [value]:
      words += [] if each is None else [f"--{name}={each}"]
  return words


def expand_home() -> None:
  """Replaces ~ in the paths of flags; a shell does so only after a blank."""
  for flag in of_script():
    has_home = isinstance(flag.value, str) and "~" in flag.value
    if has_home and re.fullmatch(_PATHS, flag.name):
      parts = map(str.strip, flag.value.split(","))
      flag.value = ",".join(map(os.path.expanduser, parts))


def rule_for_others(not_with: str, *, but: str, why: str = "") -> None:
  """Adds a rule: only the flags in `but` have an effect with `not_with`."""
  others = {flag.name for flag in of_script()} - {not_with, *but.split()}
  rule(" ".join(sorted(others)), not_with=not_with, why=why)


def write_file(folder: str) -> None:
  """Writes flags.txt, a file for --flagfile that repeats the command.

  A command that reads the file leaves it as it is.
  """
  path = os.path.join(folder, _FILE)
  read = (a.partition("=")[2] for a in sys.argv if a.startswith("--flagfile="))
  if os.path.realpath(path) not in map(os.path.realpath, read):
    with errors.by_product(path):
      file_io.write_text(path, _as_text())


def are_of_run(folder: str) -> bool:
  """Whether the same command wrote to a local folder before."""
  path = os.path.join(folder, _FILE)
  if not os.path.exists(path):
    return False
  with open(path, encoding="utf-8", errors="replace") as stream:
    return stream.read() == _as_text()


def _as_text() -> str:
  lines = [f"# Repeats the run: {program.name()} --flagfile=THIS_FILE"]
  for flag in of_script():
    text = flag.serialize() if flag.present else ""
    is_multiple = isinstance(flag, flags.MultiFlag)
    if text != text.strip() or ("\n" in text and not is_multiple):
      # absl removes white space at the ends of a line.
      text = f"# Pass this flag on the command line: {text!r}"
    lines += [text] if text else []
  return "".join(f"{line}\n" for line in lines)


def read_settings(check: bool = True) -> run_settings.Settings:
  """Returns the values of the flags; only `main` may call it.

  With check=False, the caller must later refuse flags without effect, because
  the effect of a flag may depend on a model's folder.
  """
  script = of_script()
  # A flag that the user set to its default also counts as given.
  given = [flag for flag in script if flag.present]
  settings = run_settings.Settings(
    {flag.name: flag.value for flag in script},
    (flag.name for flag in given),
    parse=lambda name, value: FLAGS[name].parser.parse(value),
    rules=[each for flag in given for each in flag.rules],
  )
  if check:
    run_settings.refuse_ignored(settings)
  overwriting.refuse(settings)
  return settings
