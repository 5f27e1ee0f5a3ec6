"""Finds extensions: the modules of a folder, which nothing else names.

A folder such as pretraining/objectives holds one capability per module. The
names of its modules are the values of a flag, so a new file needs no entry in
any table, and deleting a file removes its capability. A user's own file is an
extension, too, by its path or its module name.
"""

import functools
import importlib
import importlib.util
import os
import pkgutil
import sys
from types import ModuleType

from common import errors


@functools.cache
def names(package: str) -> tuple[str, ...]:
  """Returns the sorted names of the modules in a package, without importing it.

  Args:
    package: its full name, such as the `__name__` of its __init__.py.
  """
  spec = importlib.util.find_spec(package)
  folders = spec.submodule_search_locations if spec else None
  return tuple(sorted(entry.name for entry in pkgutil.iter_modules(folders)))


def load(package: str, name: str, flag: str = "") -> ModuleType:
  """Imports the extension `name` of a package.

  Args:
    package: the full name of the package, see `names`.
    name: a name in `names(package)`, the path of a Python file ("mine.py"), or
      the full name of a module outside of the package ("my_project.mine").
    flag: the flag whose value `name` is, for the error.

  Raises:
    InputError: there is no such extension, or its file cannot be imported.
  """
  if name in names(package):
    return importlib.import_module(f"{package}.{name}")
  if name.endswith(".py"):
    return _load_file(name, flag)
  if "." in name:
    try:
      return importlib.import_module(name)
    except ImportError as error:
      raise errors.InputError(
        f"{flag}={name}: this module cannot be imported ({error}); give the "
        "path of its file, or install it"
      ) from error
  raise errors.InputError(
    f"{flag}={name}: expected one of {', '.join(names(package))}, the path of "
    "a Python file (./mine.py), or the full name of a module (mine.module)"
  )


def load_all(package: str) -> list[ModuleType]:
  """Imports all modules of a package; returns them by name."""
  return [load(package, name) for name in names(package)]


def _load_file(path: str, flag: str) -> ModuleType:
  """Imports a file under its own name, once per process."""
  place = os.path.realpath(path)
  if not os.path.isfile(place):
    raise errors.InputError(f"{flag}={path}: no such file")
  stem = os.path.basename(place).removesuffix(".py")
  # Two files of one name, in different folders, are two modules.
  loaded_name = f"extension_{abs(hash(place))}_{stem}"
  if loaded_name in sys.modules:
    return sys.modules[loaded_name]
  spec = importlib.util.spec_from_file_location(loaded_name, place)
  assert spec and spec.loader
  module = sys.modules[loaded_name] = importlib.util.module_from_spec(spec)
  try:
    spec.loader.exec_module(module)
  except Exception as error:
    del sys.modules[loaded_name]
    raise errors.InputError(
      f"{flag}={path}: the file cannot be imported "
      f"({type(error).__name__}: {error})"
    ) from error
  return module
