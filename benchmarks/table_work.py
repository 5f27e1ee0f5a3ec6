"""Defines the works of table.py: contenders, targets and titles."""

import argparse
import functools
import itertools
import json
import re
import sys
from collections.abc import Callable
from fnmatch import fnmatch
from typing import NamedTuple

import engine_speed
import finetuning_scores
import measured_runs
import pretraining_data_speed
import step_speed
from common import errors
from table_rows import OURS, Headline, Row, evaluate

# The data flags that a work may need.
DATA = {
  "glue": "folder with GLUE's folders (MRPC, CoLA, ...)",
  "squad": "folder with SQuAD 1.1's files",
  "weights": "folder of MiniLM, in Hugging Face's layout",
  "text": "pre-training text, one sentence per line",
  "vocab": "vocabulary of an uncased model, for --text",
  "original": "clone of google-research/bert",
}
# A row of the table is given for each value of the {places} in a line.
_PLACES = {
  "dtype": ("float32", "bfloat16"),
  "threads": engine_speed.THREADS,
  "shape": [f"{length} × {size}" for size, length in engine_speed.BATCHES],
  "time": ("processor", "wall"),
}
_BATCH_SIZE = 16  # The batch size of every fine-tuning job.
# {job: its folder in --glue, and flags of finetuning_scores.py}. BERT-base
# trains on part of MRPC, because a whole job takes hours on two cores. SQuAD is
# scored on part of the dev set, which has 10,570 questions. Tagging has as many
# sentences as CoNLL-2003.
_JOBS = {row["job"]: row for row in measured_runs.table("jobs.csv")}
# {name: method, sequences, tokens, masked words}; the last two are for GPUs.
_STEPS = {
  "train8": ("train", 8, 128, 0),
  "train32": ("train", 32, 128, 0),
  "predict32": ("predict", 32, 128, 0),
  "pretrain128": ("pretrain", 32, 128, 20),
  "pretrain512": ("pretrain", 4, 512, 76),
  "pretrain128x256": ("pretrain", 256, 128, 20),
  "pretrain512x64": ("pretrain", 64, 512, 76),
}
# {work of --short: its flags, and the title in a page and the chart}. With
# few steps, the start takes a larger share of the time than in a whole job, for
# all contenders.
SHORT = {row["work"]: row for row in measured_runs.table("short.csv")}
_LINES_BATCH_SIZE = 64
MODELS = {"minilm": "MiniLM-L6", "base": "BERT-base"}
# {task: column of docs/engines.md}
SCORED = {"sts-b": "STS-B, Spearman", "mrpc": "MRPC, accuracy"}


def _cost(command):
  """Returns a command's wall and processor seconds."""
  _, cost = measured_runs.run(command)
  return {"wall": cost.wall, "processor": cost.processor}


def _cost_and_memory(command):
  return measured_runs.run(command, watches_memory=True)[1]._asdict()


class Work(NamedTuple):
  """A comparison of contenders, and the rows for its results."""

  name: str  # The name for --rows.
  rows: list[Row]
  needs: tuple  # Names of flags in DATA.
  # Function of (flags, an empty folder, parts of the name after the first);
  # yields (contender, what `measure` takes), such as a command. It may write
  # files between two contenders.
  contenders: Callable
  # Returns {measure: number}, or None for a contender to leave out.
  measure: Callable

  def turn(self, arguments, folder) -> dict:
    """Runs every contender once; returns {contender: {measure: number}}."""
    taken: dict = {}
    parts = self.name.split("/")[1:]
    for contender, command in self.contenders(arguments, folder, *parts):
      if measures := self.measure(command):
        taken.setdefault(contender, {}).update(measures)
    if not taken:
      raise errors.InputError("no contender was measured")
    return taken


@functools.cache
def _all_rows() -> dict[str, list[Row]]:
  """Returns {name of a work: the Rows of rows.csv}, in the table's order."""
  rows: dict = {}
  for line in measured_runs.table("rows.csv"):
    names = [name for name in _PLACES if f"{{{name}}}" in line["title"]]
    for values in itertools.product(*(_PLACES[name] for name in names)):
      places = dict(zip(names, values, strict=True))
      row = {column: text.format(**places) for column, text in line.items()}
      work, target = row.pop("work"), row.pop("target")
      number = float(target) if target else None
      rows.setdefault(work, []).append(Row(**row, target=number))
  return rows


@functools.cache
def all_works() -> tuple[Work, ...]:
  """Returns all Works, in the table's order."""
  works = []
  for name, rows in _all_rows().items():
    _, *kind = next(kind for kind in _KINDS if fnmatch(name, kind[0]))
    works.append(Work(name, rows, *kind))
  return tuple(works)


# Fine-tuning jobs: whole commands, each from its start to the scores.


def _job_contenders(arguments, folder, name, dtype):
  job = _job(arguments, folder, name, f"--dtype={dtype}")
  # The peers run first, so that a missing package fails early.
  rows = _all_rows()[f"job/{name}/{dtype}"]
  for peer in dict.fromkeys(row.peers for row in rows):
    job.pad_to_max_length = int("padded" in peer)
    if arguments.padded or not job.pad_to_max_length:
      yield peer, finetuning_scores.peer_command(job, 1)
  yield OURS, finetuning_scores.our_command(job, 1, folder / "output")


