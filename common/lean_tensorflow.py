"""Imports TensorFlow without Keras, which takes 40 % of the import's time.

TensorFlow loads Keras for programs that use it, and runs without it if it is
not installed. This project does not use Keras; tensorflow_text and the modules
of users may, and find it once TensorFlow is loaded.
"""

import contextlib
import importlib.util
import os
import sys
import types

from common import errors


@contextlib.contextmanager
def _without_keras():
  # None makes its import fail as if it were not installed.
  sys.modules["keras"] = None
  try:
    yield
  finally:
    del sys.modules["keras"]


def _import_tensorflow():
  # It is too late to leave Keras out, or another importer wanted it.
  if {"tensorflow", "keras"} & sys.modules.keys():
    return
  with _without_keras():
    import tensorflow
  spec = importlib.util.find_spec("keras")
  if spec is not None:
    # TensorFlow looks for tensorflow.keras in this folder.
    folder = os.path.join(os.path.dirname(spec.origin), "_tf_keras")
    tensorflow.__path__.insert(0, folder)


def import_tensorflow_text():
  """Returns the module tensorflow_text, without the layers that need Keras.

  Raises:
    InputError: it is not installed; for Windows it does not exist.
  """
  name = "tensorflow_text.python.keras"
  # The package imports this submodule, which the project does not use.
  is_needless = not {"tensorflow_text", "keras"} & sys.modules.keys()
  if is_needless:
    sys.modules[name] = types.ModuleType(name)
  try:
    import tensorflow_text
  except ModuleNotFoundError as error:
    raise errors.InputError(
      "raw text in a SavedModel and SentencePiece models need tensorflow-text, "
      "of the version of TensorFlow: run pip install tensorflow-text (there is "
      "none for Windows); all else works without it"
    ) from error
  finally:
    if is_needless:
      del sys.modules[name]
  return tensorflow_text


_import_tensorflow()
