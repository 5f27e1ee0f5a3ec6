"""How the network is computed: the machine's side of layers.py.

Recomputed layers and shared traces change time and memory, never a result.
"""

import functools
from collections.abc import Callable

import tensorflow as tf


def recomputed(function: Callable) -> Callable:
  """Returns a function that stores only its positional arguments.

  The gradient computes the rest again. Only positional arguments get gradients;
  they may be dictionaries of tensors.
  """

  def run(*tensors, **options):
    function_of_tensors = functools.partial(function, **options)
    return tf.recompute_grad(function_of_tensors)(*tensors)

  return run


def traced_once(function: Callable) -> Callable:
  """Returns a function whose calls in a graph share one trace.

  Tracing takes most of the time before the first step.
  """
  return tf.function(function, autograph=False)