def _job(arguments, folder, name, *more):
  """Returns the settings of a job; writes its shortened data to a folder."""
  glue, weights = _JOBS[name]["glue_folder"], arguments.weights
  data = arguments.glue / glue if glue else arguments.squad
  flags = [*_JOBS[name]["flags"].split(), f"--train_batch_size={_BATCH_SIZE}"]
  flags += [*more, f"--peer_python={arguments.peer_python}"]
  if arguments.steps:
    count = arguments.steps * _BATCH_SIZE
    flags += [f"--max_train_examples={count}", "--num_train_epochs=1"]
  if name == "base":
    weights = _base_weights(arguments, folder)
  for flag, part in (("train_file", "train"), ("predict_file", "dev")):
    if not glue:
      (path,) = arguments.squad.glob(f"{part}*.json")
    if name == "tagging":
      text, data = sentences_with_names(path), folder
      path = folder / f"{part}.conll"
      path.write_text(text)
    if not glue:
      flags.append(f"--{flag}={path.name}")
  flags += [f"--data_dir={data}", f"--weights={weights}"]
  job = finetuning_scores.parse_arguments(flags)
  job.data_dir = finetuning_scores.shortened(job, folder / "data")
  return job


def sentences_with_names(path):
  """Returns sentences of a SQuAD file as CoNLL columns.

  Words are lower-cased. Names are the words that are capitalized in the file,
  except the first word of a sentence.
  """
  text, articles = "", json.loads(path.read_text(encoding="utf-8"))["data"]
  for paragraph in itertools.chain(*(a["paragraphs"] for a in articles)):
    for sentence in re.split(r"(?<=[.!?])\s+", paragraph["context"]):
      words = re.findall(r"\w+|[^\w\s]", sentence)
      # The word pieces of a longer sentence might exceed --max_seq_length.
      if sentence.isascii() and 3 <= len(words) and len(sentence) <= 240:
        tag = "O"
        for index, word in enumerate(words):
          is_name = index > 0 and word[0].isupper()
          tag = ("B-NAME" if tag == "O" else "I-NAME") if is_name else "O"
          text += f"{word.lower()} {tag}\n"
        text += "\n"
  return text


# Models that works train or make.


def _trained(folder, *flags):
  """Trains a classifier for one step; returns its model folder."""
  few, output = folder / "few.tsv", folder / "trained"
  few.write_text("text\tlabel\ngood\tyes\nbad\tno\n", encoding="utf-8")
  measured_runs.run_ours(
    "run_classifier.py",
    "--do_train",
    *flags,
    train_file=few,
    output_dir=output,
    num_train_epochs=1,
    train_batch_size=2,
  )
  return output / "final_model"


def _to_huggingface(model, folder):
  """Converts a model to Hugging Face's layout; returns the new folder."""
  places = {"model_dir": model, "output": folder / "model"}
  measured_runs.run_ours("convert_checkpoint.py", to="huggingface", **places)
  return places["output"]


def _base_weights(arguments, folder):
  """Creates a random BERT-base with the vocabulary of --weights."""
  vocab, config = arguments.weights / "vocab.txt", folder / "config.json"
  size = len(vocab.read_bytes().strip(b"\n").split(b"\n"))
  values = {**step_speed.BASE, "vocab_size": size}
  config.write_text(json.dumps(values), encoding="utf-8")
  flags = f"--vocab_file={vocab}", f"--bert_config_file={config}"
  return _to_huggingface(_trained(folder, *flags), folder)


# Steps.


def _step_contenders(arguments, folder, name, dtype):
  method, *sizes = _STEPS[name]
  work = step_speed.Work(method, dtype, *sizes)
  peaks = measured_runs.answer([sys.executable, step_speed.__file__])
  for contender in step_speed.contenders(work, arguments.compiled_peers):
    command = step_speed.command(contender, work, arguments, peaks[dtype])
    yield contender, command


# Pre-training data.


def _data_contenders(arguments, folder):
  text = folder / "text.txt"
  with open(arguments.text, "rb") as stream:
    # Copy about 8 MB of complete lines.
    text.write_bytes(b"".join(stream.readlines(8_000_000)))
  options = argparse.Namespace(**{**vars(arguments), "text": text, "shards": 0})
  return pretraining_data_speed.commands(options, folder)


# Short lines: vectors or classes of SST-2's phrases.


