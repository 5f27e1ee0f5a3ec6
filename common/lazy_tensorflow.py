"""Makes `import tensorflow` free until something of TensorFlow is used.

For scripts that most often need none of it: its import takes longer than
making the records of a small text, and more memory. Modules import TensorFlow
as ever; what they get loads it, without Keras, when an attribute is read.
"""

import importlib.util
import sys
import types


class _Placeholder(types.ModuleType):
  """The module `tensorflow` before it is loaded, and its names afterwards."""

  def __init__(self, spec):
    super().__init__(spec.name)
    # What asks whether TensorFlow is installed must not load it. Without a
    # __path__, so that an import of a submodule does.
    self.__spec__, self.__file__ = spec, spec.origin

  def __getattr__(self, name):
    # Python calls this for names that are not here, so it ends with the first.
    if sys.modules.get(self.__name__) is self:
      del sys.modules[self.__name__]
    from common import lean_tensorflow  # noqa: F401

    loaded = sys.modules[self.__name__]
    self.__dict__.update(vars(loaded))
    # Not from the dict: TensorFlow has lazy names of its own.
    return getattr(loaded, name)


def install():
  """Puts the placeholder into `sys.modules`, unless TensorFlow is there."""
  if "tensorflow" not in sys.modules:
    spec = importlib.util.find_spec("tensorflow")
    # Where it is not installed, its import says so.
    if spec is not None:
      sys.modules[spec.name] = _Placeholder(spec)
