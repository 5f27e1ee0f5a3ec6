"""A row of reproduce.py by Hugging Face's Trainer, for --reference=peer.

  python reproduce.py --row=mrpc-base --seeds=5 --model_dir=minilm \
      --data_dir=downloads --reference=peer --peer_python=peer/bin/python \
      --peer_program=benchmarks/row_peer.py

Takes the flags of the row's script and runs finetuning_peer.py with its task,
files, sizes, rate, epochs and warm-up; weight decay, epsilon and clipping are
equal, too. AdamW corrects the bias of its moments: rows are published with
BERTAdam, which does not. Writes eval_results.txt into --output_dir, with the
names that the row's script has there.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

# Task -> what finetuning_peer.py calls a metric, and what our scripts do.
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
# What the scripts do where a row says nothing.
RECIPE = {"warmup_proportion": "0.1", "weight_decay": "0.01"}
# Flags of a row that finetuning_peer.py has, too.
SAME = (
  "learning_rate", "num_train_epochs", "train_batch_size", "max_seq_length",
  "doc_stride", "seed", "data_dir", "max_train_steps", "task_name",
  "train_file", "predict_file", "output_dir", "model_dir",
)


def parse_flags(arguments):
  """Returns the Namespace of a row's flags; it exits if it cannot do the row.
  """
  parser = argparse.ArgumentParser(allow_abbrev=False)
  for name in SAME:
    parser.add_argument(f"--{name}")
  for name in ("do_train", "do_eval", "do_predict"):
    parser.add_argument(f"--{name}", action="store_true")
  found, unknown = parser.parse_known_args(arguments)
  found.task = (found.task_name or "squad").lower()
  is_squad = found.task == "squad" and found.predict_file
  # GLUE's test sets are scored by their server.
  if unknown or found.task not in METRICS or not (is_squad or found.do_eval):
    sys.exit(
      "this peer runs the rows of GLUE's dev sets and of SQuAD 1.1; leave this "
      f"one out ({' '.join(unknown) or found.task})"
    )
  if not pathlib.Path(found.model_dir, "config.json").exists():
    sys.exit(
      f"this peer reads Hugging Face's layout, and {found.model_dir} has no "
      "config.json: python convert_checkpoint.py --to=huggingface "
      f"--input={found.model_dir} --output=FOLDER, then pass "
      "--peer_weights=FOLDER"
    )
  return found


def command(flags):
  """Returns the command of finetuning_peer.py for the flags of a row."""
  values = {"task": flags.task, "weights": flags.model_dir, **RECIPE}
  values |= {name: getattr(flags, name) for name in SAME[:7]}
  values["max_steps"] = flags.max_train_steps
  if flags.task == "squad":
    values["data_dir"] = os.path.dirname(flags.train_file)
    for name in ("train_file", "predict_file"):
      values[name] = os.path.basename(getattr(flags, name))
  program = pathlib.Path(__file__).with_name("finetuning_peer.py")
  return [
    sys.executable, str(program),
    *(f"--{name}={value}" for name, value in values.items() if value),
  ]


def main():
  flags = parse_flags(sys.argv[1:])
  done = subprocess.run(
    command(flags), stdout=subprocess.PIPE, text=True,
    # The weights are in a folder: nothing is to be fetched.
    env={**os.environ, "HF_HUB_OFFLINE": "1"},
  )
  if done.returncode:
    sys.exit(
      f"{sys.executable} must have torch, transformers 5, accelerate, "
      "scikit-learn and scipy; see the message above"
    )
  metrics = json.loads(done.stdout.splitlines()[-1])["metrics"]
  folder = pathlib.Path(flags.output_dir)
  folder.mkdir(parents=True, exist_ok=True)
  # GLUE's are shares of 1, SQuAD's per cent, on both sides.
  text = "".join(
    f"{ours} = {metrics[theirs]}\n"
    for theirs, ours in METRICS[flags.task].items()
  )
  (folder / "eval_results.txt").write_text(text)


if __name__ == "__main__":
  main()
