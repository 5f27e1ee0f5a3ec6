"""A worker's function whose module imports NumPy, but not TensorFlow."""

import sys

import numpy  # noqa: F401


def loaded(*arguments):
  """Returns which of the modules (all arguments but the last) are loaded."""
  *names, _ = arguments
  return [name for name in names if name in sys.modules]
