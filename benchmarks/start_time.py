"""Processor time from a command to its first result.

  python benchmarks/start_time.py --model_dir=MODEL --data_dir=glue/MRPC

prints seconds of processor time (user and system) of fresh processes, the
smallest of --repeats: of `import tensorflow`, of --help and of the imports of
every script; and, with --model_dir and --data_dir, of run_classifier.py to its
first training step on MRPC, of
one line answered by the model that it trained, and of fill_mask.py. Linux only:
the time at a line of the log is read in /proc.
"""

import pathlib
import resource
import subprocess
import sys
import tempfile

import measured_runs
from absl import app, flags

FLAGS = flags.FLAGS

flags.DEFINE_string("model_dir", None, "Model to train and to fill [MASK]s.")
flags.DEFINE_string("data_dir", None, "MRPC's files.")
flags.DEFINE_integer("repeats", 3, "Processes of each kind; the best counts.")

ROOT = pathlib.Path(__file__).resolve().parents[1]
SCRIPTS = sorted(
  path.name for path in ROOT.glob("*.py") if path.name != "setup.py"
  and "command.run(main)" in path.read_text(encoding="utf-8")
)


def run(*arguments, text=""):
  """Returns the processor time of a process of Python, to its end."""
  before = resource.getrusage(resource.RUSAGE_CHILDREN)
  subprocess.run(
    [sys.executable, *arguments], cwd=ROOT, input=text.encode(),
    capture_output=True, check=False,
  )
  after = resource.getrusage(resource.RUSAGE_CHILDREN)
  return (
    after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
  )


def time_at(line, *arguments):
  """Returns the processor time of a process when `line` is in its log.

  Raises:
    RuntimeError: the process ended without it.
  """
  with subprocess.Popen(
    [sys.executable, *arguments], cwd=ROOT, stderr=subprocess.PIPE, text=True
  ) as process:
    seconds, log = None, []
    # Read to its end: a pipe that is full would stop the process.
    for text in process.stderr:
      log.append(text)
      if line in text and seconds is None:
        seconds = measured_runs.processor_seconds(process.pid)
  if seconds is None:
    raise RuntimeError(f"no {line!r} in the log:\n{''.join(log[-5:])}")
  return seconds


def report(what, measure, *arguments, **options):
  """Prints the least of several measurements, in seconds."""
  seconds = [measure(*arguments, **options) for _ in range(FLAGS.repeats)]
  # The least: other work can only make it slower.
  print(f"{min(seconds):8.2f}  {what}", flush=True)


def main(_):
  print("seconds of processor time, smallest of", FLAGS.repeats)
  report("import tensorflow", run, "-c", "import tensorflow")
  for script in SCRIPTS:
    report(f"{script} --help", run, script, "--help")
    code = measured_runs.import_code(ROOT / script)
    report(f"{script}, its imports", run, "-c", code)
  if not (FLAGS.model_dir and FLAGS.data_dir):
    return
  with tempfile.TemporaryDirectory() as folder:
    training = [
      "run_classifier.py", "--task_name=MRPC", f"--data_dir={FLAGS.data_dir}",
      f"--model_dir={FLAGS.model_dir}", "--do_train", "--train_batch_size=16",
      "--max_train_steps=1",
    ]
    for number in range(FLAGS.repeats):
      # A folder of its own, or the run would find itself finished.
      outputs = f"--output_dir={folder}/{number}"
      seconds = time_at("step 1/1", *training, outputs)
      print(f"{seconds:8.2f}  run_classifier.py to its first step")
    model = f"--model_dir={folder}/0/final_model"
    report(
      "run_classifier.py --predict_file=-, one pair", run,
      "run_classifier.py", "--do_predict", "--predict_file=-", model,
      text="It rained all day.\tThe sun never came out.\n",
    )
  report(
    "fill_mask.py, one line", run, "fill_mask.py",
    f"--model_dir={FLAGS.model_dir}", text="Paris is a [MASK].\n",
  )


if __name__ == "__main__":
  app.run(main)
