"""Imports TensorFlow quietly and without Keras, which takes 40 % of the time.

TensorFlow loads Keras for programs that use it, but also runs if Keras is not
installed. Modules that use Keras (serving/keras_layer.py, tensorflow_text and
users' modules) can import it after TensorFlow is loaded.
"""

import contextlib
import importlib.util
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

from common import errors, native_messages, program

_VERSIONS = ("2.20", "2.21")


@contextlib.contextmanager
def _without_keras() -> Iterator[None]:
  # None makes `import keras` fail as if Keras were not installed.
  sys.modules["keras"] = None  # type: ignore[assignment]
  try:
    yield
  finally:
    del sys.modules["keras"]


def _import_tensorflow() -> None:
  # Once TensorFlow or Keras is imported, it is too late to leave Keras out.
  if {"tensorflow", "keras"} & sys.modules.keys():
    return
  with _without_keras(), native_messages.held_back():
    import tensorflow
  _check_version(tensorflow)
  spec = importlib.util.find_spec("keras")
  if spec is not None and spec.origin:
    # TensorFlow looks for tensorflow.keras in this folder.
    folder = os.path.join(os.path.dirname(spec.origin), "_tf_keras")
    tensorflow.__path__.insert(0, folder)


def _minor(version) -> str:
  """Returns "2.20" for "2.20.1"."""
  return ".".join(version.split(".")[:2])


def _check_version(tensorflow) -> None:
  """Refuses an old or damaged TensorFlow; warns if its version is too new."""
  installed = _minor(program.installed_version("tensorflow"))
  loaded = _minor(getattr(tensorflow, "__version__", ""))
  if not loaded or installed not in ("", loaded):
    raise errors.InputError(
      f"another package replaced or removed files of TensorFlow {installed}: "
      f'run pip install --force-reinstall --no-deps "{program.TENSORFLOW}"'
    )
  if loaded not in _VERSIONS:
    fault = (
      f"TensorFlow {loaded} is installed, but {' or '.join(_VERSIONS)} is "
      f'needed: run pip install "{program.TENSORFLOW}"'
    )
    if [int(part) for part in loaded.split(".")] < [2, 20]:
      raise errors.InputError(fault)
    errors.warn_once(fault)


def import_tensorflow_text() -> Any:
  """Returns the module tensorflow_text, without the layers that need Keras.

  Raises:
    InputError: it is not installed (Windows has no such package), or it is for
      another version of TensorFlow.
  """
  name = "tensorflow_text.python.keras"
  # The package imports this submodule, which the project does not use.
  skips_keras = not {"tensorflow_text", "keras"} & sys.modules.keys()
  if skips_keras:
    sys.modules[name] = types.ModuleType(name)
  try:
    import tensorflow_text
  # A package for another TensorFlow version is found, but cannot be loaded.
  except (ImportError, tensorflow.errors.OpError) as error:
    raise errors.InputError(
      "a SavedModel for raw text needs tensorflow-text in TensorFlow's "
      "version: run pip install tensorflow-text (not available for Windows); "
      "everything else works without it"
    ) from error
  finally:
    if skips_keras:
      del sys.modules[name]
  return tensorflow_text


_import_tensorflow()
import tensorflow  # noqa: E402
