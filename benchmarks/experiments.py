"""What the experiments share: commands that run once, scores, short tasks."""

import itertools
import os
import shutil
import statistics
import sys

# Run as a script, this folder is on the path and its parent is not.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import data_commands
import measured_runs
import table_rows

from common import file_io
from reproduction import runs

ROOT = data_commands.ROOT


def run(script, *flags, done):
  """Runs a script of this project, unless it has run already.

  Args:
    script: its file name.
    *flags: strings.
    done: path of a file that the script writes at its end.

  Raises:
    InputError: it failed; with the end of what it said.
  """
  if not done.exists():
    print(" ".join(["python", script, *flags]), flush=True)
    measured_runs.run([sys.executable, ROOT / script, *flags])


def slug(name):
  """Returns the name of a row of a table as that of a file."""
  return name.replace(",", "").replace(" ", "_").lower()


def fine_tune(arguments, task, data, output, *flags):
  """Runs run_classifier.py with every seed, unless it has run already.

  Args:
    arguments: argparse.Namespace with `seeds`, `num_train_epochs`, `dtype`.
    task: its name.
    data: folder of its tables.
    output: the new folder.
    *flags: strings; the weights and the learning rate.
  """
  run(
    "run_classifier.py", "--do_train", "--do_eval", f"--task_name={task}",
    f"--data_dir={data}", f"--output_dir={output}", *flags,
    f"--seeds={arguments.seeds}",
    f"--num_train_epochs={arguments.num_train_epochs}",
    "--train_batch_size=32", "--max_seq_length=64", "--optimizer=adamw",
    # More than there are: nothing but the last weights is read.
    "--save_checkpoints_steps=100000", f"--dtype={arguments.dtype}",
    done=output / "seeds_results.txt",
  )


def scores(output, metric):
  """Returns a metric of every seed of a `fine_tune`."""
  folders = sorted(output.glob("seed_*"))
  return [runs.read_eval_results(folder)[metric] for folder in folders]


def first_rows(source, rows, made, *, header=1):
  """Makes a task's folder with the first rows of its train.tsv.

  Args:
    source: a task's folder of GLUE.
    rows: how many; None: all, and `source` is returned.
    made: the new folder; its tables of the dev set are whole.
    header: lines of train.tsv above the rows; CoLA's has none.

  Returns:
    The folder to train on.
  """
  if rows is None:
    return source
  made.mkdir(parents=True, exist_ok=True)
  # MNLI has two.
  for path in source.glob("dev*.tsv"):
    shutil.copy(path, made)
  with open(source / "train.tsv", encoding="utf-8") as stream:
    kept = "".join(itertools.islice(stream, rows + header))
  file_io.write_text(str(made / "train.tsv"), kept)
  return made


def spread(values):
  """Returns `median ± standard deviation` of shares, in points of 100."""
  # Of a sample: the seeds stand for all that could have been drawn.
  deviation = statistics.stdev(values) if len(values) > 1 else 0.0
  return f"{100 * statistics.median(values):.1f} ± {100 * deviation:.1f}"


def write_into(page, name, text):
  """Writes text between the markers of a page; does nothing without a page."""
  if page is not None:
    old = page.read_text(encoding="utf-8")
    file_io.write_text(str(page), table_rows.replace_table(old, text, name))
