"""The original's run_squad.py as a module, to measure and to compare with."""

import importlib.util
import os
import sys

import tensorflow as tf


def load(checkout):
  """Imports it; TensorFlow 2 plays TensorFlow 1.

  Its module defines flags, too: a script that calls this must have none of
  their names.

  Args:
    checkout: folder of google-research/bert.
  """
  names = ["tensorflow", "modeling", "optimization", "tokenization"]
  # Its modules have the names of ours: both must not find the other's.
  ours = {name: sys.modules.pop(name, None) for name in names}
  tf1 = tf.compat.v1
  # TensorFlow 2 has dropped the older name.
  tf1.gfile.Open = tf1.gfile.GFile
  sys.modules["tensorflow"] = tf1
  sys.path.insert(0, checkout)
  try:
    path = os.path.join(checkout, "run_squad.py")
    spec = importlib.util.spec_from_file_location("original_run_squad", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
  finally:
    sys.path.remove(checkout)
    for name in names:
      sys.modules.pop(name, None)
    sys.modules.update({name: m for name, m in ours.items() if m})
  return module
