"""absl's flags, which also say when they count; numbers are finite.

  flags.DEFINE_integer("bilstm_size", 768, "Units.", needs="feature_layers")

`needs`, `not_with` and `why` are those of run_settings.Rule: part of the flag's
help, and what run_settings.refuse_ignored goes by.
"""

import functools
import math
from typing import Any

from absl import flags
from absl.flags import (
  FLAGS,
  Error,
  disclaim_key_flags,
  mark_flag_as_required,
  register_multi_flags_validator,
)

from common import overwriting, run_settings

__all__ = [
  "FLAGS", "Error", "disclaim_key_flags", "mark_flag_as_required",
  "register_multi_flags_validator",
]

# Flags belong to the module that defines them through this one.
disclaim_key_flags()


def _with_rule(define):
  @functools.wraps(define)
  def define_flag(name, *args, needs="", not_with="", why="", **options):
    define(name, *args, **options)
    rule(name, needs=needs, not_with=not_with, why=why)

  return define_flag


class _Integer(flags.IntegerParser):
  """A whole number that TensorFlow can hold."""

  def convert(self, argument):
    value = super().convert(argument)
    if not -(2**63) <= value < 2**63:
      raise ValueError("expected a number of at most 64 bits")
    return value


class _Float(flags.FloatParser):
  """A number: not NaN, not infinite."""

  def convert(self, argument):
    value = super().convert(argument)
    if not math.isfinite(value):
      raise ValueError("expected a finite number")
    return value


def _numbers(parser):
  def define(name, default, meaning, lower_bound=None, upper_bound=None):
    flags.DEFINE(
      parser(lower_bound, upper_bound), name, default, meaning,
      serializer=flags.ArgumentSerializer(),
    )

  return _with_rule(define)


DEFINE_bool = _with_rule(flags.DEFINE_bool)
DEFINE_enum = _with_rule(flags.DEFINE_enum)
DEFINE_float = _numbers(_Float)
DEFINE_integer = _numbers(_Integer)
DEFINE_list = _with_rule(flags.DEFINE_list)
DEFINE_multi_string = _with_rule(flags.DEFINE_multi_string)
DEFINE_string = _with_rule(flags.DEFINE_string)


def define_options(options) -> None:
  """Defines the flags of a table: serving.export_options.Options."""
  for option in options:
    define, values = DEFINE_string, []
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
      option.name, option.default, *values, option.meaning,
      needs=option.rule.needs, not_with=option.not_with,
    )


def rule(
  names: str, *, needs: str = "", not_with: str = "", why: str = ""
) -> None:
  """Says when flags count that are defined elsewhere; names with spaces."""
  for name in names.split():
    found = run_settings.Rule(name, needs, not_with, why)
    # absl's own class, which newer versions annotate, has no `rules`.
    flag: Any = FLAGS[name]
    flag.rules = [*getattr(flag, "rules", ()), *([found] if found.help else [])]
    flag.help += found.help


def rule_for_others(not_with: str, *, but: str, why: str = "") -> None:
  """Says of all flags defined so far, but some, that one makes them useless."""
  ours = {name for name in FLAGS if hasattr(FLAGS[name], "rules")}
  others = ours - {not_with, *but.split()}
  rule(" ".join(sorted(others)), not_with=not_with, why=why)


def read_settings(check: bool = True) -> run_settings.Settings:
  """Returns the values of the flags; for `main` alone.

  Without `check` flags without effect are not refused yet: where that depends
  on what a model's folder says.
  """
  values = FLAGS.flag_values_dict()
  # A flag that is given its default value was given, too.
  given = {name for name in values if FLAGS[name].present}
  settings = run_settings.Settings(
    values, given, parse=lambda name, value: FLAGS[name].parser.parse(value),
    rules=[r for name in given for r in getattr(FLAGS[name], "rules", ())],
  )
  if check:
    run_settings.refuse_ignored(settings)
  overwriting.refuse(settings)
  return settings
