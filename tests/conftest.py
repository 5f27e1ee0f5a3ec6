"""Gives the suite two logical CPU devices and runs the longest files first."""

import importlib.util
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest  # noqa: E402

from common import errors, folder_lock  # noqa: E402

_SLOW_TEST_SECONDS = 7200
# Long files that run no scripts; by their names, they would come last.
_LONG_FILES = (
  "test_training_loop",
  "test_training_loop_runs",
  "test_unpadding",
)

_HAS_TENSORFLOW_TEXT = importlib.util.find_spec("tensorflow_text") is not None

folder_lock.WAIT_SECONDS = 0.5


def pytest_configure(config):
  """Loads TensorFlow as scripts do, except when xdist workers run the tests."""
  if config.getoption("dist", "no") != "no":
    return
  from common import lean_tensorflow  # noqa: F401, I001
  import tensorflow as tf

  tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
  )


@pytest.fixture(autouse=True)
def forget_warnings():
  """Lets each test see the warnings that a process logs only once."""
  errors.warn_once.cache_clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
  """Skips tests that fail because tensorflow-text is missing (on Windows)."""
  report = yield
  reason = "need tensorflow-text"
  lacks_text = call.excinfo and reason in str(call.excinfo.value)
  if lacks_text and not _HAS_TENSORFLOW_TEXT:
    report.outcome = "skipped"
    report.longrepr = (str(item.path), item.location[1], reason)
  return report


def pytest_collection_modifyitems(items):
  """Puts the longest files first, and gives slow tests more time.

  With several processes, one would otherwise run a long file at the end while
  the other processes are idle. Files that run scripts take longest.
  """
  for item in items:
    if item.get_closest_marker("slow"):
      item.add_marker(pytest.mark.timeout(_SLOW_TEST_SECONDS))
  items.sort(
    key=lambda item: (
      not (
        hasattr(item.module, "script_runner")
        or item.module.__name__ in _LONG_FILES
      )
    )
  )
