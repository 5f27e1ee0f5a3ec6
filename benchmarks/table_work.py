"""Defines the works of table.py: contenders, targets and titles."""

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

ROOT = measured_runs.ROOT
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
_DYNAMIC, _PADDED = "Trainer, dynamic padding", "Trainer, padded to 128"
_GROUPED = "Trainer, grouped by length"
_GLUE = {_DYNAMIC: 0.5, _PADDED: 0.35}
# {job: (title, folder in GLUE, {mode of the Trainer: target for the ratio of
# times}, flags of finetuning_scores.py)}
_JOBS = {
  "mrpc": ("MiniLM job, MRPC", "MRPC", _GLUE, {}),
  "rte": ("MiniLM job, RTE", "RTE", _GLUE, {}),
  "cola": ("MiniLM job, CoLA", "CoLA", _GLUE, {}),
  "sts-b": ("MiniLM job, STS-B", "STS-B", _GLUE, {"num_train_epochs": 1}),
  "sst-2": (
    "MiniLM job, SST-2, 10,000 rows",
    "SST-2",
    _GLUE,
    {"num_train_epochs": 1, "max_train_examples": 10000},
  ),
  # Use part of MRPC, because a whole job of BERT-base takes hours on two cores.
  "base": (
    "BERT-base job, part of MRPC",
    "MRPC",
    {**_GLUE, _PADDED: 0.3},
    {
      "task": "mrpc",
      "num_train_epochs": 1,
      "max_train_examples": 60 * _BATCH_SIZE,
    },
  ),
  # Score only part of the dev set, which has 10,570 questions.
  "squad": (
    "MiniLM job, SQuAD",
    None,
    {_GROUPED: 0.5},
    {"max_seq_length": 384, "bucket_by_length": 1, "max_eval_examples": 1000},
  ),
  # Use as many training and dev sentences as CoNLL-2003 has.
  "tagging": (
    "MiniLM job, tagging",
    None,
    {_DYNAMIC: 0.5},
    {"task": "ner", "max_train_examples": 14041, "max_eval_examples": 3250},
  ),
}
_LINES_BATCH_SIZE = 64
THREADS = {"all threads": 0, "one thread": 1}
MODELS = {"minilm": "MiniLM-L6", "base": "BERT-base"}
_STARTS = {"first_start": "not cached", "next_start": "cached"}
SCORED = {"sts-b": "STS-B", "mrpc": "MRPC"}


class Work(NamedTuple):
  """A function to measure, and the rows for its results."""

  name: str  # The name for --rows.
  needs: tuple  # Names of flags in DATA.
  # Function of (flags, an empty folder); runs every contender once and returns
  # {contender: {measure: number}}.
  turn: Callable
  rows: list


@functools.cache
def all_works():
  """Returns all Works, in the table's order."""
  return tuple(
    itertools.chain(_jobs(), _steps(), _data(), _lines(), _engines(), _starts())
  )


# Fine-tuning jobs.


def _jobs():
  for name, dtype in itertools.product(_JOBS, _DTYPES):
    title, folder, targets, _ = _JOBS[name]
    rows = [
      Row(
        f"{title}, {dtype}: {measure}, against {peer[9:]}",
        measure,
        target,
        peers=peer,
      )
      for peer, target in targets.items()
      for measure in ("processor", "wall")
    ]
    turn = functools.partial(_job_turn, name=name, dtype=dtype)
    needs = ("glue" if folder else "squad", "weights")
    yield Work(f"job/{name}/{dtype}", needs, turn, rows)


def _job(arguments, folder, name, dtype="float32", **more):
  """Returns the flags of a job; writes its shortened data to a folder."""
  _, glue, _, values = _JOBS[name]
  values = {
    "task": name,
    "dtype": dtype,
    "weights": arguments.weights,
    "peer_python": arguments.peer_python,
    "train_batch_size": _BATCH_SIZE,
    "data_dir": arguments.glue / glue if glue else arguments.squad,
    **values,
    **more,
  }
  if arguments.steps:
    values["max_train_examples"] = arguments.steps * _BATCH_SIZE
    values["num_train_epochs"] = 1
  if name == "base":
    values["weights"] = _base_weights(arguments, folder)
  for flag, part in (("train_file", "train"), ("predict_file", "dev")):
    if not glue:
      (path,) = arguments.squad.glob(f"{part}*.json")
      values[flag] = path.name
    if name == "tagging":
      values[flag], values["data_dir"] = f"{part}.conll", folder
      (folder / values[flag]).write_text(sentences_with_names(path))
  job = finetuning_scores.parse_arguments(
    [f"--{flag}={value}" for flag, value in values.items()]
  )
  job.data_dir = finetuning_scores.shortened(job, folder / "data")
  return job


