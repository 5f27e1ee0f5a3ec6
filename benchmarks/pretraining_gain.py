"""Pre-trains small models on a text and fine-tunes them: does it help?

  python benchmarks/pretraining_gain.py --text=novels.txt --glue=glue \
      --output_dir=gain --page=docs/reproduction.md

Holds out every twentieth document, makes a vocabulary of the others and
pre-trains the same network, from nothing, in each of RECIPES: with and without
next sentences, with masks made once and anew in every epoch. Then
run_classifier.py starts from each and from random weights, with several seeds.
Every step is a command of this project, which is printed; what is finished in
--output_dir is not run again. The report, Markdown with a chart of the
held-out losses next to it, is printed and written to --page between its two
markers.
"""

import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import statistics
import sys
import time

# Run as a script, this folder is on the path and its parent is not.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import experiments

from common import errors, file_io, json_files
from reproduction import runs

_VOCAB_SIZE = 8000
# name -> (layers, width, heads)
SIZES = {"mini": (4, 256, 4), "medium": (8, 512, 8), "base": (12, 768, 12)}
# name -> (flags of the records, flags of the training)
RECIPES = {
  "NSP, static masks": (["--dupe_factor=5"], []),
  "no NSP, static masks": (
    ["--packing=full_sentences", "--dupe_factor=5"],
    ["--nouse_next_sentence_loss"],
  ),
  "no NSP, dynamic masks": (
    ["--packing=full_sentences", "--dynamic_masking"],
    ["--nouse_next_sentence_loss"],
  ),
}
_NOTHING = "random weights"
# task -> (its folder, rows of train.tsv or None, result that counts)
TASKS = {
  "SST-2": ("SST-2", 10000, "eval_accuracy"),
  "CoLA": ("CoLA", None, "eval_matthews"),
  "MRPC": ("MRPC", None, "eval_accuracy"),
}
_EVAL_TOKENS = 70 * 64 * 64  # The held-out records of 20 MB of text, about.


