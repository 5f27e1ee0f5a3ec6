"""Imports TensorFlow without Keras, which is 40 % of the time of the import.

TensorFlow loads Keras for programs that use it, and does without where it is
not installed. This project does not use it; tensorflow_text and the modules
of users may, and find it once TensorFlow is there.
"""

import contextlib
import importlib.util
import os
import sys
import types

from common import errors


@contextlib.contextmanager
def _without_keras():
  # None makes an import of it fail as if it were not installed.
  sys.modules["keras"] = None
  try:
    yield
  finally:
    del sys.modules["keras"]


def _import_tensorflow():
  # Too late to leave it out, or wanted by whoever imported it.
  if {"tensorflow", "keras"} & sys.modules.keys():
    return
  with _without_keras():
    import tensorflow
  spec = importlib.util.find_spec("keras")
  if spec is not None:
    # For `import tensorflow.keras`: where TensorFlow lets Python look for it.
    folder = os.path.join(os.path.dirname(spec.origin), "_tf_keras")
    tensorflow.__path__.insert(0, folder)


def import_tensorflow_text():
  """Returns the module tensorflow_text, without the layers that need Keras.

  Raises:
    InputError: it is not installed, as on Windows, for which there is none.
  """
  name = "tensorflow_text.python.keras"
  # The package imports this module of its own, which nothing here uses.
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