def _trained(folder, *flags):
  """Trains a classifier for one step; returns its model folder."""
  few, output = folder / "few.tsv", folder / "trained"
  few.write_text("text\tlabel\ngood\tyes\nbad\tno\n", encoding="utf-8")
  measured_runs.run(
    [
      sys.executable,
      ROOT / "run_classifier.py",
      "--do_train",
      *flags,
      f"--train_file={few}",
      f"--output_dir={output}",
      "--num_train_epochs=1",
      "--train_batch_size=2",
    ]
  )
  return output / "final_model"


def _to_huggingface(model, folder):
  """Converts a model to Hugging Face's layout; returns the new folder."""
  measured_runs.run(
    [
      sys.executable,
      ROOT / "convert_checkpoint.py",
      "--to=huggingface",
      f"--model_dir={model}",
      f"--output={folder / 'model'}",
    ]
  )
  return folder / "model"


def _base_weights(arguments, folder):
  """Creates a random BERT-base with the vocabulary of --weights."""
  vocab, config = arguments.weights / "vocab.txt", folder / "config.json"
  size = len(vocab.read_bytes().strip(b"\n").split(b"\n"))
  values = {**step_speed.VALUES, "vocab_size": size}
  config.write_text(json.dumps(values), encoding="utf-8")
  flags = f"--vocab_file={vocab}", f"--bert_config_file={config}"
  return _to_huggingface(_trained(folder, *flags), folder)


def _job_turn(arguments, folder, *, name, dtype):
  """Runs whole commands, each from its start to the scores."""
  job = _job(arguments, folder, name, dtype)
  runs = {}
  # Run the peers first, so that a missing package fails early.
  for peer in _JOBS[name][2]:
    if peer != _PADDED or arguments.padded:
      job.pad_to_max_length = int(peer == _PADDED)
      runs[peer] = finetuning_scores.run("peer", job, 1)
  runs[OURS] = finetuning_scores.run("ours", job, 1)
  return {
    side: {measure: run[measure] for measure in ("wall", "processor")}
    for side, run in runs.items()
  }


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


# Steps.


def _steps():
  # The last two fields are (float32, bfloat16) targets: share of peak, ratio.
  sizes = {
    "train8": ("train", 8, 128, 0, (0.88, 0.80), (1.6, 1.7)),
    "train32": ("train", 32, 128, 0, (0.88, 0.80), (1.6, 1.7)),
    "predict32": ("predict", 32, 128, 0, (0.97, 0.94), (1.1, 1.1)),
    "pretrain128": ("pretrain", 32, 128, 20, (0.86, 0.75), (1.0, 1.0)),
    "pretrain512": ("pretrain", 4, 512, 76, (0.86, 0.75), (1.25, 1.4)),
    # For GPUs, without targets.
    "pretrain128x256": ("pretrain", 256, 128, 20, (None,) * 2, (None,) * 2),
    "pretrain512x64": ("pretrain", 64, 512, 76, (None,) * 2, (None,) * 2),
  }
  for name, (method, size, length, words, *targets) in sizes.items():
    for dtype, share, ratio in zip(_DTYPES, *targets, strict=True):
      work = step_speed.Work(method, dtype, size, length, words)
      title = f"BERT-base, {work.title}"

      def turn(arguments, folder, work=work):
        return step_speed.measure_all(work, arguments)

      yield Work(
        f"step/{name}/{dtype}",
        (),
        turn,
        [
          Row(f"{title}: share of the peak", "share", share, "own"),
          Row(
            f"{title}: against the fastest peer", "examples_per_second", ratio
          ),
        ],
      )


# Pre-training data.


def _data():
  title = "create_pretraining_data"
  yield Work(
    "data",
    ("text", "vocab", "original"),
    _data_turn,
    [
      Row(f"{title}: processor, without the start", "added", 15, "speedup"),
      Row(f"{title}: processor, with the start", "processor", 15, "speedup"),
      Row(f"{title}: wall", "wall", None, "speedup"),
      Row(f"{title}: memory, without the start", "added_megabytes", 1 / 8),
    ],
  )


def _data_turn(arguments, folder):
  text = folder / "text.txt"
  with open(arguments.text, "rb") as stream:
    # Copy about 8 MB of complete lines.
    text.write_bytes(b"".join(stream.readlines(8_000_000)))
  options = pretraining_data_speed.parse_arguments(
    [
      f"--text={text}",
      f"--vocab={arguments.vocab}",
      f"--original={arguments.original}",
      "--shards=0",
    ]
  )
  return {
    name: {
      **cost._asdict(),
      "added": cost.processor - start.processor,
      "added_megabytes": cost.megabytes - start.megabytes,
    }
    for name, start, cost in pretraining_data_speed.measure(options)
  }


# Short lines.


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
    turn = functools.partial(_lines_turn, work=work, dtype=dtype)
    yield Work(f"lines/{work}/{dtype}", ("glue", "weights"), turn, rows)