def parse_arguments():
  """Returns the flags, an argparse.Namespace."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  add = parser.add_argument
  add("--text", type=pathlib.Path, required=True,
      help="one sentence a line, a blank line between documents")
  add("--glue", type=pathlib.Path, required=True,
      help="folder with " + ", ".join(TASKS))
  add("--output_dir", type=pathlib.Path, required=True)
  add("--size", default="mini", choices=list(SIZES), help="of the network")
  add("--max_seq_length", type=int, default=64, help="of the pre-training")
  add("--num_train_steps", type=int, default=6000, help="of each pre-training")
  add("--train_batch_size", type=int, default=32, help="of the pre-training")
  add("--learning_rate", type=float, default=1e-3, help="of the pre-training")
  add("--seeds", default="1,2,3", help="of each fine-tuning")
  add("--fine_tuning_rates", default="1e-4,3e-4",
      help="each start is shown at the rate with the best median")
  add("--num_train_epochs", type=float, default=3, help="of each fine-tuning")
  add("--fine_tune_from", default=";".join(RECIPES),
      help="recipes whose weights are fine-tuned, separated by semicolons")
  add("--dtype", default="float32")
  add("--jobs", type=int, default=1,
      help="commands at the same time, if the device has memory for them")
  add("--jit_compile", default="auto", help="of the fine-tunings")
  add("--page", type=pathlib.Path, help="page with the two markers")
  add("--marker", default="pretraining gain",
      help="name of the page's markers and, with _ for spaces, of the chart")
  return parser.parse_args()


def make_config(size):
  """Returns what bert_config.json holds, a dict."""
  layers, width, heads = SIZES[size]
  return {
    "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1, "hidden_size": width,
    "initializer_range": 0.02, "intermediate_size": 4 * width,
    "max_position_embeddings": 128, "num_attention_heads": heads,
    "num_hidden_layers": layers, "type_vocab_size": 2,
    "vocab_size": _VOCAB_SIZE,
  }


def num_predictions(arguments):
  """Returns how many words of a sequence are masked: 15 %, as by default."""
  return math.ceil(0.15 * arguments.max_seq_length)


def split(text, folder):
  """Writes train.txt and held_out.txt: every twentieth document."""
  documents = text.read_text(encoding="utf-8").split("\n\n")
  parts = {"train.txt": [], "held_out.txt": []}
  for number, document in enumerate(documents):
    name = "held_out.txt" if number % 20 == 10 else "train.txt"
    parts[name].append(document)
  for name, kept in parts.items():
    file_io.write_text(str(folder / name), "\n\n".join(kept) + "\n")


def make_records(arguments, part, output, *flags):
  """Makes records of train.txt or held_out.txt, the same length for all."""
  folder = arguments.output_dir
  # Refused where no masks are stored.
  if "--dynamic_masking" not in flags:
    count = num_predictions(arguments)
    flags = (f"--max_predictions_per_seq={count}", *flags)
  experiments.run(
    "create_pretraining_data.py", f"--input_file={folder / part}",
    f"--output_file={output}", f"--vocab_file={folder / 'vocab.txt'}",
    f"--max_seq_length={arguments.max_seq_length}", *flags, done=output,
  )


def make_all_records(arguments):
  """Returns a dict from each recipe to its records and the held-out ones."""
  folder, found = arguments.output_dir, {}
  for name, (data_flags, _) in RECIPES.items():
    records = folder / f"{experiments.slug(name)}.tfrecord"
    make_records(arguments, "train.txt", records, *data_flags)
    # Of the recipe the packing alone: held-out masks are stored, so that every
    # evaluation is of the same words.
    packing = [flag for flag in data_flags if flag.startswith("--packing")]
    held_out = folder / f"held_out{'_full' * bool(packing)}.tfrecord"
    make_records(
      arguments, "held_out.txt", held_out, *packing, "--dupe_factor=1"
    )
    found[name] = records, held_out
  return found


def evaluation_flags(arguments):
  """Returns flags of run_pretraining.py that all evaluations share."""
  batches = _EVAL_TOKENS // (64 * arguments.max_seq_length)
  return [
    f"--max_seq_length={arguments.max_seq_length}",
    f"--max_predictions_per_seq={num_predictions(arguments)}",
    "--eval_batch_size=64", f"--max_eval_steps={batches}",
  ]


def pretrain(arguments, name, files):
  """Pre-trains with a recipe and two files; returns the run's folder."""
  folder = arguments.output_dir
  output = folder / experiments.slug(name)
  records, held_out = files
  experiments.run(
    "run_pretraining.py", "--do_train", "--do_eval", f"--input_file={records}",
    f"--eval_input_file={held_out}", f"--output_dir={output}",
    f"--bert_config_file={folder / 'bert_config.json'}",
    f"--vocab_file={folder / 'vocab.txt'}", *evaluation_flags(arguments),
    f"--train_batch_size={arguments.train_batch_size}",
    f"--num_train_steps={arguments.num_train_steps}",
    f"--num_warmup_steps={arguments.num_train_steps // 10}",
    f"--learning_rate={arguments.learning_rate}", "--optimizer=adamw",
    # A dozen points make a curve.
    f"--eval_steps={max(1, arguments.num_train_steps // 12)}",
    f"--dtype={arguments.dtype}", *RECIPES[name][1],
    done=output / "eval_results.txt",
  )
  return output


def held_out_score(arguments, output):
  """Masked-LM accuracy on the same held-out records for all recipes."""
  folder = arguments.output_dir
  records = folder / "held_out_full.tfrecord"
  scores = folder / f"{output.name}_held_out"
  experiments.run(
    "run_pretraining.py", "--do_eval", f"--input_file={records}",
    f"--output_dir={scores}", f"--model_dir={output / 'final_model'}",
    *evaluation_flags(arguments), "--nouse_next_sentence_loss",
    done=scores / "eval_results.txt",
  )
  return runs.read_eval_results(scores)["masked_lm_accuracy"]


def fine_tune(arguments, task, start, weights):
  """Fine-tunes from weights; returns the best rate and its seeds' scores."""
  folder, rows, metric = TASKS[task]
  made = arguments.output_dir / "data" / folder
  data = experiments.first_rows(arguments.glue / folder, rows, made)
  found = {}
  for rate in arguments.fine_tuning_rates.split(","):
    name = f"{task}_{experiments.slug(start)}_{rate}"
    output = arguments.output_dir / "fine_tuned" / name
    experiments.fine_tune(
      arguments, task, data, output, *weights, f"--learning_rate={rate}",
      f"--jit_compile={arguments.jit_compile}",
    )
    found[rate] = experiments.scores(output, metric)
  rate = max(found, key=lambda rate: statistics.median(found[rate]))
  return rate, found[rate]


