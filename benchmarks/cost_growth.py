"""How time and memory grow with the input: data, training, prediction.

  python benchmarks/cost_growth.py --text=novels.txt --vocab=vocab.txt

Runs create_pretraining_data.py on more and more text, and run_classifier.py on
more and more examples, as commands of their own. Lengths of the examples come
in mixes of one mean: at the same number of tokens, their costs should be equal.
Prints a table of slopes, and writes it to --page between two markers, with a
figure next to it. Less than ten minutes with the default sizes on an idle
machine of two cores; --scale=0.1 makes all sizes smaller.
"""

import argparse
import datetime
import os
import pathlib
import shutil
import sys
import tempfile
from typing import NamedTuple

import numpy as np

# Run as a script, this folder is on the path and its parent is not.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import data_commands
import experiments
import measured_runs

from common import errors, json_files

ROOT = data_commands.ROOT
_MARKER = "cost growth"
_MEGABYTES = (1, 2, 4, 8)
_TRAINED = (1000, 2000, 4000)  # Examples.
_PREDICTED = (4000, 8000, 16000, 32000)  # Lines.
# Words of the examples of a mix; [CLS] and [SEP] are two tokens more.
_MIXES = {
  "28 words": (28,),
  "12 or 44 words": (12, 44),
  "4 to 52 words": (4, 12, 44, 52),
}
_CONFIG = {
  "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4,
  "intermediate_size": 1024, "max_position_embeddings": 128,
  "type_vocab_size": 2,
}


class Series(NamedTuple):
  """Costs of a command on inputs of several sizes.

  Attributes:
    title, unit: for readers; `unit` is that of a size.
    points: list of (name of the mix or "", size, measured_runs.Cost).
  """

  title: str
  unit: str
  points: list


class Line(NamedTuple):
  """A straight line through points: start + slope * size, and its R²."""

  start: float
  slope: float
  fit: float


def fit_line(sizes, values):
  """Returns the Line of least squares."""
  slope, start = np.polyfit(sizes, values, 1)
  rest = np.square(values - (start + slope * np.asarray(sizes))).sum()
  spread = np.square(values - np.mean(values)).sum()
  return Line(float(start), float(slope), float(1 - rest / spread))


def data_series(arguments, folder):
  """Measures create_pretraining_data.py."""
  points = []
  for megabytes in (size * arguments.scale for size in _MEGABYTES):
    text = folder / "text.txt"
    with open(arguments.text, "rb") as stream:
      part = stream.read(int(megabytes * 1e6))
    # No half line, which may be half a character.
    text.write_bytes(part[: part.rfind(b"\n") + 1])
    cost = measured_runs.measure(
      data_commands.ours([
        f"--input_file={text}", f"--vocab_file={arguments.vocab}",
        f"--output_file={folder / 'records'}", "--dupe_factor=5",
      ])
    )
    points.append(("", text.stat().st_size / 1e6, cost))
  return Series("pre-training data", "MB of text", points)


def write_examples(path, lengths, count):
  """Writes examples of these numbers of words, in turns; returns their tokens.

  The words are in every vocabulary of English: a piece each.
  """
  words = ("the", "of", "and", "in", "to", "was", "that", "it")
  rng = np.random.RandomState(0)
  rows, tokens = ["text\tlabel\n"], 0
  for number in range(count):
    # In turns, so that any part of the file has the same mix.
    length = lengths[number % len(lengths)]
    text = " ".join(rng.choice(words, length))
    # Labels change after each round of lengths: no length tells the label.
    rows.append(f"{text}\t{'yes' if number // len(lengths) % 2 else 'no'}\n")
    tokens += length + 2
  path.write_text("".join(rows), encoding="utf-8")
  return tokens


def classifier(*flags):
  """Returns the command of run_classifier.py with flags."""
  return [sys.executable, ROOT / "run_classifier.py", *flags]


def training_series(arguments, folder):
  """Measures training; leaves a model in `folder`/trained/final_model."""
  vocab = arguments.vocab.read_text(encoding="utf-8").splitlines()
  config = folder / "bert_config.json"
  json_files.write(str(config), {**_CONFIG, "vocab_size": len(vocab)})
  points, output = [], folder / "trained"
  for mix, lengths in _MIXES.items():
    for count in _TRAINED:
      examples = folder / "train.tsv"
      tokens = write_examples(examples, lengths, int(count * arguments.scale))
      # Else the run would find itself finished.
      shutil.rmtree(output, ignore_errors=True)
      cost = measured_runs.measure(
        classifier(
          "--do_train", f"--train_file={examples}", f"--output_dir={output}",
          f"--bert_config_file={config}", f"--vocab_file={arguments.vocab}",
          "--num_train_epochs=1", "--train_batch_size=16",
          "--max_seq_length=64",
        )
      )
      points.append((mix, tokens, cost))
  return Series("training", "real tokens", points)