def _lines_turn(arguments, folder, *, work, dtype):
  """Computes vectors or classes of SST-2's phrases."""
  path = arguments.glue / "SST-2" / "train.tsv"
  rows = path.read_text(encoding="utf-8").splitlines()[1:]
  texts = [row.split("\t")[0].strip() for row in rows[: arguments.lines]]
  lines, table = folder / "lines.txt", folder / "lines.tsv"
  for path, header in ((lines, []), (table, ["text"])):
    path.write_text("\n".join([*header, *texts, ""]), encoding="utf-8")
  if work == "features":
    ours = [
      ROOT / "extract_features.py",
      f"--model_dir={arguments.weights}",
      f"--input_file={lines}",
      "--pooling=mean",
      "--output_format=npz",
      f"--output_file={folder / 'ours.npz'}",
      f"--batch_size={_LINES_BATCH_SIZE}",
    ]
  else:
    model = _trained(folder, f"--model_dir={arguments.weights}")
    ours = [
      ROOT / "run_classifier.py",
      "--do_predict",
      f"--model_dir={model}",
      f"--predict_file={table}",
      f"--output_dir={folder / 'predictions'}",
      f"--predict_batch_size={_LINES_BATCH_SIZE}",
    ]
  dtype_flags = [f"--dtype={dtype}"]
  if dtype == "int8":
    dtype_flags = ["--engine=onnx", "--quantize=int8"]
  peers = {"transformers": "torch, bfloat16"}
  if dtype != "bfloat16":
    # Depending on the processor, oneDNN's or MKL's float32 products are faster.
    peers = {
      "transformers": "torch, float32",
      "transformers, oneDNN": "torch, float32, oneDNN",
    }
  # The peer is fastest with this batch size, among 32, 64, 128 and 256.
  job = engine_speed.Job(
    "",
    arguments.weights,
    lines=lines,
    output=folder / "theirs",
    head="embedding" if work == "features" else "classification",
    batch_size=_LINES_BATCH_SIZE,
  )
  commands = {
    name: [
      arguments.peer_python,
      engine_speed.__file__,
      json.dumps(job._replace(contender=contender), default=str),
    ]
    for name, contender in peers.items()
  }
  commands[OURS] = [sys.executable, *ours, *dtype_flags]
  return {
    name: measured_runs.run(command, watches_memory=True)[1]._asdict()
    for name, command in commands.items()
  }


# Engines.


def _engines():
  for model, title in MODELS.items():
    rows = []
    for threads in THREADS:
      for size, length in engine_speed.BATCHES:
        measure = f"{engine_speed.texts_per_second(size, length)}, {threads}"
        rows += [
          Row(
            f"{title}, {length} × {size}, {threads}: int8 against {peer}'s",
            measure,
            target,
            peers=f"{peer}, int8",
            ours="here, int8",
          )
          for peer, target in (("ONNX Runtime", 1.0), ("OpenVINO", 0.95))
        ]
      rows.append(
        Row(
          f"{title}, one text, {threads}: p50 in float32",
          f"milliseconds, p50, {threads}",
          1.0,
          ours="here, float32",
          peers="ONNX Runtime, float32",
        )
      )
    turn = functools.partial(_engine_turn, model=model)
    yield Work(f"engines/{model}", ("weights",), turn, rows)
  for task, title in SCORED.items():
    rows = [
      Row(
        f"MiniLM, {title}, {name}: score minus float32's score",
        "score",
        -0.005 if task == "sts-b" else None,
        "difference",
        "here, float32, TensorFlow",
        name,
      )
      for name in engine_speed.CONTENDERS
      if name.startswith("here, int8")
    ]
    turn = functools.partial(_engine_scores_turn, task=task)
    yield Work(f"engines/scores/{task}", ("glue", "weights"), turn, rows)


def _engine_turn(arguments, folder, *, model):
  """Measures every contender once for each number of threads."""
  weights, files = arguments.weights, folder / "made"
  if model == "base":
    weights = _base_weights(arguments, folder)
  files.mkdir()
  turn = {name: {} for name in engine_speed.CONTENDERS}
  for threads, name in itertools.product(arguments.threads.split(","), turn):
    job = engine_speed.Job(name, weights, files, seconds=arguments.seconds)
    measures = engine_speed.run_contender(
      job, arguments.peer_python, THREADS[threads]
    )
    for measure, value in (measures or {}).items():
      turn[name][f"{measure}, {threads}"] = value
  return turn


