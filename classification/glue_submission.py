"""Predictions -> the files that GLUE's server (gluebenchmark.com) takes.

One TSV for each test set: "index" counts from 0 in the order of the test file,
"prediction" is a class by the name that the training file has for it, or for
STS-B a score from 0 to 5. All eleven, zipped, are one submission.
"""

import os
from typing import NamedTuple

from absl import logging

from classification import labelled_examples
from common import errors, file_io


class _File(NamedTuple):
  name: str
  rows: int


# {(task, split): file and how many rows the server expects in it}.
FILES = {
  ("cola", "test"): _File("CoLA.tsv", 1063),
  ("sst-2", "test"): _File("SST-2.tsv", 1821),
  ("mrpc", "test"): _File("MRPC.tsv", 1725),
  ("sts-b", "test"): _File("STS-B.tsv", 1379),
  ("qqp", "test"): _File("QQP.tsv", 390965),
  ("mnli", "test_matched"): _File("MNLI-m.tsv", 9796),
  ("mnli", "test_mismatched"): _File("MNLI-mm.tsv", 9847),
  ("qnli", "test"): _File("QNLI.tsv", 5463),
  ("rte", "test"): _File("RTE.tsv", 3000),
  ("wnli", "test"): _File("WNLI.tsv", 146),
  ("ax", "test"): _File("AX.tsv", 1104),
}


def check_task(task):
  """Refuses a task that the server does not know, before hours of training.

  Args:
    task: glue.Task.

  Raises:
    InputError: it is none of GLUE.
  """
  if not any(name == task.name for name, _ in FILES):
    raise errors.InputError(
      f"--glue_submission_dir: {task.title} is no task of GLUE's server, "
      f"which has {', '.join(dict.fromkeys(name for name, _ in FILES))}; "
      "leave the flag out"
    )


def lines(task, predictions):
  """Returns the lines of a file.

  Args:
    task: glue.Task.
    predictions: of each test example in order: the class (str), or the score.

  Returns:
    List of str, the header first, each with its newline.
  """
  found = ["index\tprediction\n"]
  for index, value in enumerate(predictions):
    if task.kind == labelled_examples.REGRESSION:
      low, high = task.scores
      # The server refuses scores outside of the range.
      value = f"{min(max(value, low), high):.3f}"
    elif value not in task.labels:
      raise ValueError(f"{value!r} is none of {task.labels}")
    found.append(f"{index}\t{value}\n")
  return found


def write(folder, task, split, predictions):
  """Writes the file of a test set, whole or not at all.

  Says so where it has not the number of rows that the server expects.

  Args:
    folder: is made if need be.
    task: glue.Task.
    split: one of glue.splits(task, "predict").
    predictions: as of `lines`.

  Returns:
    The path of the file.

  Raises:
    InputError: the task is none of GLUE.
  """
  check_task(task)
  file = FILES[task.name, split]
  path = os.path.join(folder, file.name)
  file_io.write_text(path, "".join(lines(task, predictions)))
  # A warning alone: a part of the test set may have been asked for.
  if len(predictions) != file.rows:
    logging.warning(
      "%s: %d predictions, but the server expects %d: it will refuse the file",
      path, len(predictions), file.rows,
    )
  return path
