"""Defines the works of table.py: contenders, targets and titles."""

import argparse
import functools
import itertools
import json
import re
import sys
from collections.abc import Callable
from typing import NamedTuple

import engine_speed
import finetuning_scores
import measured_runs
import pretraining_data_speed
import step_speed
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
_DTYPES = ("float32", "bfloat16")
_BATCH_SIZE = 16  # The batch size of every fine-tuning job.
# {job: its title, flags of finetuning_scores.py, and targets for the ratio of
# times to each mode of the Trainer}. BERT-base trains on part of MRPC, because
# a whole job takes hours on two cores. SQuAD is scored on part of the dev set,
# which has 10,570 questions. Tagging has as many sentences as CoNLL-2003.
_JOBS = {row["job"]: row for row in measured_runs.table("jobs.csv")}
_MODES = ("dynamic padding", "padded to 128", "grouped by length")
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
  """The contenders of a comparison, and the rows for its results."""

  name: str  # The name for --rows.
  needs: tuple  # Names of flags in DATA.
  # Function of (flags, an empty folder, parts of the name after the first);
  # yields (contender, what `measure` takes), by default a command. It may write
  # files between two contenders.
  contenders: Callable
  rows: list
  # Returns {measure: number}, or None for a contender to leave out.
  measure: Callable = _cost

  def turn(self, arguments, folder) -> dict:
    """Runs every contender once; returns {contender: {measure: number}}."""
    taken: dict = {}
    parts = self.name.split("/")[1:]
    for contender, command in self.contenders(arguments, folder, *parts):
      if measures := self.measure(command):
        taken.setdefault(contender, {}).update(measures)
    return taken


@functools.cache
def all_works():
  """Returns all Works, in the table's order."""
  parts = _jobs, _steps, _data, _lines, _engines, _scores, _starts
  return tuple(itertools.chain(*(works() for works in parts)))


# Fine-tuning jobs: whole commands, each from its start to the scores.


def _jobs():
  for job, dtype in itertools.product(_JOBS.values(), _DTYPES):
    rows = []
    for mode, measure in itertools.product(_MODES, ("processor", "wall")):
      if target := job[mode]:
        title = f"{job['title']}, {dtype}: {measure}, against {mode}"
        peer = f"Trainer, {mode}"
        rows.append(Row(title, measure, float(target), peers=peer))
    needs = ("glue" if job["glue_folder"] else "squad", "weights")
    yield Work(f"job/{job['job']}/{dtype}", needs, _job_contenders, rows)


def _job_contenders(arguments, folder, name, dtype):
  job = _job(arguments, folder, name, f"--dtype={dtype}")
  # The peers run first, so that a missing package fails early.
  for mode in _MODES:
    is_padded = mode == "padded to 128"
    if _JOBS[name][mode] and (arguments.padded or not is_padded):
      job.pad_to_max_length = int(is_padded)
      yield f"Trainer, {mode}", finetuning_scores.peer_command(job, 1)
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

# {name: method, size, length, masked words; (float32, bfloat16) targets for the
# share of the peak, and for the ratio to the best peer}
_STEPS = {
  "train8": ("train", 8, 128, 0, (0.88, 0.80), (1.6, 1.7)),
  "train32": ("train", 32, 128, 0, (0.88, 0.80), (1.6, 1.7)),
  "predict32": ("predict", 32, 128, 0, (0.97, 0.94), (1.1, 1.1)),
  "pretrain128": ("pretrain", 32, 128, 20, (0.86, 0.75), (1.0, 1.0)),
  "pretrain512": ("pretrain", 4, 512, 76, (0.86, 0.75), (1.25, 1.4)),
  # For GPUs, without targets.
  "pretrain128x256": ("pretrain", 256, 128, 20, (None,) * 2, (None,) * 2),
  "pretrain512x64": ("pretrain", 64, 512, 76, (None,) * 2, (None,) * 2),
}


def _step(name, dtype):
  method, *sizes = _STEPS[name][:4]
  return step_speed.Work(method, dtype, *sizes)


def _steps():
  for name, (*_, shares, ratios) in _STEPS.items():
    for dtype, share, ratio in zip(_DTYPES, shares, ratios, strict=True):
      title = f"BERT-base, {_step(name, dtype).title}"
      against = f"{title}: against the fastest peer"
      rows = [
        Row(f"{title}: share of the peak", "share", share, "own"),
        Row(against, "examples_per_second", ratio),
      ]
      place, measure = f"step/{name}/{dtype}", measured_runs.answer
      yield Work(place, (), _step_contenders, rows, measure)