def _engine_scores_turn(arguments, folder, *, task):
  """Scores all contenders on the dev set, after one epoch of training."""
  # Imported here because `glue` loads TensorFlow.
  from classification import glue, scores

  job = _job(arguments, folder, task, num_train_epochs=1)
  output, files = folder / "output", folder / "made"
  files.mkdir()
  measured_runs.run(finetuning_scores.our_command(job, 1, output))
  model = _to_huggingface(output / "final_model", folder)
  for split in ("train", "dev"):
    examples = glue.read(glue.find(task), str(job.data_dir), split)
    pairs = [(example.text_a, example.text_b) for example in examples]
    path = folder / f"{split}.json"
    path.write_text(json.dumps(pairs), encoding="utf-8")
  gold = [float(example.label) for example in examples]
  turn, job = (
    {},
    engine_speed.Job(
      "",
      model,
      files,
      head="classification",
      pairs=folder / "dev.json",
      samples=folder / "train.json",
    ),
  )
  for name in engine_speed.CONTENDERS:
    result = engine_speed.run_contender(
      job._replace(contender=name), arguments.peer_python
    )
    if result:
      answers = list(map(float, result["answers"]))
      # The score is the accuracy or, for STS-B, Spearman's correlation.
      score = sum(map(float.__eq__, answers, gold)) / len(gold)
      if task == "sts-b":
        score = scores.correlation(*map(scores.average_ranks, (answers, gold)))
      turn[name] = {"score": score}
  return turn


# Starts.


def _starts():
  title = "start of MiniLM on MRPC, records {}: processor, without importing {}"
  rows = [
    Row(title.format(records, "TensorFlow"), measure, 2.5, "own")
    for measure, records in _STARTS.items()
  ]
  yield Work("start/first_step", ("glue", "weights"), _start_turn, rows)


def _start_turn(arguments, folder):
  """Measures processor time until the first line of the training log."""
  output = folder / "output"
  log = output / "train_log.jsonl"
  command = [
    sys.executable,
    ROOT / "run_classifier.py",
    "--do_train",
    f"--model_dir={arguments.weights}",
    "--task_name=mrpc",
    f"--data_dir={arguments.glue / 'MRPC'}",
    f"--output_dir={output}",
    f"--train_batch_size={_BATCH_SIZE}",
    "--log_steps=1",
    "--iterations_per_loop=1",
  ]
  _, imported = measured_runs.run([sys.executable, "-c", "import tensorflow"])
  measures = {}
  for measure in _STARTS:
    # The first start's log would end the second measurement immediately.
    log.unlink(missing_ok=True)
    _, cost = measured_runs.run(
      command, until=lambda: log.exists() and log.stat().st_size
    )
    measures[measure] = cost.processor - imported.processor
  return {OURS: measures}


# The works of --short: {name: (flags, title in the page's table and chart, or
# None)}. With few steps, the start takes a larger share of the time than in a
# whole job, for all contenders.
SHORT = {
  "job/mrpc/float32": ("--steps=150", "MiniLM on MRPC, float32"),
  "job/mrpc/bfloat16": ("--padded=0 --steps=150", "MiniLM on MRPC, bfloat16"),
  "job/cola/float32": ("--padded=0 --steps=100", "MiniLM on CoLA, float32"),
  "job/sts-b/float32": ("--padded=0 --steps=100", "MiniLM on STS-B, float32"),
  "job/squad/float32": ("--steps=60", "MiniLM on SQuAD, float32"),
  "job/tagging/bfloat16": (
    "--steps=150",
    "MiniLM on CoNLL-like names, bfloat16",
  ),
  "job/base/float32": ("--padded=0 --steps=20", "BERT-base on MRPC, float32"),
  "data": ("", "text to records"),
  "step/pretrain128/float32": (
    "--rounds=2",
    "BERT-base, step of 32 × 128, float32",
  ),
  "step/predict32/float32": ("--rounds=3", "BERT-base, 32 × 128, float32"),
  "step/predict32/bfloat16": ("--rounds=3", "BERT-base, 32 × 128, bfloat16"),
  "lines/features/float32": (
    "--lines=10000",
    "MiniLM, vectors of phrases, float32",
  ),
  "lines/features/int8": (
    "--lines=10000",
    "MiniLM, vectors of phrases, int8 against float32",
  ),
  "lines/predictions/float32": (
    "--lines=10000",
    "MiniLM, classes of phrases, float32",
  ),
  "step/train8/float32": ("--rounds=3", None),
  "step/train8/bfloat16": ("--rounds=3", None),
  "engines/minilm": ("--seconds=2 --threads='all threads'", None),
  "start/first_step": ("", None),
}


def headline(name, processor, turns):
  """Returns the Headline of a work in SHORT, or None."""
  text, group = SHORT[name][1], "Prediction"
  if name.startswith(("data", "step/pretrain")):
    group = "Pre-training"
  elif name.startswith("job/"):
    group = "Fine-tuning"
  measure = "examples_per_second" if name.startswith("step/") else "wall"
  outcome = text and evaluate(Row(text, measure, None, "speedup"), turns)
  return Headline(group, processor, outcome) if outcome else None
