r"""Three claims of BERT's paper on a laptop: see the README next to this file.

  python examples/paper_in_miniature/run.py --text=novels.txt \
      --data_dir=downloads --output_dir=miniature

Every step is an ordinary command of a script and is printed before it runs.
A stopped or killed run continues with the same command. results.json in the
output folder holds the scores of the finished steps.
"""

import ctypes
import functools
import json
import math
import pathlib
import re
import shlex
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from absl import app, flags

SCRIPTS = pathlib.Path(__file__).resolve().parents[2]
flags.DEFINE_list(
  "text", [], "Files with one sentence per line and a blank line between "
  "documents: about 20 MB."
)
flags.DEFINE_string(
  "data_dir", None, "Folder with SQuAD 1.1 and GLUE's STS-B somewhere below it."
)
flags.DEFINE_string("output_dir", "miniature", "Folder of all steps.")
flags.DEFINE_bool(
  "smoke", False, "Run every step for a few updates: nothing is learned."
)

# Layers, width, heads and initializer_range of each network.
NETWORKS = {
  "main": (4, 192, 3, 0.02), "small": (2, 128, 2, 0.06),
  "narrower": (2, 64, 2, 0.06), "deeper": (3, 128, 2, 0.06),
}


class Pretraining(NamedTuple):
  """One pre-training run; `start` names the run whose weights it continues."""

  network: str
  length: int
  steps: int
  rate: float
  start: str = ""
  dupe_factor: int = 2


PRETRAININGS = {
  "main-64": Pretraining("main", 64, 10000, 1e-3, dupe_factor=4),
  "main": Pretraining("main", 256, 5000, 6e-4, "main-64"),
}
for _network in ("narrower", "small", "deeper"):
  PRETRAININGS[f"{_network}-16"] = Pretraining(_network, 16, 1000, 1e-3)
  PRETRAININGS[_network] = Pretraining(
    _network, 64, 1500, 1e-3, f"{_network}-16"
  )
FEATURES = {
  "embeddings": "embeddings", "last": "last",
  "last four": "concat_last_four",
}
# Better and worse contender: names of steps without the seed.
COMPARISONS = {
  "STS-B, Spearman × 100: pre-trained > random weights":
    ("sts-b.pre-trained", "sts-b.random"),
  "names, F1: fine-tuning > features of the last four layers":
    ("names.fine-tuned", "names.last four"),
  "names, F1: features of the last four layers > of the last":
    ("names.last four", "names.last"),
  "names, F1: features of the last layer > embeddings":
    ("names.last", "names.embeddings"),
  "masked-LM perplexity: 2 × 128 < 2 × 64": ("small", "narrower"),
  "masked-LM perplexity: 3 × 128 < 2 × 128": ("deeper", "small"),
}
SENTENCE_END = re.compile(r"(?<=[.!?]) +(?=[\"'(]*[A-Z0-9])")
WORD = re.compile(r"\w+(?:['\u2019.-]\w+)*|[^\w\s]")


# Data


def documents(paths: Iterable[str]) -> Iterator[str]:
  """Yields the documents of text files, one sentence per line."""
  for path in paths:
    text = pathlib.Path(path).read_text(encoding="utf-8")
    for document in re.split(r"\n\s*\n", text):
      if document.strip():
        yield document.strip() + "\n"


def paragraphs(path: pathlib.Path) -> list[dict]:
  """Returns the paragraphs of a SQuAD file."""
  articles = json.loads(path.read_text(encoding="utf-8"))["data"]
  return [part for article in articles for part in article["paragraphs"]]


def sentences(paragraph: dict) -> list[str]:
  """Returns the sentences of a paragraph of SQuAD."""
  return SENTENCE_END.split(" ".join(paragraph["context"].split()))


