"""The forms of requests that serve.py answers; each file adds paths.

A file defines `add(site)`, a function of the application.Site. It may define
`OPTIONS`, a literal {flag: help}: serve.py has these flags, and `add` gets
their values, a str or None, as keyword arguments. Nothing else names the files:
to take a form out, delete its file.
"""

import ast
import functools
import pathlib
from typing import Any

from common import extensions


@functools.cache
def options() -> dict[str, dict[str, str]]:
  """Returns {form: its OPTIONS}, without importing the files."""
  return {name: _options(name) for name in extensions.names(__name__)}


def _options(name: str) -> dict[str, str]:
  path = pathlib.Path(__file__).with_name(f"{name}.py")
  for node in ast.parse(path.read_text(encoding="utf-8")).body:
    names = getattr(node, "targets", [])
    if names and ast.unparse(names[0]) == "OPTIONS":
      return ast.literal_eval(node.value)  # type: ignore[attr-defined]
  return {}


def add_all(site: Any, values: Any) -> None:
  """Adds the paths of all forms to an application.Site.

  Args:
    values: a dict, or settings, with the values of the forms' options.

  Raises:
    InputError: a value is invalid.
  """
  for name, own in options().items():
    form = extensions.load(__name__, name)
    form.add(site, **{flag: values.get(flag) for flag in own})