def _line_contenders(arguments, folder, work, dtype):
  path = arguments.glue / "SST-2" / "train.tsv"
  rows = path.read_text(encoding="utf-8").splitlines()[1:]
  texts = [row.split("\t")[0].strip() for row in rows[: arguments.lines]]
  lines, table = folder / "lines.txt", folder / "lines.tsv"
  for path, first in ((lines, []), (table, ["text"])):
    path.write_text("\n".join([*first, *texts, ""]), encoding="utf-8")
  # No peer has int8. Depending on the processor, oneDNN's or MKL's float32
  # products are faster.
  peers = {"transformers": "torch, float32"}
  peers["transformers, oneDNN"] = "torch, float32, oneDNN"
  if dtype == "bfloat16":
    peers = {"transformers": "torch, bfloat16"}
  head = "embedding" if work == "features" else "classification"
  for name, contender in peers.items():
    job = engine_speed.Job(contender, arguments.weights, lines=lines, head=head)
    # The peer is fastest with this batch size, among 32, 64, 128 and 256.
    job = job._replace(output=folder / "theirs", batch_size=_LINES_BATCH_SIZE)
    yield name, engine_speed.command(job, arguments.peer_python)
  switches = [f"--dtype={dtype}"]
  if dtype == "int8":
    switches = ["--engine=onnx", "--quantize=int8"]
  if work == "features":
    ours = measured_runs.ours(
      "extract_features.py",
      *switches,
      model_dir=arguments.weights,
      input_file=lines,
      pooling="mean",
      output_format="npz",
      output_file=folder / "ours.npz",
      batch_size=_LINES_BATCH_SIZE,
    )
  else:
    ours = measured_runs.ours(
      "run_classifier.py",
      "--do_predict",
      *switches,
      model_dir=_trained(folder, f"--model_dir={arguments.weights}"),
      predict_file=table,
      output_dir=folder / "predictions",
      predict_batch_size=_LINES_BATCH_SIZE,
    )
  yield OURS, ours


# Engines.


def _engine_contenders(arguments, folder, model):
  weights, files = arguments.weights, folder / "made"
  if model == "base":
    weights = _base_weights(arguments, folder)
  files.mkdir()
  names = engine_speed.CONTENDERS
  for threads, name in itertools.product(arguments.threads.split(","), names):
    job = engine_speed.Job(name, weights, files, threads, arguments.seconds)
    yield name, engine_speed.command(job, arguments.peer_python)


def _score_contenders(arguments, folder, _, task):
  # Imported here because `glue` loads TensorFlow.
  from classification import glue

  job = _job(arguments, folder, task, "--num_train_epochs=1")
  output, files = folder / "output", folder / "made"
  files.mkdir()
  measured_runs.run(finetuning_scores.our_command(job, 1, output))
  model = _to_huggingface(output / "final_model", folder)
  for split in ("train", "dev"):
    examples = glue.read(glue.find(task), str(job.data_dir), split)
    pairs = [(e.text_a, e.text_b, float(e.label)) for e in examples]
    path = folder / f"{split}.json"
    path.write_text(json.dumps(pairs), encoding="utf-8")
  for name in engine_speed.CONTENDERS:
    job = engine_speed.Job(name, model, files, head="classification")
    job = job._replace(pairs=path, samples=folder / "train.json")
    yield name, engine_speed.command(job, arguments.peer_python)


# Starts: processor time until the first line of the training log.


def _start_contenders(arguments, folder, _):
  output = folder / "output"
  command = measured_runs.ours(
    "run_classifier.py",
    "--do_train",
    model_dir=arguments.weights,
    task_name="mrpc",
    data_dir=arguments.glue / "MRPC",
    output_dir=output,
    train_batch_size=_BATCH_SIZE,
    log_steps=1,
    iterations_per_loop=1,
  )
  yield OURS, (command, output / "train_log.jsonl")


def _start(command_and_log):
  command, log = command_and_log
  _, imported = measured_runs.run([sys.executable, "-c", "import tensorflow"])
  measures = {}
  for measure in ("first_start", "next_start"):
    # The first start's log would end the second measurement immediately.
    log.unlink(missing_ok=True)
    _, cost = measured_runs.run(
      command, until=lambda: log.exists() and log.stat().st_size
    )
    measures[measure] = cost.processor - imported.processor
  return measures


_GLUE, _SQUAD = ("glue", "weights"), ("squad", "weights")
_TEXT = ("text", "vocab", "original")
_added, _printed = pretraining_data_speed.measure, measured_runs.answer
# (pattern of names, fields of Works after `rows`); the first pattern counts.
_KINDS = (
  ("job/squad/*", _SQUAD, _job_contenders, _cost),
  ("job/tagging/*", _SQUAD, _job_contenders, _cost),
  ("job/*", _GLUE, _job_contenders, _cost),
  ("step/*", (), _step_contenders, _printed),
  ("data", _TEXT, _data_contenders, _added),
  ("lines/*", _GLUE, _line_contenders, _cost_and_memory),
  ("engines/scores/*", _GLUE, _score_contenders, _printed),
  ("engines/*", ("weights",), _engine_contenders, _printed),
  ("start/*", _GLUE, _start_contenders, _start),
)


def headline(name, processor, turns):
  """Returns the Headline of a work in SHORT, or None."""
  title, group = SHORT[name]["title"], SHORT[name]["group"]
  measure = "examples_per_second" if name.startswith("step/") else "wall"
  outcome = title and evaluate(Row(title, measure, None, "speedup"), turns)
  return Headline(group, processor, outcome) if outcome else None
