"""The same row by another program: Hugging Face's Trainer, in its own Python.

What is run (--peer_program) shares no code with this project. Task, files,
sizes, rate, epochs and warm-up are the row's; weight decay, epsilon and
clipping are equal, too. Unlike here, AdamW corrects the bias of its moments:
rows are published with BERTAdam, which does not.
"""

import json
import os
import subprocess

from common import errors
from reproduction import rows

# Task -> what the peer calls a metric, and what our eval_results.txt does.
METRICS = {
  "cola": {"mcc": "eval_matthews"},
  "mnli": {"accuracy": "eval_accuracy"},
  "mrpc": {"accuracy": "eval_accuracy", "f1": "eval_f1"},
  "qnli": {"accuracy": "eval_accuracy"},
  "qqp": {"accuracy": "eval_accuracy", "f1": "eval_f1"},
  "rte": {"accuracy": "eval_accuracy"},
  "sst-2": {"accuracy": "eval_accuracy"},
  "sts-b": {"pearson": "eval_pearson", "spearman": "eval_spearman"},
  "wnli": {"accuracy": "eval_accuracy"},
  "squad": {"exact_match": "exact_match", "f1": "f1"},
  "ner": {"f1": "f1", "precision": "precision", "recall": "recall"},
}
# Flags of a row that the peer has under the same name.
_SAME = (
  "learning_rate", "num_train_epochs", "train_batch_size", "max_seq_length",
  "doc_stride",
)
# As run_classifier.py and run_squad.py do where a row says nothing.
_RECIPE = {"warmup_proportion": 0.1, "weight_decay": 0.01}


def task_of(row: rows.Row) -> str:
  """Returns the peer's name of a row's task; InputError if it has none."""
  flags = _flags(row)
  task = flags.get("task_name", "").lower()
  if row.script == "run_squad.py" and "version_2_with_negative" not in flags:
    task = "squad"
  # SQuAD is scored by prediction, GLUE's test sets by their server.
  if task not in METRICS or "do_predict" in flags and task != "squad":
    raise errors.InputError(
      f"--row={row.name}: --reference=peer runs the rows of GLUE's dev sets "
      "and of SQuAD 1.1; leave this one out"
    )
  return task


def _flags(row):
  """Returns {name: value} of a row's flags."""
  pairs = (flag.removeprefix("--").partition("=") for flag in row.flags)
  return {name: value for name, _, value in pairs}


def command(row: rows.Row, program: list, *, weights, data, values) -> list:
  """Returns the command of a run, a list for subprocess.

  Args:
    row: what to run.
    program: the interpreter and the file of the peer.
    weights: folder in Hugging Face's layout.
    data: folder of the data.
    values: more flags, such as the seed.

  Raises:
    InputError: the peer does not do this row, or cannot read the folder.
  """
  task, flags = task_of(row), _flags(row)
  if not os.path.exists(program[1]):
    raise errors.InputError(
      f"--reference=peer runs {program[1]}, which is not there: run "
      "reproduce.py in a clone, or name a program with --peer_program"
    )
  if not os.path.exists(os.path.join(weights, "config.json")):
    raise errors.InputError(
      f"--reference=peer reads Hugging Face's layout, and {weights} has no "
      "config.json: python convert_checkpoint.py --to=huggingface "
      f"--input={weights} --output=FOLDER, then pass --peer_weights=FOLDER"
    )
  taken = {name: flags[name] for name in _SAME if name in flags}
  if task == "squad":
    for name in ("train_file", "predict_file"):
      taken[name] = os.path.basename(flags[name])
  values = {
    "task": task, "data_dir": data, "weights": weights, **taken, **_RECIPE,
    **values,
  }
  return [*program, *(f"--{name}={value}" for name, value in values.items())]


def run(arguments: list[str], task: str) -> dict[str, float]:
  """Runs a command of `command`; returns {our name of a metric: value}.

  Raises:
    InputError: it failed.
  """
  try:
    done = subprocess.run(
      arguments, stdout=subprocess.PIPE, text=True, check=False,
      # The weights are in a folder: nothing is to be fetched.
      env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
  except OSError as error:
    raise errors.InputError(
      f"--peer_python={arguments[0]} cannot be run: {error}"
    ) from error
  if done.returncode:
    raise errors.InputError(
      f"the peer ended with code {done.returncode}, see its own message above; "
      f"{arguments[0]} must have torch, transformers 5, accelerate, "
      "scikit-learn and scipy"
    )
  lines = done.stdout.strip().splitlines()
  try:
    # GLUE's are shares of 1, SQuAD's per cent, on both sides.
    found = json.loads(lines[-1])["metrics"]
    return {ours: float(found[name]) for name, ours in METRICS[task].items()}
  except (IndexError, KeyError, TypeError, ValueError) as error:
    raise errors.InputError(
      f"the peer's last line is {lines[-1:]!r:.80}; expected JSON with metrics"
    ) from error