def question_documents(parts: Iterable[dict]) -> Iterator[str]:
  """Yields each question followed by its paragraph, without the answer.

  The documents of one paragraph come as one text, so that they are held out
  together or not at all.
  """
  for part in parts:
    body = "\n".join(sentences(part))
    questions = [" ".join(entry["question"].split()) for entry in part["qas"]]
    yield "\n".join(f"{question}\n{body}\n" for question in questions)


def tagged(sentence: str) -> str:
  """Returns CoNLL columns: lower-cased words, and whether each is a name.

  A word with a capital inside a sentence counts as a name.
  """
  lines, after_name = [], False
  for place, word in enumerate(WORD.findall(sentence)):
    is_name = place > 0 and word[0].isupper()
    tag = ("I-NAME" if after_name else "B-NAME") if is_name else "O"
    lines.append(f"{word.lower()} {tag}")
    after_name = is_name
  return "\n".join(lines)


def find(folder: str, pattern: str) -> pathlib.Path:
  """Returns the first file below a folder that matches; exits if none does."""
  for path in sorted(pathlib.Path(folder).rglob(pattern)):
    return path
  sys.exit(
    f"--data_dir={folder} has no {pattern}; download it: python download.py "
    "--data=glue,squad1 --dir=downloads"
  )


def write_data(out: pathlib.Path, text: list[str], data: str, is_smoke: bool):
  """Writes the text to pre-train on, a held-out part, and the tagged names."""
  squad = {
    "train": paragraphs(find(data, "train*v1.1.json")),
    "dev": paragraphs(find(data, "dev-v1.1.json")),
  }
  texts = [*documents(text), *question_documents(squad["train"])]
  texts = texts[: 100 if is_smoke else None]
  parts = {
    "held.txt": texts[::20],
    "train.txt": [text for n, text in enumerate(texts) if n % 20],
  }
  for part, count in (("train", 1500), ("dev", 750)):
    lines = [line for each in squad[part] for line in sentences(each)]
    lines = [line for line in lines if " " in line]
    # At equal distances, so from all articles.
    step = max(1, -(-len(lines) // (32 if is_smoke else count)))
    parts[f"names-{part}.txt"] = [tagged(line) + "\n" for line in lines[::step]]
  out.mkdir(parents=True, exist_ok=True)
  for name, values in parts.items():
    write(out / name, "\n".join(values))


def write(path: pathlib.Path, text: str) -> None:
  """Writes a file whole or not at all."""
  path.parent.mkdir(parents=True, exist_ok=True)
  temporary = path.with_name(f"{path.name}.tmp")
  temporary.write_text(text, encoding="utf-8")
  temporary.replace(path)


# Steps


class Step(NamedTuple):
  """A command; `metric` names the score that results.json keeps, if any."""

  name: str
  script: str
  flags: list[str]
  metric: str = ""


class Plan(NamedTuple):
  """The steps of one output folder."""

  out: pathlib.Path
  data: str
  is_smoke: bool

  def steps(self) -> Iterator[Step]:
    """Yields all steps in the order in which they run."""
    size = 300 if self.is_smoke else 8000
    yield Step("vocabulary", "create_vocabulary.py", [
      f"--input_file={self.out / 'train.txt'}", f"--vocab_size={size}",
      f"--output_file={self.out / 'vocab.txt'}",
    ])
    for name, entry in PRETRAININGS.items():
      yield from self._pretraining(name, entry)
    for seed in range(1, 2 if self.is_smoke else 4):
      yield from self._fine_tunings(seed)

  def _config(self, name, dropout):
    """Writes the configuration of a pre-training; returns its path."""
    layers, width, heads, deviation = NETWORKS[PRETRAININGS[name].network]
    width = 16 * heads if self.is_smoke else width
    path = self.out / "networks" / f"{name}-{dropout}.json"
    write(path, json.dumps({
      "vocab_size": 300 if self.is_smoke else 8000, "hidden_act": "gelu",
      "hidden_size": width, "num_hidden_layers": layers,
      "num_attention_heads": heads, "intermediate_size": 4 * width,
      "max_position_embeddings": PRETRAININGS[name].length,
      "type_vocab_size": 2, "initializer_range": deviation,
      "hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout,
    }))
    return path

  def _pretraining(self, name, entry):
    predictions = math.ceil(0.15 * entry.length)
    made = {}
    for part, duplicates in (("train", entry.dupe_factor), ("held", 1)):
      label = f"{part}-{entry.length}x{duplicates}"
      made[part] = self.out / "records" / f"{label}.tfrecord"
      yield Step(f"records.{label}", "create_pretraining_data.py", [
        f"--input_file={self.out / f'{part}.txt'}",
        f"--vocab_file={self.out / 'vocab.txt'}",
        f"--max_seq_length={entry.length}", f"--dupe_factor={duplicates}",
        f"--max_predictions_per_seq={predictions}", "--shard_size_mb=10",
        f"--output_file={made[part]}",
      ])
    start = []
    if entry.start:
      grown = self.out / f"{entry.start}-grown"
      yield Step(f"grown.{name}", "convert_checkpoint.py", [
        "--to=tf2", f"--input={self.out / entry.start / 'final_model'}",
        f"--max_position_embeddings={entry.length}", f"--output={grown}",
      ])
      start = [f"--init_checkpoint={grown}"]
    steps = 8 if self.is_smoke else entry.steps
    yield Step(name, "run_pretraining.py", [
      f"--bert_config_file={self._config(name, 0.0)}", *start,
      f"--vocab_file={self.out / 'vocab.txt'}", "--do_train", "--do_eval",
      f"--input_file={made['train']}", f"--eval_input_file={made['held']}",
      f"--max_seq_length={entry.length}", "--eval_batch_size=32",
      f"--max_predictions_per_seq={predictions}", "--optimizer=adamw",
      f"--train_batch_size={2048 // entry.length}",
      f"--learning_rate={entry.rate}", f"--num_train_steps={steps}",
      f"--num_warmup_steps={steps // 20}",
      # Small networks leave the plateau earlier without next sentences.
      f"--use_next_sentence_loss={str(entry.network == 'main').lower()}",
      *self._common(name),
    ], "masked_lm_loss")

  def _fine_tunings(self, seed):
    table = find(self.data, "STS-B/train.tsv").parent
    sts = [
      "--task_name=STS-B", f"--data_dir={table}", "--num_train_epochs=3",
      *(["--max_train_examples=64"] if self.is_smoke else []),
    ]
    names = [
      f"--train_file={self.out / 'names-train.txt'}",
      f"--eval_file={self.out / 'names-dev.txt'}", "--scheme=iob2",
      "--bucket_by_length", "--train_batch_size=16", "--num_train_epochs=4",
    ]
    weights = [f"--init_checkpoint={self.out / 'main' / 'final_model'}"]
    runs = {
      "sts-b.random": (*sts, "--learning_rate=4e-4"),
      "sts-b.pre-trained": (*sts, *weights, "--learning_rate=4e-4"),
      "names.fine-tuned": (*names, *weights, "--learning_rate=4e-4"),
      **{
        f"names.{label}": (
          *names, *weights, "--freeze_encoder", "--bilstm_size=64",
          f"--feature_layers={layers}", "--learning_rate=5e-3",
        ) for label, layers in FEATURES.items()
      },
    }
    for name, run_flags in runs.items():
      is_table = name.startswith("sts-b")
      script, metric = (
        ("run_classifier.py", "eval_spearman") if is_table
        else ("run_ner.py", "f1")
      )
      yield Step(f"{name}.{seed}", script, [
        *run_flags, f"--bert_config_file={self._config('main', 0.1)}",
        f"--vocab_file={self.out / 'vocab.txt'}", "--do_train", "--do_eval",
        "--max_seq_length=128", "--optimizer=adamw", f"--seed={seed}",
        "--max_to_keep=1", *self._common(f"{name}.{seed}"),
      ], metric)

  def _common(self, name):
    dtype = "float32" if self.is_smoke else "bfloat16"
    return [f"--dtype={dtype}", f"--output_dir={self.out / name}"]


def call(command: list[str]) -> int:
  """Runs a command to its end; it ends with this process, too."""
  end_with_parent = functools.partial(
    ctypes.CDLL(None).prctl, 1, signal.SIGTERM  # PR_SET_PDEATHSIG
  ) if sys.platform == "linux" else None
  with subprocess.Popen(command, preexec_fn=end_with_parent) as child:
    try:
      return child.wait()
    except KeyboardInterrupt:
      child.wait()  # It saves its step.
      raise


def run(plan: Plan, results: dict[str, float]) -> None:
  """Runs the steps that have no result; writes results.json after each.

  A step without a metric has the result 0.
  """
  for step in plan.steps():
    if step.name in results:
      continue
    command = [sys.executable, str(SCRIPTS / step.script), *step.flags]
    print(f"{step.name}:\n{shlex.join(command)}", flush=True)
    code = call(command)
    if code:
      sys.exit(f"{step.script} ended with code {code}; see its message above")
    results[step.name] = 0.0
    if step.metric:
      path = plan.out / step.name / "eval_results.txt"
      lines = path.read_text(encoding="utf-8").splitlines()
      values = dict(line.split(" = ") for line in lines)
      results[step.name] = float(values[step.metric].split()[0])
    write(plan.out / "results.json", json.dumps(results, indent=1) + "\n")


# Results


def scores(results: dict[str, float], name: str) -> list[float]:
  """Returns the scores of all seeds of a contender, as the table has them."""
  if name in PRETRAININGS:
    return [math.exp(results[name])] if name in results else []
  return [
    100 * value for step, value in results.items()
    if step.rpartition(".")[0] == name
  ]


def row(results: dict[str, float], title: str) -> str:
  """Returns a line of the table; medians count, and their spread.

  A difference is significant from two standard deviations of a difference
  between single runs on.
  """
  better, worse = (scores(results, name) for name in COMPARISONS[title])
  if not better or not worse:
    return f"| {title} | - | - | not run |"
  medians = [statistics.median(values) for values in (better, worse)]
  difference = medians[0] - medians[1]
  difference *= -1 if "<" in title else 1
  shown = " and ".join(f"{value:.1f}" for value in medians)
  if min(len(better), len(worse)) < 2:
    return f"| {title} | {shown} | {difference:+.1f} | one run each |"
  spread = math.hypot(statistics.stdev(better), statistics.stdev(worse))
  verdict = "within the spread"
  if abs(difference) > 2 * spread:
    verdict = "yes" if difference > 0 else "reversed"
  return (
    f"| {title} | {shown} | {difference:+.1f} (sd {spread:.1f}) | {verdict} |"
  )


def main(argv):
  del argv
  values = flags.FLAGS
  out = pathlib.Path(values.output_dir)
  plan = Plan(out, values.data_dir or "", values.smoke)
  inputs = json.dumps([values.text, values.data_dir, values.smoke])
  marker, path = out / "inputs.json", out / "results.json"
  if not marker.exists():
    if not values.text or not values.data_dir:
      sys.exit("pass --text and --data_dir; see the README next to run.py")
    write_data(out, values.text, values.data_dir, values.smoke)
    write(marker, inputs)
  elif marker.read_text(encoding="utf-8") != inputs:
    sys.exit(f"{marker} is of other flags; choose another --output_dir")
  results = json.loads(path.read_text("utf-8")) if path.exists() else {}
  run(plan, results)
  print("| claim | medians | difference | shown |\n|---|---|---|---|")
  print(*(row(results, title) for title in COMPARISONS), sep="\n")


if __name__ == "__main__":
  app.run(main)
