r"""Pre-trains a small model in each way, and prints losses and speed.

  python benchmarks/pretraining_ways.py --text=novels.txt --folder=out/ways

Each row of pretraining_ways.csv has its flags for the records and the training,
its keys of the configuration, and a factor of --steps. A model trains on the
first 95 % of the text and is evaluated on the rest, also during rows with a
factor. Phrases are the text's most frequent pairs of capitalized words.
Finished rows in --folder are not repeated.
"""

import argparse
import collections
import json
import pathlib
import re
import statistics
import sys

import markdown_table
import measured_runs
from common import errors

LENGTHS = ["--max_seq_length=64", "--max_predictions_per_seq=10"]
SHAPE = {
  "hidden_size": 128,
  "num_hidden_layers": 4,
  "num_attention_heads": 2,
  "intermediate_size": 512,
  "max_position_embeddings": 64,
  "type_vocab_size": 2,
}
_EVALUATED = 0.05  # The part of the text that no model trains on.
_PHRASES = 2000
_EVALUATIONS = 5  # In a row whose factor of steps is above 1.


def prepare(text, folder, vocab_size):
  """Writes texts, vocabulary and phrases to `folder`, unless they exist."""
  folder.mkdir(parents=True, exist_ok=True)
  if (folder / "phrases.txt").exists():
    return
  documents = text.read_text("utf-8").split("\n\n")
  start = round(len(documents) * (1 - _EVALUATED))
  for name, part in (("train", documents[:start]), ("eval", documents[start:])):
    (folder / f"{name}.txt").write_text("\n\n".join(part), "utf-8")
  measured_runs.run_ours(
    "create_vocabulary.py",
    input_file=folder / "train.txt",
    output_file=folder / "vocab.txt",
    vocab_size=vocab_size,
  )
  pairs = re.findall(r"(?<=\w )[A-Z][a-z]+ [A-Z][a-z]+", "\n".join(documents))
  common = [pair for pair, _ in collections.Counter(pairs).most_common()]
  (folder / "phrases.txt").write_text("\n".join(common[:_PHRASES]), "utf-8")


def rows(pattern):
  """Returns the rows of the table whose names contain a regular expression."""
  table = measured_runs.table("pretraining_ways.csv")
  return [row for row in table if re.search(pattern, row["name"])]


def short_name(row):
  """Returns the name of a row's files."""
  return re.sub(r"\W+", "_", row["name"])


def split_flags(text, folder):
  """Returns a list of flags; {name} is a file, or the model of another row."""
  files = {
    "phrases": folder / "phrases.txt",
    "masked_lm": folder / "masked_lm" / "final_model",
  }
  return text.format(**files).split()


def write_records(row, folder):
  """Writes a row's records; returns the files to train and evaluate on.

  Rows with equal flags share their records.
  """
  stem = re.sub(r"\W+", "_", row["records"].partition("--phrases")[0])
  paths = []
  for part in ("train", "eval"):
    paths.append(folder / f"{part}{stem}.tfrecord")
    if not paths[-1].exists():
      measured_runs.run_ours(
        "create_pretraining_data.py",
        *LENGTHS,
        *split_flags(row["records"], folder),
        input_file=folder / f"{part}.txt",
        output_file=paths[-1],
        vocab_file=folder / "vocab.txt",
        dupe_factor=1,
      )
  return paths


def train(row, arguments):
  """Trains and evaluates a row, unless it is finished; returns its folder."""
  folder = arguments.folder
  output = folder / short_name(row)
  if (output / "final_model").exists():
    return output
  train_file, eval_file = write_records(row, folder)
  size = len((folder / "vocab.txt").read_text("utf-8").splitlines())
  keys = json.loads(row["configuration"] or "{}")
  config = folder / f"{short_name(row)}.json"
  config.write_text(json.dumps({**SHAPE, "vocab_size": size, **keys}))
  factor = int(row["steps"])
  steps = arguments.steps * factor
  during = [f"--eval_steps={steps // _EVALUATIONS}"] if factor > 1 else []
  measured_runs.run_ours(
    "run_pretraining.py",
    "--do_train",
    "--do_eval",
    *LENGTHS,
    *split_flags(row["training"], folder),
    *during,
    input_file=train_file,
    eval_input_file=eval_file,
    bert_config_file=config,
    vocab_file=folder / "vocab.txt",
    output_dir=output,
    train_batch_size=arguments.batch,
    eval_batch_size=32,
    max_eval_steps=10,
    num_train_steps=steps,
    num_warmup_steps=steps // 10,
    learning_rate=arguments.learning_rate,
    log_steps=20,
    save_checkpoints_steps=steps,
  )
  return output


def describe(row, output):
  """Returns a line of the table: losses, accuracies and examples/s."""
  results = json.loads((output / "eval_results.json").read_text())
  heads = [name.removesuffix("_loss") for name in results if "_loss" in name]
  scores = [
    f"{head} {results[f'{head}_loss']:.3f}"
    + (f" ({share:.1%})" if (share := results.get(f"{head}_accuracy")) else "")
    for head in heads
  ]
  rates = [line.get("examples_per_second") for line in logged(output)]
  speed = statistics.median_high([*filter(None, rates)] or [0])
  loss, speed = f"{results['loss']:.3f}", f"{speed:.0f}"
  return markdown_table.row(row["name"], loss, ", ".join(scores), speed)


def logged(output):
  """Returns the lines of a run's train_log.jsonl, as a list of dicts."""
  text = (output / "train_log.jsonl").read_text("utf-8")
  return list(map(json.loads, text.splitlines()))


def progress(output, batch):
  """Yields (step, seconds of training, loss of evaluation)."""
  seconds, last = 0.0, 0
  for line in logged(output):
    if rate := line.get("examples_per_second"):
      seconds += (line["step"] - last) * batch / rate
      last = line["step"]
    if (loss := line.get("eval/loss")) is not None:
      yield line["step"], seconds, loss


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--text", type=pathlib.Path, required=True)
  parser.add_argument("--folder", type=pathlib.Path, required=True)
  parser.add_argument("--rows", default="", help="Pattern of names.")
  parser.add_argument("--vocab_size", type=int, default=8000)
  parser.add_argument("--steps", type=int, default=200)
  parser.add_argument("--batch", type=int, default=32)
  parser.add_argument("--learning_rate", type=float, default=1e-3)
  arguments = parser.parse_args()
  chosen = rows(arguments.rows)
  if not chosen:
    raise errors.InputError(f"--rows={arguments.rows}: no such row")
  measured_runs.set_environment()
  prepare(arguments.text, arguments.folder, arguments.vocab_size)
  heads = "loss (accuracy) of each head"
  print(markdown_table.header("way", "loss", heads, "examples/s"))
  for row in chosen:
    output = train(row, arguments)
    print(describe(row, output), flush=True)
    for step, seconds, loss in progress(output, arguments.batch):
      print(f"  step {step}: {seconds:.1f} s, {loss:.4f}", flush=True)


if __name__ == "__main__":
  errors.report_input_errors(lambda argv: main())(sys.argv)
