"""Makes the modules importable as `from bert_tf2.serving import text_models`.

In the wheel, this file is the package's __init__.py. In a clone, and after
`pip install -e .`, it loads the modules next to it. It rewrites their imports
(`import modeling`, `from squad import answers`) as the wheel's build does, to
keep common names such as `tokenization` inside the package. In the clone's
scripts, `modeling` and `bert_tf2.modeling` are the same module object.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import pathlib
import re
import sys

_ROOT = pathlib.Path(__file__).parent
_NOT_MODULES = {"setup", "bert_tf2"}
MODULES = sorted({path.stem for path in _ROOT.glob("*.py")} - _NOT_MODULES)
FOLDERS = sorted(path.parent.name for path in _ROOT.glob("*/__init__.py"))
# Folders of extensions: "pretraining.objectives", ...
SUBFOLDERS = sorted(
  ".".join(path.parts[-3:-1])
  for path in _ROOT.glob("*/*/__init__.py")
  if path.parts[-3] in FOLDERS
)
_MODULE_IMPORT = re.compile(rf"^( *)import ({'|'.join(MODULES)})$", re.M)
_FOLDER_IMPORT = re.compile(
  rf"^( *)from ((?:{'|'.join(FOLDERS)})(?:\.\w+)?) import ", re.M
)


def __getattr__(name: str):
  if name == "__version__":
    from bert_tf2.common import program

    return program.package_version()
  if name in ("keras_layer", "train") or name in MODULES:
    from bert_tf2.common import native_messages

    folder = "" if name in MODULES else "serving."
    with native_messages.held_back():  # Most modules import TensorFlow.
      return importlib.import_module(f"bert_tf2.{folder}{name}")
  raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def rewritten(source: str) -> str:
  """Returns a module's source, changed to import the project from bert_tf2."""
  source = _MODULE_IMPORT.sub(r"\1from bert_tf2 import \2", source)
  return _FOLDER_IMPORT.sub(r"\1from bert_tf2.\2 import ", source)


class _Rewriting(importlib.machinery.SourceFileLoader):
  """Loads a module from the clone and rewrites its imports."""

  def path_stats(self, path):
    raise OSError  # Skips cached bytecode, whose imports are not rewritten.

  def source_to_code(self, data, path, **options):  # type: ignore[override]
    source = rewritten(importlib.util.decode_source(data))
    return super().source_to_code(source, path, **options)


class _SameModule(importlib.abc.Loader):
  """Loads a module under a second name: both names get the same object."""

  def __init__(self, name: str):
    self._name = name

  def exec_module(self, module) -> None:
    # Python returns this entry of sys.modules instead of `module`.
    sys.modules[module.__name__] = importlib.import_module(self._name)


def _same_module(name, other_name):
  """Returns the spec of a module that is loaded under another name."""
  spec = importlib.machinery.ModuleSpec(name, _SameModule(other_name))
  folder = _ROOT.joinpath(*name.removeprefix("bert_tf2.").split("."))
  if folder.is_dir():
    # Folders of extensions are listed without being imported.
    spec.submodule_search_locations = [str(folder)]
  return spec


class _Finder(importlib.abc.MetaPathFinder):
  """Finds `bert_tf2.x` and makes the clone's `x` the same module object."""

  def find_spec(self, name, path=None, target=None):
    first, _, rest = name.partition(".")
    if first == "bert_tf2":
      if _is_here(getattr(sys.modules.get(rest), "__spec__", None)):
        return _same_module(name, rest)
      spec = importlib.machinery.PathFinder.find_spec(name, path)
      if spec and rest.split(".")[0] in (*MODULES, *FOLDERS):
        spec.loader = _Rewriting(name, str(spec.origin))
        return spec
    elif first in (*MODULES, *FOLDERS):
      loaded = sys.modules.get(first)
      module_or_spec = loaded or importlib.machinery.PathFinder.find_spec(first)
      if _is_here(getattr(module_or_spec, "__spec__", module_or_spec)):
        return _same_module(name, f"bert_tf2.{name}")
    return None


def _is_here(spec) -> bool:
  """Returns whether a module's file is in this folder or below it."""
  origin = os.path.realpath(spec.origin) if spec and spec.origin else ""
  return _ROOT.resolve() in pathlib.Path(origin).parents


if "__path__" not in globals():  # In the wheel, this file is a package.
  __path__ = [str(_ROOT)]
  sys.meta_path.insert(0, _Finder())
