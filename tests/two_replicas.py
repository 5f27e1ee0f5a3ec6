"""The one MirroredStrategy of the suite, over the two logical CPU devices."""

import functools

import tensorflow as tf


@functools.cache
def strategy():
  """Returns it.

  Each new MirroredStrategy numbers its collective operations from the start,
  and TensorFlow remembers the shapes of those numbers for the whole process:
  a second strategy would fail with "Shape mismatch in the collective".
  """
  return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
