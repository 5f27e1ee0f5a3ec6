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
import json
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

CONFIG = {
  "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu",
  "hidden_dropout_prob": 0.1, "hidden_size": 256, "initializer_range": 0.02,
  "intermediate_size": 1024, "max_position_embeddings": 128,
  "num_attention_heads": 4, "num_hidden_layers": 4, "type_vocab_size": 2,
  "vocab_size": 8000,
}
_LENGTH, _PREDICTIONS = 64, 10
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
_EVAL_BATCHES = 70  # The held-out records of 20 MB of text, about once.


def parse_arguments():
  """Returns the flags, an argparse.Namespace."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  add = parser.add_argument
  add("--text", type=pathlib.Path, required=True,
      help="one sentence a line, a blank line between documents")
  add("--glue", type=pathlib.Path, required=True,
      help="folder with " + ", ".join(TASKS))
  add("--output_dir", type=pathlib.Path, required=True)
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
  add("--page", type=pathlib.Path, help="page with the two markers")
  return parser.parse_args()


def split(text, folder):
  """Writes train.txt and held_out.txt: every twentieth document."""
  documents = text.read_text(encoding="utf-8").split("\n\n")
  parts = {"train.txt": [], "held_out.txt": []}
  for number, document in enumerate(documents):
    name = "held_out.txt" if number % 20 == 10 else "train.txt"
    parts[name].append(document)
  for name, kept in parts.items():
    file_io.write_text(str(folder / name), "\n\n".join(kept) + "\n")


def make_records(folder, text, output, *flags):
  """Makes records of `text`, the same length for all."""
  if "--dynamic_masking" not in flags:
    flags = (f"--max_predictions_per_seq={_PREDICTIONS}", *flags)
  experiments.run(
    "create_pretraining_data.py", f"--input_file={text}",
    f"--output_file={output}", f"--vocab_file={folder / 'vocab.txt'}",
    f"--max_seq_length={_LENGTH}", *flags, done=output,
  )


def pretrain(arguments, name):
  """Pre-trains with a recipe; returns the run's folder."""
  folder = arguments.output_dir
  data_flags, flags = RECIPES[name]
  output = folder / experiments.slug(name)
  records = folder / f"{output.name}.tfrecord"
  make_records(folder, folder / "train.txt", records, *data_flags)
  packing = [flag for flag in data_flags if flag.startswith("--packing")]
  held_out = folder / f"held_out{'_full' * bool(packing)}.tfrecord"
  make_records(
    folder, folder / "held_out.txt", held_out, *packing, "--dupe_factor=1"
  )
  experiments.run(
    "run_pretraining.py", "--do_train", "--do_eval", f"--input_file={records}",
    f"--eval_input_file={held_out}", f"--output_dir={output}",
    f"--bert_config_file={folder / 'bert_config.json'}",
    f"--vocab_file={folder / 'vocab.txt'}", f"--max_seq_length={_LENGTH}",
    f"--max_predictions_per_seq={_PREDICTIONS}",
    f"--train_batch_size={arguments.train_batch_size}",
    f"--num_train_steps={arguments.num_train_steps}",
    f"--num_warmup_steps={arguments.num_train_steps // 10}",
    f"--learning_rate={arguments.learning_rate}", "--optimizer=adamw",
    f"--eval_steps={max(1, arguments.num_train_steps // 12)}",
    "--eval_batch_size=64", f"--max_eval_steps={_EVAL_BATCHES}",
    f"--dtype={arguments.dtype}", *flags, done=output / "eval_results.txt",
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
    f"--max_seq_length={_LENGTH}", f"--max_predictions_per_seq={_PREDICTIONS}",
    "--nouse_next_sentence_loss", "--eval_batch_size=64",
    f"--max_eval_steps={_EVAL_BATCHES}", done=scores / "eval_results.txt",
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
      arguments, task, data, output, *weights, f"--learning_rate={rate}"
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


def main():
  arguments = parse_arguments()
  started = time.monotonic()
  folder = arguments.output_dir
  folder.mkdir(parents=True, exist_ok=True)
  json_files.write(str(folder / "bert_config.json"), CONFIG)
  split(arguments.text, folder)
  experiments.run(
    "create_vocabulary.py", f"--input_file={folder / 'train.txt'}",
    f"--output_file={folder / 'vocab.txt'}",
    f"--vocab_size={CONFIG['vocab_size']}", done=folder / "vocab.txt",
  )
  outputs = {name: pretrain(arguments, name) for name in RECIPES}
  flags = {
    _NOTHING: [
      f"--bert_config_file={folder / 'bert_config.json'}",
      f"--vocab_file={folder / 'vocab.txt'}",
    ]
  }
  for name, output in outputs.items():
    flags[name] = [f"--model_dir={output / 'final_model'}"]
  accuracies = {
    name: held_out_score(arguments, output) for name, output in outputs.items()
  }
  chosen = [_NOTHING, *arguments.fine_tune_from.split(";")]
  rows = {
    start: (
      accuracies.get(start),
      {task: fine_tune(arguments, task, start, flags[start]) for task in TASKS}
      if start in chosen else {},
    )
    for start in flags
  }
  table = report(arguments, rows)
  print(table)
  print(f"{(time.monotonic() - started) / 60:.0f} minutes of this call")
  if arguments.page:
    chart = arguments.page.parent / "pretraining_gain.png"
    draw(outputs, chart)
    picture = f"![Held-out loss and accuracy]({chart.name})"
    experiments.write_into(
      arguments.page, "pretraining gain", f"{picture}\n\n{table}"
    )


if __name__ == "__main__":
  errors.report_input_errors(lambda argv: main())(sys.argv)
