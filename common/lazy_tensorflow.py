"""Delays `import tensorflow` until an attribute of TensorFlow is used.

It serves scripts that rarely need TensorFlow: importing it takes more time and
memory than making the records of a small text. Modules import TensorFlow as
usual; reading an attribute loads it, without Keras.
"""

import importlib.util
import sys
import types


class _Placeholder(types.ModuleType):
  """The module `tensorflow` before it is loaded, and its names afterwards."""

  def __init__(self, spec):
    super().__init__(spec.name)
    # Checking whether TensorFlow is installed must not load it. Importing a
    # submodule does, because the placeholder has no __path__.
    self.__spec__, self.__file__ = spec, spec.origin

  def __getattr__(self, name):
    # Python calls this for missing names; after the first call none is missing.
    if sys.modules.get(self.__name__) is self:
      del sys.modules[self.__name__]
    from common import lean_tensorflow  # noqa: F401

    loaded = sys.modules[self.__name__]
    self.__dict__.update(vars(loaded))
    # getattr, since TensorFlow loads some names on demand.
    return getattr(loaded, name)


def install():
  """Puts the placeholder into `sys.modules`, unless TensorFlow is loaded."""
  if "tensorflow" not in sys.modules:
    spec = importlib.util.find_spec("tensorflow")
    # If TensorFlow is not installed, the import itself reports that.
    if spec is not None:
      sys.modules[spec.name] = _Placeholder(spec)
