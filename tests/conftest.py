"""Two logical CPU devices for the whole suite; the longest files first."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf  # noqa: E402

tf.config.set_logical_device_configuration(
  tf.config.list_physical_devices("CPU")[0],
  [tf.config.LogicalDeviceConfiguration()] * 2,
)


def pytest_collection_modifyitems(items):
  """Puts the files that run scripts first.

  They take longest: at the end, one process would still be running such a file
  when the others have nothing left.
  """
  items.sort(key=lambda item: not hasattr(item.module, "script_runner"))