def prediction_series(arguments, folder):
  """Measures prediction with the model that `training_series` left."""
  points = []
  for count in (int(count * arguments.scale) for count in _PREDICTED):
    lines = folder / "predict.tsv"
    write_examples(lines, _MIXES["4 to 52 words"], count)
    cost = measured_runs.measure(
      classifier(
        "--do_predict", f"--predict_file={lines}",
        f"--model_dir={folder / 'trained' / 'final_model'}",
        f"--output_dir={folder / f'predicted{count}'}", "--max_seq_length=64",
      )
    )
    points.append(("", count, cost))
  return Series("prediction", "lines", points)


def lines_of(series):
  """Returns the Lines of a Series: processor seconds, megabytes."""
  _, sizes, costs = zip(*series.points)
  return tuple(
    fit_line(sizes, [getattr(cost, name) for cost in costs])
    for name in ("processor", "megabytes")
  )


def markdown(all_series):
  """Returns the table of slopes."""
  rows = [
    "| command | sizes | processor time | fit | memory | fit |",
    "|---|---|---|---|---|---|",
  ]
  for series in all_series:
    sizes = [size for _, size, _ in series.points]
    time, memory = lines_of(series)
    per = "MB" if series.unit.startswith("MB") else f"1,000 {series.unit}"
    factor = 1 if per == "MB" else 1000
    rows.append(
      f"| {series.title} | {_size(min(sizes))} to {_size(max(sizes))} "
      f"{series.unit} | {time.start:.1f} s + {time.slope * factor:.3g} s per "
      f"{per} | {time.fit:.3f} | {memory.start:.0f} MB + "
      f"{memory.slope * factor:.3g} MB per {per} | {memory.fit:.3f} |"
    )
  return "\n".join(rows)


def _size(number):
  # 0.8, 32,000
  return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def draw(all_series, path):
  """Draws a panel of time and one of memory for each Series."""
  import matplotlib

  matplotlib.use("Agg")
  from matplotlib import pyplot

  figure, panels = pyplot.subplots(
    2, len(all_series), figsize=(4 * len(all_series), 6), squeeze=False
  )
  for column, series in zip(panels.T, all_series):
    fields = ("processor", "processor seconds"), ("megabytes", "peak MB")
    for axes, (name, label), line in zip(column, fields, lines_of(series)):
      for mix in dict.fromkeys(mix for mix, _, _ in series.points):
        found = [
          (size, getattr(cost, name))
          for other, size, cost in series.points if other == mix
        ]
        axes.plot(*zip(*found), "o", label=mix or None)
      ends = np.array([0, max(size for _, size, _ in series.points)])
      axes.plot(ends, line.start + line.slope * ends, "-", color="gray")
      axes.set(xlabel=series.unit, ylabel=label, title=series.title)
      largest = max(getattr(cost, name) for _, _, cost in series.points)
      axes.set_ylim(0, 1.1 * largest)
      axes.locator_params(axis="x", nbins=5)  # Long numbers need room.
      if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize=7)
  figure.tight_layout()
  figure.savefig(path, dpi=100)
  pyplot.close(figure)


def _where_and_when():
  today = datetime.date.today().isoformat()
  return f"{measured_runs.processor_model()}; {today}; one run of each size."


def parse_arguments():
  """Returns the flags, an argparse.Namespace."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  add = parser.add_argument
  add("--text", type=pathlib.Path, required=True, help="at least 8 MB")
  add("--vocab", type=pathlib.Path, required=True, help="an English vocabulary")
  add("--scale", type=float, default=1.0, help="factor of all sizes")
  add("--page", type=pathlib.Path, default=ROOT / "docs" / "performance.md",
      help="page with the two markers; the figure is next to it")
  add("--print_only", action="store_true", help="leave the page as it is")
  return parser.parse_args()


def main():
  arguments = parse_arguments()
  with tempfile.TemporaryDirectory() as name:
    folder, all_series = pathlib.Path(name), []
    for measure in (data_series, training_series, prediction_series):
      all_series.append(measure(arguments, folder))
      print(f"{all_series[-1]}", file=sys.stderr, flush=True)
  table = markdown(all_series) + f"\n\n{_where_and_when()}"
  print(table)
  if not arguments.print_only:
    figure = arguments.page.parent / "cost_growth.png"
    draw(all_series, figure)
    picture = f"![Costs against the size of the input]({figure.name})"
    experiments.write_into(
      arguments.page, _MARKER, f"{picture}\n\n{table}"
    )


if __name__ == "__main__":
  errors.report_input_errors(lambda argv: main())(sys.argv)