def _step_contenders(arguments, folder, name, dtype):
  work = _step(name, dtype)
  peaks = measured_runs.answer([sys.executable, step_speed.__file__])
  for contender in step_speed.contenders(work, arguments.compiled_peers):
    command = step_speed.command(contender, work, arguments, peaks[dtype])
    yield contender, command


# Pre-training data.


def _data():
  title = "create_pretraining_data"
  rows = [
    Row(f"{title}: processor, without the start", "added", 15, "speedup"),
    Row(f"{title}: processor, with the start", "processor", 15, "speedup"),
    Row(f"{title}: wall", "wall", None, "speedup"),
    Row(f"{title}: memory, without the start", "added_megabytes", 1 / 8),
  ]
  needs, measure = ("text", "vocab", "original"), pretraining_data_speed.measure
  yield Work("data", needs, _data_contenders, rows, measure)


def _data_contenders(arguments, folder):
  text = folder / "text.txt"
  with open(arguments.text, "rb") as stream:
    # Copy about 8 MB of complete lines.
    text.write_bytes(b"".join(stream.readlines(8_000_000)))
  options = argparse.Namespace(**{**vars(arguments), "text": text, "shards": 0})
  return pretraining_data_speed.commands(options, folder)


# Short lines: vectors or classes of SST-2's phrases.


def _lines():
  for work, dtype in itertools.product(
    ("features", "predictions"), (*_DTYPES, "int8")
  ):
    title, target = f"{work} of short lines, MiniLM, {dtype}", 1.5
    if dtype == "int8":
      title, target = f"{title} against float32", 2.5
    rows = [
      Row(f"{title}: {measure}", measure, target, "speedup")
      for measure in ("processor", "wall")
    ]
    name, needs = f"lines/{work}/{dtype}", ("glue", "weights")
    yield Work(name, needs, _line_contenders, rows, _cost_and_memory)


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


def _engines():
  for model, title in MODELS.items():
    rows = []
    for threads in engine_speed.THREADS:
      for size, length in engine_speed.BATCHES:
        measure = f"{engine_speed.texts_per_second(size, length)}, {threads}"
        place = f"{title}, {length} × {size}, {threads}"
        for peer, target in (("ONNX Runtime", 1.0), ("OpenVINO", 0.95)):
          sides = f"{peer}, int8", "here, int8"
          against = f"{place}: int8 against {peer}'s"
          rows.append(Row(against, measure, target, "ratio", *sides))
      name = f"{title}, one text, {threads}: p50 in float32"
      measure = f"milliseconds, p50, {threads}"
      sides = "ONNX Runtime, float32", "here, float32"
      rows.append(Row(name, measure, 1.0, "ratio", *sides))
    name, measure = f"engines/{model}", measured_runs.answer
    yield Work(name, ("weights",), _engine_contenders, rows, measure)


def _engine_contenders(arguments, folder, model):
  weights, files = arguments.weights, folder / "made"
  if model == "base":
    weights = _base_weights(arguments, folder)
  files.mkdir()
  names = engine_speed.CONTENDERS
  for threads, name in itertools.product(arguments.threads.split(","), names):
    job = engine_speed.Job(name, weights, files, threads, arguments.seconds)
    yield name, engine_speed.command(job, arguments.peer_python)


def _scores():
  for task, column in SCORED.items():
    title = f"MiniLM, {column.partition(',')[0]}"
    target, base = {"sts-b": -0.005}.get(task), "here, float32, TensorFlow"
    rows = []
    for name in engine_speed.CONTENDERS:
      if name.startswith("here, int8"):
        text = f"{title}, {name}: score minus float32's score"
        rows.append(Row(text, "score", target, "difference", base, name))
    name, needs = f"engines/scores/{task}", ("glue", "weights")
    yield Work(name, needs, _score_contenders, rows, measured_runs.answer)


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


def _starts():
  starts = {"first_start": "not cached", "next_start": "cached"}
  rows = []
  for measure, records in starts.items():
    title = f"start of MiniLM on MRPC, records {records}: processor, without"
    rows.append(Row(f"{title} importing TensorFlow", measure, 2.5, "own"))
  needs = ("glue", "weights")
  yield Work("start/first_step", needs, _start_contenders, rows, _start)


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


def headline(name, processor, turns):
  """Returns the Headline of a work in SHORT, or None."""
  title, group = SHORT[name]["title"], SHORT[name]["group"]
  measure = "examples_per_second" if name.startswith("step/") else "wall"
  outcome = title and evaluate(Row(title, measure, None, "speedup"), turns)
  return Headline(group, processor, outcome) if outcome else None
