"""TensorFlow is loaded when something of it is used, and not before."""

import pytest

import small_corpus
import test_common_lean_tensorflow
import test_layout

LAZY = "from common import lazy_tensorflow; lazy_tensorflow.install()"
# It says when it is loaded, and finds one name only when asked for it.
TENSORFLOW = test_common_lean_tensorflow.TENSORFLOW + """
print("loaded")
def __getattr__(name):
  if name != "late":
    raise AttributeError(name)
  return 5
"""
FILES = {
  **test_common_lean_tensorflow.FILES, "tensorflow/__init__.py": TENSORFLOW,
  "tensorflow/part.py": "value = 3",
}


def run(folder, *lines):
  return test_common_lean_tensorflow.run(folder, lines, FILES)


def test_an_import_alone_loads_nothing(tmp_path):
  assert run(
    tmp_path, LAZY, "import tensorflow as tf", "import importlib.util",
    "print(importlib.util.find_spec('tensorflow').name, tf.__name__)",
    "print(tf.__file__ == tf.__spec__.origin)",
  ) == ["tensorflow tensorflow", "True"]


@pytest.mark.parametrize("use, printed", [
  ("print(tf.HAS_KERAS)", "False"),
  ("print(tf.late)", "5"),
  ("from tensorflow import part; print(part.value)", "3"),
  ("import tensorflow.part; print(tf.part.value)", "3"),
])
def test_the_first_use_loads_it_once(tmp_path, use, printed):
  again = "import tensorflow; print(tensorflow.HAS_KERAS, tf.late)"
  assert run(tmp_path, LAZY, "import tensorflow as tf", use, again) == [
    "loaded", printed, "False 5",
  ]


def test_what_is_loaded_stays(tmp_path):
  assert run(
    tmp_path, "import tensorflow", LAZY, "import tensorflow as tf",
    "print(tf is tensorflow, tf.HAS_KERAS)",
  ) == ["loaded", "True True"]


def test_data_are_made_without_tensorflow(tmp_path):
  # The module of the test says that it was loaded, and has nothing to use.
  flags = {
    "input_file": small_corpus.write_text(tmp_path),
    "vocab_file": small_corpus.write_vocab(tmp_path),
    "output_file": tmp_path / "a.tfrecord", "max_seq_length": 16,
    "max_predictions_per_seq": 2,
  }
  script = str(test_layout.ROOT / "create_pretraining_data.py")
  words = [script, *(f"--{name}={value}" for name, value in flags.items())]
  assert run(
    tmp_path, "import runpy, sys", f"sys.argv = {words}",
    "try: runpy.run_path(sys.argv[0], run_name='__main__')",
    "except SystemExit as end: print(end.code)",
  ) == ["None"]
  assert (tmp_path / "a.tfrecord").exists()
