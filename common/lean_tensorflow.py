"""Imports TensorFlow without Keras, which is 40 % of the time of the import.

TensorFlow loads Keras for programs that use it, and does without where it is
not installed. This project does not use it; tensorflow_text and the modules
of users may, and find it once TensorFlow is there.
"""

import contextlib
import importlib.util
import os
import sys


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


_import_tensorflow()
