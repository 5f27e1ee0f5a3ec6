"""Predictions -> the files that GLUE's server (gluebenchmark.com) takes.

One TSV for each test set: "index" counts from 0 in the order of the test file,
"prediction" is a class by the name that the training file has for it, or for
STS-B a score from 0 to 5. All eleven, zipped, are one submission.
"""

import os

from absl import logging

from classification import glue, labelled_examples
from common import errors, file_io

# {(task, split): file and how many rows the server expects in it}.
FILES = {
  ("cola", "test"): ("CoLA.tsv", 1063),
  ("sst-2", "test"): ("SST-2.tsv", 1821),
  ("mrpc", "test"): ("MRPC.tsv", 1725),
  ("sts-b", "test"): ("STS-B.tsv", 1379),
  ("qqp", "test"): ("QQP.tsv", 390965),
  ("mnli", "test_matched"): ("MNLI-m.tsv", 9796),
  ("mnli", "test_mismatched"): ("MNLI-mm.tsv", 9847),
  ("qnli", "test"): ("QNLI.tsv", 5463),
  ("rte", "test"): ("RTE.tsv", 3000),
  ("wnli", "test"): ("WNLI.tsv", 146),
  ("ax", "test"): ("AX.tsv", 1104),
}


def check_task(task: glue.Task) -> None:
  """Refuses a task that the server does not know, before hours of training.

  Raises:
    InputError: it is none of GLUE.
  """
  known = dict.fromkeys(name for name, _ in FILES)
  if task.name not in known:
    raise errors.InputError(
      f"--glue_submission_dir: {task.title} is no task of GLUE's server, "
      f"which has {', '.join(known)}; leave the flag out"
    )


def write(folder: str, task: glue.Task, split: str, predictions: list) -> str:
  """Writes the file of a test set, whole or not at all; returns its path.

  Says so where it has not the number of rows that the server expects.

  Args:
    folder: is made if need be.
    split: one of glue.splits(task, "predict").
    predictions: of each test example in order: the class (str), or the score.

  Raises:
    InputError: the task is none of GLUE.
  """
  check_task(task)
  name, rows = FILES[task.name, split]
  path = os.path.join(folder, name)
  if task.kind == labelled_examples.REGRESSION:
    low, high = task.scores
    # The server refuses scores outside of the range.
    predictions = [f"{min(max(each, low), high):.3f}" for each in predictions]
  elif unknown := set(predictions) - set(task.labels):
    raise ValueError(f"{unknown.pop()!r} is none of {task.labels}")
  lines = [f"{index}\t{value}\n" for index, value in enumerate(predictions)]
  file_io.write_text(path, "".join(["index\tprediction\n", *lines]))
  # A warning alone: a part of the test set may have been asked for.
  if len(predictions) != rows:
    logging.warning(
      "%s: %d predictions, but the server expects %d: it will refuse the file",
      path, len(predictions), rows,
    )
  return path
