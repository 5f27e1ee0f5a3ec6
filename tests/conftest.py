"""Two logical CPU devices for the whole suite; the longest files first."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest  # noqa: E402
import tensorflow as tf  # noqa: E402

from common import errors, folder_lock  # noqa: E402

_SLOW_TEST_SECONDS = 7200

tf.config.set_logical_device_configuration(
  tf.config.list_physical_devices("CPU")[0],
  [tf.config.LogicalDeviceConfiguration()] * 2,
)


folder_lock.WAIT_SECONDS = 0.5


@pytest.fixture(autouse=True)
def warnings_are_forgotten():
  """Each test sees the warnings that a process logs once."""
  errors.warn_once.cache_clear()


def pytest_collection_modifyitems(items):
  """Puts the files that run scripts first, and gives slow tests more time.

  Scripts take longest: at the end, one process would still be running such a
  file when the others have nothing left.
  """
  for item in items:
    if item.get_closest_marker("slow"):
      item.add_marker(pytest.mark.timeout(_SLOW_TEST_SECONDS))
  items.sort(key=lambda item: not hasattr(item.module, "script_runner"))
