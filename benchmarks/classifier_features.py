"""Rows per second of a classifier's features: made, and taken again.

  python benchmarks/classifier_features.py --task_name=SST-2 \
      --data_dir=glue/SST-2 --vocab_file=vocab.txt

Reads the task's train.tsv and writes its records as run_classifier.py does,
first into an empty folder, then where they are already. What starting Python
and TensorFlow takes is shown separately.
"""

import os
import resource
import sys
import tempfile
import time

# Before the slow imports: their time is shown, too.
_STARTED = time.perf_counter()

from absl import app, flags  # noqa: E402

# Run as a script, this folder is on the path and its parent is not.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from classification import (  # noqa: E402
  glue,
  input_data,
)
from common import errors  # noqa: E402

FLAGS = flags.FLAGS

flags.DEFINE_string("task_name", "SST-2", "See run_classifier.py.")
flags.DEFINE_string("data_dir", None, "See run_classifier.py.", required=True)
flags.DEFINE_string("split", "train", "Which of the task's files.")
flags.DEFINE_string("vocab_file", None, "Vocabulary.", required=True)
flags.DEFINE_bool("do_lower_case", True, "Whether the model is uncased.")
flags.DEFINE_integer("max_seq_length", 128, "Length of the sequences.")


def seconds_of(function):
  """Returns (result, seconds by the clock, seconds of all processors)."""
  wall, cpu = time.perf_counter(), _cpu_seconds()
  result = function()
  return result, time.perf_counter() - wall, _cpu_seconds() - cpu


def _cpu_seconds():
  # With the processes that share the work.
  usages = map(
    resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
  )
  return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main(argv):
  del argv
  starting = time.perf_counter() - _STARTED
  print(f"start of Python and TensorFlow {starting:9.2f} s")
  task = glue.find(FLAGS.task_name)
  options = input_data.InputOptions(
    kind=task.kind,
    labels=task.labels,
    vocab_file=FLAGS.vocab_file,
    do_lower_case=FLAGS.do_lower_case,
    max_seq_length=FLAGS.max_seq_length,
  )
  with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "train.tf_record")

    def build():
      examples = glue.read(task, FLAGS.data_dir, FLAGS.split)
      return input_data.prepare(path, examples, options)

    for name in ("built", "taken again"):
      data, wall, cpu = seconds_of(build)
      print(
        f"{data.num_records} rows {name:12} {wall:9.2f} s "
        f"({cpu:.2f} s of processors), {data.num_records / wall:,.0f} rows/s"
      )


if __name__ == "__main__":
  app.run(errors.report_input_errors(main))
