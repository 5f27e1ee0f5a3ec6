"""Provides the package bert_tf2: `from bert_tf2.serving import text_models`.

In the wheel, this file is the package's __init__.py. In a clone, and after
`pip install -e .`, it finds the modules next to it and rewrites their imports
(`import modeling`, `from squad import answers`) as the wheel's build does, so
common names such as `tokenization` exist only inside the package. If a script
of the clone has imported `modeling`, `bert_tf2.modeling` is the same module
object, and vice versa.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import pathlib
import re
import sys

_ROOT = pathlib.Path(__file__).parent
_OTHERS = {"setup", "bert_tf2"}
MODULES = sorted({path.stem for path in _ROOT.glob("*.py")} - _OTHERS)
FOLDERS = sorted(path.parent.name for path in _ROOT.glob("*/__init__.py"))
_MODULE_IMPORT = re.compile(rf"^( *)import ({'|'.join(MODULES)})$", re.M)
_FOLDER_IMPORT = re.compile(rf"^( *)from ({'|'.join(FOLDERS)}) import ", re.M)


def __getattr__(name):
  if name == "__version__":
    from bert_tf2.common import program

    return program.package_version()
  if name == "keras_layer":
    from bert_tf2.serving import keras_layer

    return keras_layer
  raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def rewritten(source: str) -> str:
  """Returns a module's source with the project's imports moved to bert_tf2."""
  source = _MODULE_IMPORT.sub(r"\1from bert_tf2 import \2", source)
  return _FOLDER_IMPORT.sub(r"\1from bert_tf2.\2 import ", source)


class _Rewriting(importlib.machinery.SourceFileLoader):
  """Loads a module from the clone and rewrites its imports."""

  def path_stats(self, path):
    raise OSError  # Skips cached bytecode, which has the original imports.

  def source_to_code(self, data, path, **options):
    source = rewritten(importlib.util.decode_source(data))
    return super().source_to_code(source, path, **options)


class _Same(importlib.abc.Loader):
  """Makes a second name import an existing module object."""

  def __init__(self, name):
    self._name = name

  def exec_module(self, module):
    # After this call, Python returns the entry of sys.modules.
    sys.modules[module.__name__] = importlib.import_module(self._name)


class _Finder(importlib.abc.MetaPathFinder):
  """Finds `bert_tf2.x`, and gives the clone's `x` the same module object."""

  def find_spec(self, name, path=None, target=None):
    first, _, rest = name.partition(".")
    if first == "bert_tf2":
      if _is_here(getattr(sys.modules.get(rest), "__spec__", None)):
        return importlib.machinery.ModuleSpec(name, _Same(rest))
      spec = importlib.machinery.PathFinder.find_spec(name, path)
      if spec and rest.split(".")[0] in (*MODULES, *FOLDERS):
        spec.loader = _Rewriting(name, spec.origin)
        return spec
    elif first in (*MODULES, *FOLDERS):
      loaded = sys.modules.get(first)
      module_or_spec = loaded or importlib.machinery.PathFinder.find_spec(first)
      if _is_here(getattr(module_or_spec, "__spec__", module_or_spec)):
        return importlib.machinery.ModuleSpec(name, _Same(f"bert_tf2.{name}"))
    return None


def _is_here(spec):
  """Whether a module's file is in this folder or below it."""
  origin = os.path.realpath(spec.origin) if spec and spec.origin else ""
  return _ROOT.resolve() in pathlib.Path(origin).parents


if "__path__" not in globals():  # In the wheel, this file is a package.
  __path__ = [str(_ROOT)]
  sys.meta_path.insert(0, _Finder())
