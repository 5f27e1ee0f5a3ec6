"""Two logical CPU devices for the whole suite; the longest files first."""

import importlib.util
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest  # noqa: E402

from common import errors, folder_lock  # noqa: E402

_SLOW_TEST_SECONDS = 7200
# They run no scripts, and would come last by their names.
_LONG_FILES = (
  "test_training_loop",
  "test_training_loop_runs",
  "test_unpadding",
)

_HAS_TENSORFLOW_TEXT = importlib.util.find_spec("tensorflow_text") is not None

folder_lock.WAIT_SECONDS = 0.5


def pytest_configure(config):
  """Loads TensorFlow as scripts do, but not where other processes test."""
  if config.getoption("dist", "no") != "no":
    return
  from common import lean_tensorflow  # noqa: F401, I001
  import tensorflow as tf

  tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
  )


@pytest.fixture(autouse=True)
def warnings_are_forgotten():
  """Each test sees the warnings that a process logs once."""
  errors.warn_once.cache_clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
  """Skips what needs tensorflow-text where it is missing, as on Windows."""
  report = yield
  sentence = "need tensorflow-text"
  needs = call.excinfo and sentence in str(call.excinfo.value)
  if needs and not _HAS_TENSORFLOW_TEXT:
    report.outcome = "skipped"
    report.longrepr = (str(item.path), item.location[1], sentence)
  return report


def pytest_collection_modifyitems(items):
  """Puts the longest files first, and gives slow tests more time.

  Otherwise one process would still be running such a file at the end, when the
  others have nothing left. Files that run scripts take longest.
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