def curves(output):
  """Returns the (step, loss, masked-LM accuracy) of a run's evaluations."""
  points = []
  with open(output / "train_log.jsonl", encoding="utf-8") as stream:
    for values in map(json.loads, stream):
      if "eval/masked_lm_loss" in values:
        names = ("step", "eval/masked_lm_loss", "eval/masked_lm_accuracy")
        points.append(tuple(values[name] for name in names))
  return points


def draw(outputs, path):
  """Draws the held-out masked-LM loss and accuracy of all runs."""
  import matplotlib

  matplotlib.use("Agg")
  from matplotlib import pyplot

  figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.4))
  for name, output in outputs.items():
    steps, losses, accuracies = zip(*curves(output), strict=True)
    axes[0].plot(steps, losses, label=name)
    axes[1].plot(steps, [100 * value for value in accuracies], label=name)
  for axis, title in zip(
    axes, ("masked-LM loss", "masked-LM accuracy, %"), strict=True
  ):
    axis.set(title=f"held-out {title}", xlabel="step")
    axis.grid(alpha=0.3)
  axes[0].legend()
  figure.tight_layout()
  figure.savefig(path, dpi=110)
  pyplot.close(figure)


def report(arguments, rows):
  """Returns the Markdown table of all starts."""
  tasks = list(TASKS)
  lines = [
    "| start | held-out masked-LM accuracy | " + " | ".join(tasks) + " |",
    "|---|---|" + "---|" * len(tasks),
  ]
  for start, (accuracy, scores) in rows.items():
    shown = f"{100 * accuracy:.1f} %" if accuracy is not None else "–"
    cells = ["–"] * len(tasks)
    if scores:
      cells = [
        f"{experiments.spread(found)} (rate {rate})"
        for rate, found in scores.values()
      ]
    lines.append(f"| {start} | {shown} | " + " | ".join(cells) + " |")
  return "\n".join(lines)


def fine_tune_all(arguments, outputs, commands):
  """Fine-tunes every task from random weights and --fine_tune_from.

  Args:
    arguments: the flags.
    outputs: dict from recipe to its pre-training's folder.
    commands: executor of what may run at the same time.

  Returns:
    dict from start to dict from task to what `fine_tune` returns.
  """
  folder = arguments.output_dir
  flags = {
    _NOTHING: [
      f"--bert_config_file={folder / 'bert_config.json'}",
      f"--vocab_file={folder / 'vocab.txt'}",
    ]
  }
  for name in arguments.fine_tune_from.split(";"):
    flags[name] = [f"--model_dir={outputs[name] / 'final_model'}"]
  waiting = {
    start: {
      task: commands.submit(fine_tune, arguments, task, start, flags[start])
      for task in TASKS
    }
    for start in flags
  }
  return {
    start: {task: future.result() for task, future in futures.items()}
    for start, futures in waiting.items()
  }


def run_all(arguments):
  """Runs what has not run yet; returns the runs' folders and the table."""
  folder = arguments.output_dir
  folder.mkdir(parents=True, exist_ok=True)
  config = make_config(arguments.size)
  json_files.write(str(folder / "bert_config.json"), config)
  split(arguments.text, folder)
  experiments.run(
    "create_vocabulary.py", f"--input_file={folder / 'train.txt'}",
    f"--output_file={folder / 'vocab.txt'}", f"--vocab_size={_VOCAB_SIZE}",
    done=folder / "vocab.txt",
  )
  files = make_all_records(arguments)
  with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as commands:
    folders = commands.map(
      lambda name: pretrain(arguments, name, files[name]), RECIPES
    )
    outputs = dict(zip(RECIPES, folders, strict=True))
    scores = dict(zip(
      RECIPES,
      commands.map(
        lambda output: held_out_score(arguments, output), outputs.values()
      ),
      strict=True,
    ))
    tuned = fine_tune_all(arguments, outputs, commands)
  rows = {
    start: (scores.get(start), tuned.get(start, {}))
    for start in (_NOTHING, *RECIPES)
  }
  return outputs, report(arguments, rows)


def main():
  arguments = parse_arguments()
  started = time.monotonic()
  outputs, table = run_all(arguments)
  print(table)
  print(f"{(time.monotonic() - started) / 60:.0f} minutes of this call")
  if arguments.page:
    name = arguments.marker.replace(" ", "_")
    chart = arguments.page.parent / f"{name}.png"
    draw(outputs, chart)
    picture = f"![Held-out loss and accuracy]({chart.name})"
    experiments.write_into(
      arguments.page, arguments.marker, f"{picture}\n\n{table}"
    )


if __name__ == "__main__":
  errors.report_input_errors(lambda argv: main())(sys.argv)
