"""The flags that select extensions, and the options that extensions bring.

An extension, see common/extensions.py, may define `OPTIONS`, a literal dict
{flag: (default, help)}; these flags exist only for this extension. Summaries
and options are read without importing the file, because --help must not import
TensorFlow.
"""

import ast
import importlib.util
import types
from typing import Any, NamedTuple

from common import errors, extensions

DOCS = "docs/pretraining.md"  # The page that shows a user's own file.


class Point(NamedTuple):
  """A folder of extensions and the flag that selects one of them.

  Attributes:
    flag: the flag's name.
    package: the folder's full package name.
    needs: the names that each file must define.
  """

  flag: str
  package: str
  needs: tuple[str, ...]

  def names(self) -> tuple[str, ...]:
    """Returns the names of the folder's extensions."""
    return extensions.names(self.package)

  def load(self, name: str) -> types.ModuleType:
    """Returns the module of an extension.

    Raises InputError: there is no such extension, its file cannot be imported,
    or it lacks one of the names that it must define.
    """
    module = extensions.load(self.package, name, f"--{self.flag}")
    missing = [each for each in self.needs if not hasattr(module, each)]
    if missing:
      raise errors.InputError(
        f"--{self.flag}={name}: the file does not define {', '.join(missing)}; "
        f"{DOCS} shows what it needs"
      )
    return module

  def summary(self, name: str) -> str:
    """Returns the first sentence of an extension's docstring."""
    text = ast.get_docstring(self._tree(name)) or ""
    return text.partition("\n\n")[0].replace("\n", " ").removesuffix(".")

  def defines(self, name: str, variable: str) -> bool:
    """Returns whether an extension assigns a variable of its module."""
    return self._assigned(name, variable) is not None

  def options(self, name: str) -> dict[str, tuple]:
    """Returns {flag: (default, help)}, the `OPTIONS` of an extension.

    (default, help, "model") is a flag whose value may be a model's name.

    Raises InputError: they are not such a literal.
    """
    literal = self._assigned(name, "OPTIONS")
    if literal is None:
      return {}
    try:
      return dict(ast.literal_eval(literal))
    except (TypeError, ValueError) as error:
      raise errors.InputError(
        f"--{self.flag}={name}: OPTIONS must be a literal "
        "{flag: (default, help)}"
      ) from error

  def values(self, name: str, settings: Any) -> dict[str, Any]:
    """Returns the values of an extension's options in run_settings.Settings."""
    return {option: settings.get(option) for option in self.options(name)}

  def _assigned(self, name: str, variable: str) -> ast.expr | None:
    """Returns the expression that a module assigns to a variable, if any."""
    for node in self._tree(name).body:
      targets = node.targets if isinstance(node, ast.Assign) else []
      if [ast.unparse(target) for target in targets] == [variable]:
        return node.value  # type: ignore[attr-defined]
    return None

  def _tree(self, name: str) -> ast.Module:
    """Returns an extension's syntax tree; an empty one if it is damaged."""
    path = name
    if not name.endswith(".py"):
      is_here = name in self.names()
      full_name = f"{self.package}.{name}" if is_here else name
      path = _origin(full_name) or ""
    try:
      with open(path, encoding="utf-8") as stream:
        return ast.parse(stream.read())
    except (OSError, SyntaxError, ValueError):
      # `load` reports a file that is missing or damaged.
      return ast.parse("")


def _origin(module: str) -> str | None:
  """Returns the file of a module without importing it, or None."""
  package, _, stem = module.rpartition(".")
  try:
    # find_spec of a module in a package would import the package.
    spec = importlib.util.find_spec(package or module)
  except (ImportError, ValueError):
    return None
  if not spec or not package:
    return spec.origin if spec else None
  folders = spec.submodule_search_locations or []
  return next((f"{folder}/{stem}.py" for folder in folders), None)
