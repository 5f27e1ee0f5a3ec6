"""Defines the flag that selects extensions, and the flags of their options."""

import re
import sys
from collections.abc import Iterator

from common import errors, extension_points, flags


def define(
  kind: extension_points.Point, meaning: str, *, several: bool = False
) -> None:
  """Defines a kind's flag, and a flag for each option of each extension.

  Args:
    kind: the extension_points.Point.
    meaning: the start of the help, which goes on to list the folder's files.
    several: whether the flag takes a list of names.
  """
  listed = "; ".join(f"{name}: {kind.summary(name)}" for name in kind.names())
  define_flag = flags.DEFINE_list if several else flags.DEFINE_string
  define_flag(
    kind.flag,
    None,
    f"{meaning} {listed}; or the path or module name of your own file "
    f"({extension_points.DOCS}).",
  )
  for name in names(kind):
    try:
      options = kind.options(name)
    except errors.InputError as error:
      # Flags are defined before the script's `main`, which reports errors.
      sys.exit(errors.report(error))
    for option, (default, text, *marks) in options.items():
      if option not in flags.FLAGS:
        _DEFINE[type(default)](
          option,
          default,
          text,
          needs=condition(kind, name),
          names_model="model" in marks,
        )


def names(kind: extension_points.Point) -> list[str]:
  """Returns the names of the folder's extensions, and of the user's own."""
  return [*kind.names(), *_own_names(kind)]


def condition(kind: extension_points.Point, name: str) -> str:
  """Returns a rule's condition that an extension is chosen; "" for none."""
  # A rule's conditions cannot contain the spaces of a path.
  return "" if " " in name else f"{kind.flag}={name}"


# A bool is an int, so the types are compared exactly.
_DEFINE = {
  type(None): flags.DEFINE_string,
  str: flags.DEFINE_string,
  bool: flags.DEFINE_bool,
  int: flags.DEFINE_integer,
  float: flags.DEFINE_float,
  list: flags.DEFINE_list,
}


def _own_names(kind) -> Iterator[str]:
  """Yields the users' own files that the command line names.

  The flags are not parsed yet, because their files define further flags.
  """
  for argument, following in zip(sys.argv, [*sys.argv[1:], ""]):
    match = re.fullmatch(rf"--?{kind.flag}(?:=(.*))?", argument)
    if match:
      for name in (match[1] or following).split(","):
        if name not in kind.names():
          yield name
