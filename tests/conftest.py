"""Gives the whole suite two logical CPU devices, for the strategy tests."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf  # noqa: E402

tf.config.set_logical_device_configuration(
  tf.config.list_physical_devices("CPU")[0],
  [tf.config.LogicalDeviceConfiguration()] * 2,
)
