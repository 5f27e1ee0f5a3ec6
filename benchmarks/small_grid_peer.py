r"""The README's grid for small models, with Hugging Face's Trainer.

  python benchmarks/small_grid_peer.py --tasks=mrpc,rte --seed=1 \
      --data_dir=downloads --weights=FOLDER --peer_python=peer/bin/python \
      --runs_file=peer.jsonl --report=reproduced/report.json

makes the runs of reproduce.py's rows, such as mrpc-tiny, from the same files
and weights, with the same schedule and Adam's bias correction. Each adds a line
of JSON to --runs_file, and is not made again. One seed a call lets both sides
take turns. At the end a table compares all runs with those in --report.
"""

import argparse
import itertools
import json
import pathlib
import statistics

import finetuning_scores

SETTINGS = [*itertools.product((8, 16, 32, 64, 128), (3e-4, 1e-4, 5e-5, 3e-5))]


def table(report, stored):
  """Yields the lines of a table of the grids that both sides have run."""
  yield "| row, metric | published, test | here | Hugging Face |"
  yield "|---|---|---|---|"
  for row, lines in itertools.groupby(report, lambda line: line["row"]):
    runs = [x for x in stored if x["key"]["task"] == row.rpartition("-")[0]]
    lines = [line for line in lines if line["grid"] and runs]
    for line in lines:
      # The row's first metric chooses the best run of each seed, as here.
      first, name = (x["metric"].partition("_")[2] for x in (lines[0], line))
      runs.sort(key=lambda x: x["metrics"][first])
      best = {x["key"]["seed"]: x for x in runs}.values()
      peer = [[100 * x["metrics"][name] for x in side] for side in (best, runs)]
      cells = (
        f"{statistics.median(chosen):.1f} of {len(chosen)}; all "
        f"{statistics.median(values):.1f} ± {statistics.stdev(values):.1f}"
        for chosen, values in ((line["values"], line["grid"]["values"]), peer)
      )
      yield f"| {row}, {name} | {line['published']} | {' | '.join(cells)} |"


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  names = "--tasks", "--data_dir", "--weights", "--peer_python", "--runs_file"
  for name in names:
    parser.add_argument(name, required=True)
  parser.add_argument("--report")
  parser.add_argument("--seed", type=int, default=1)
  arguments = parser.parse_args()
  finetuning_scores.measured_runs.set_environment()
  tasks = arguments.tasks.split(",")
  for task, (size, rate) in itertools.product(tasks, SETTINGS):
    job = finetuning_scores.parse_arguments([
      f"--task={task}", f"--data_dir={arguments.data_dir}/{task}",
      f"--weights={arguments.weights}", f"--seeds={arguments.seed}",
      f"--peer_python={arguments.peer_python}",
      f"--runs_file={arguments.runs_file}", f"--train_batch_size={size}",
      f"--learning_rate={rate}", "--num_train_epochs=4",
      "--warmup_proportion=0.1",
    ])
    finetuning_scores.all_runs(job, ["peer"])
  if arguments.report:
    report = json.loads(pathlib.Path(arguments.report).read_text("utf-8"))
    runs = pathlib.Path(arguments.runs_file).read_text("utf-8").splitlines()
    print(*table(report, list(map(json.loads, runs))), sep="\n")


if __name__ == "__main__":
  main()
