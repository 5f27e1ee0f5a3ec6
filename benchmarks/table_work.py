"""What table.py measures: contenders, targets, and what the page shows."""

import argparse
import dataclasses
import functools
import itertools
import json
import os
import re
import sys
from collections.abc import Callable

import engine_works
import finetuning_scores
import measured_runs
import pretraining_data_speed
import step_speed
import table_rows
from table_plan import DYNAMIC as _DYNAMIC

ROOT = pretraining_data_speed.ROOT
BENCHMARKS = ROOT / "benchmarks"
# What a work may need from the command line.
DATA = {
  "glue": "folder of GLUE's folders (MRPC, CoLA, ...)",
  "squad": "folder of SQuAD 1.1's files",
  "weights": "folder of MiniLM, in Hugging Face's layout",
  "text": "pre-training text, one sentence a line",
  "vocab": "vocabulary of an uncased model, for --text",
  "original": "clone of google-research/bert",
}
# task -> (its folder, what it is called, its examples, epochs)
_TASKS = {
  "mrpc": ("MRPC", "MRPC", None, 2), "rte": ("RTE", "RTE", None, 2),
  "cola": ("CoLA", "CoLA", None, 2), "sts-b": ("STS-B", "STS-B", None, 1),
  "sst-2": ("SST-2", "SST-2, 10,000 rows", 10000, 1),
}
_DTYPES = ("float32", "bfloat16")
_INT8 = "int8"  # Of ours alone.
_BATCH_SIZE = 16  # Of every fine-tuning job.
# A job of BERT-base takes hours on two cores; its steps are all alike.
_BASE_STEPS = 60
# The fastest for the peer, of 32, 64, 128 and 256.
_LINES_TOGETHER = 64
_PADDED = "Trainer, padded to 128"
_TRAINER = "Trainer"
_SQUAD_TRAIN, _SQUAD_DEV = "train*.json", "dev*.json"
# Of the dev set, which is larger than what is trained on.
_SQUAD_QUESTIONS = 1000
# As many sentences as CoNLL-2003 has to train on, and to score.
_SENTENCES = 14041, 3250


@dataclasses.dataclass(frozen=True)
class Work:
  """Something to measure.

  Attributes:
    name: as --rows names it.
    needs: names of flags, see DATA.
    turn: function of (flags, an empty folder); runs every contender once and
      returns dict from contender to dict from measure to number.
    rows: its table_rows.Rows.
    dtype: the numbers it computes with, or None.
    has_torch_peers: whether --peer_python must have torch and the like.
  """

  name: str
  needs: tuple
  turn: Callable
  rows: tuple
  dtype: str | None = None
  has_torch_peers: bool = False


@functools.cache
def all_works():
  """Returns all Works, in the table's order."""
  return tuple(
    itertools.chain(
      _small_jobs(), _base_jobs(), _jobs_of_squad(), _steps(), _data(),
      _lines(), _engines(), _starts(),
    )
  )


def peer_environment(arguments):
  """Returns the environment of commands that run other programs."""
  path = [arguments.peer_path, os.environ.get("PYTHONPATH", "")]
  return measured_runs.environment(
    PYTHONPATH=os.pathsep.join(filter(None, path)), KERAS_BACKEND="tensorflow"
  )


# Fine-tuning jobs.


def _small_jobs():
  for task, dtype in itertools.product(_TASKS, _DTYPES):
    folder, title, examples, epochs = _TASKS[task]
    turn = functools.partial(
      _glue_turn, task=task, dtype=dtype, folder=folder, examples=examples,
      epochs=epochs,
    )
    yield Work(
      f"job/{task}/{dtype}", ("glue", "weights"), turn,
      _job_rows(f"MiniLM job, {title}, {dtype}", 0.5, 0.35), dtype, True,
    )


def _base_jobs():
  for dtype in _DTYPES:
    turn = functools.partial(
      _glue_turn, task="mrpc", dtype=dtype, folder="MRPC",
      examples=_BASE_STEPS * _BATCH_SIZE, epochs=1, is_base=True,
    )
    title = f"BERT-base job, part of MRPC, {dtype}"
    yield Work(
      f"job/base/{dtype}", ("glue", "weights"), turn,
      _job_rows(title, 0.5, 0.3), dtype, True,
    )


def _job_rows(title, dynamic, padded):
  return tuple(
    table_rows.Row(
      f"{title}: {kind}, against {peer.removeprefix('Trainer, ')}", measure,
      target, at_most=True, peers=peer,
    )
    for peer, target in ((_DYNAMIC, dynamic), (_PADDED, padded))
    for measure, kind in (("processor", "processor"), ("wall", "wall"))
  )


def _jobs_of_squad():
  turns = {"SQuAD": _squad_turn, "tagging": _tagging_turn}
  for (title, turn), dtype in itertools.product(turns.items(), _DTYPES):
    yield Work(
      f"job/{title.lower()}/{dtype}", ("squad", "weights"),
      functools.partial(turn, dtype=dtype),
      _trainer_rows(f"{title} job, MiniLM, {dtype}"), dtype, True,
    )


def _trainer_rows(title):
  return tuple(
    table_rows.Row(
      f"{title}: {measure}", measure, 0.5, at_most=True, peers=_TRAINER
    )
    for measure in ("processor", "wall")
  )


def _job(arguments, **values):
  """Returns the flags of a job of finetuning_scores.py."""
  defaults = {
    name: default
    for name, (_, default) in finetuning_scores.HYPER_PARAMETERS.items()
  }
  job = {
    **defaults, "train_batch_size": _BATCH_SIZE, "weights": arguments.weights,
    "peer_python": arguments.peer_python, "peer_flags": [],
    "max_train_examples": None, "train_file": "", "predict_file": "", **values,
  }
  if arguments.steps:
    job["max_train_examples"] = arguments.steps * _BATCH_SIZE
    job["num_train_epochs"] = 1.0
  return argparse.Namespace(**job)


def _glue_turn(
  arguments, temporary, *, task, dtype, folder, examples, epochs, is_base=False
):
  weights = arguments.weights
  if is_base:
    weights = _base_weights(arguments, temporary)
  job = _job(
    arguments, task=task, dtype=dtype, data_dir=arguments.glue / folder,
    max_train_examples=examples, num_train_epochs=float(epochs),
    weights=weights,
  )
  job.data_dir = finetuning_scores.shortened(job, temporary)
  found = _both_costs(job, _DYNAMIC)
  if arguments.padded:
    # The two runs of the peer differ in this flag alone.
    job.peer_flags = ["--pad_to_max_length=1"]
    found[_PADDED] = _cost_of(finetuning_scores.run_peer(job, 1))
  return found


def _both_costs(job, peer):
  return {
    table_rows.OURS: _cost_of(finetuning_scores.run_ours(job, 1)),
    peer: _cost_of(finetuning_scores.run_peer(job, 1)),
  }


def _base_weights(arguments, temporary):
  """Returns the folder of a BERT-base with the tokenizer of --weights."""
  folder = temporary / "base"
  measured_runs.run([
    sys.executable, BENCHMARKS / "random_weights.py",
    f"--tokenizer={arguments.weights}", f"--output={folder}",
  ])
  return folder


def _squad_turn(arguments, temporary, *, dtype):
  job = _job(
    arguments, task="squad", dtype=dtype, data_dir=arguments.squad,
    train_file=_only_file(arguments.squad, _SQUAD_TRAIN),
    predict_file=_only_file(arguments.squad, _SQUAD_DEV),
    max_seq_length=384, bucket_by_length=1,
  )
  for name, count in (
    (job.train_file, job.max_train_examples),
    (job.predict_file, _SQUAD_QUESTIONS),
  ):
    finetuning_scores.write_questions(
      arguments.squad / name, temporary / name, count
    )
  job.data_dir = temporary
  return _both_costs(job, "Trainer, grouped by length")


def _tagging_turn(arguments, temporary, *, dtype):
  job = _job(
    arguments, task="ner", dtype=dtype, data_dir=temporary,
    train_file="train.conll", predict_file="dev.conll",
  )
  count, scored = job.max_train_examples or _SENTENCES[0], _SENTENCES[1]
  sentences = _sentences_with_names(arguments.squad)
  for name, part in (
    (job.train_file, sentences[:count]),
    (job.predict_file, sentences[_SENTENCES[0] :][:scored]),
  ):
    (temporary / name).write_text("\n".join(part), encoding="utf-8")
  return _both_costs(job, _DYNAMIC)


def _sentences_with_names(squad):
  """Returns sentences of SQuAD's paragraphs in CoNLL's columns.

  Words are in small letters; those that Wikipedia writes with a capital are
  names, but for a sentence's first.
  """
  found = []
  for pattern in (_SQUAD_TRAIN, _SQUAD_DEV):
    path = squad / _only_file(squad, pattern)
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    for paragraph in itertools.chain(*(a["paragraphs"] for a in articles)):
      for sentence in re.split(r"(?<=[.!?])\s+", paragraph["context"]):
        words = re.findall(r"\w+|[^\w\s]", sentence)
        # Longer ones might be cut off; strange letters are pieces of their own.
        if sentence.isascii() and 3 <= len(words) and len(sentence) <= 240:
          found.append(_columns(words))
  return found


def _columns(words):
  lines, inside = [], False
  for place, word in enumerate(words):
    is_name = place > 0 and word[0].isupper()
    tag = ("I" if inside else "B") + "-NAME" if is_name else "O"
    lines.append(f"{word.lower()} {tag}\n")
    inside = is_name
  return "".join(lines)


def _only_file(folder, pattern):
  (path,) = folder.glob(pattern)
  return path.name


def _cost_of(run):
  return {"wall": run["seconds"], "processor": run["cpu_seconds"]}


# Steps.


def _steps():
  # Targets of float32 and bfloat16: shares of the peak, and ratios.
  sizes = {
    "train8": ("train", 8, 128, 0, (0.88, 0.80), (1.6, 1.7)),
    "train32": ("train", 32, 128, 0, (0.88, 0.80), (1.6, 1.7)),
    "predict32": ("predict", 32, 128, 0, (0.97, 0.94), (1.1, 1.1)),
    "pretrain128": ("pretrain", 32, 128, 20, (0.86, 0.75), (1.0, 1.0)),
    "pretrain512": ("pretrain", 4, 512, 76, (0.86, 0.75), (1.25, 1.4)),
  }
  for name, (method, size, length, words, *targets) in sizes.items():
    for dtype, share, ratio in zip(_DTYPES, *targets, strict=True):
      work = step_speed.Work(method, dtype, size, length, words)
      rows = (
        table_rows.Row(
          f"BERT-base, {work.title}: share of the peak", "share", share,
          at_most=False, result="own",
        ),
        table_rows.Row(
          f"BERT-base, {work.title}: against the fastest peer",
          "examples_per_second", ratio, at_most=False,
        ),
      )
      turn = functools.partial(_step_turn, work=work)
      yield Work(f"step/{name}/{dtype}", (), turn, rows, dtype, True)


def _step_turn(arguments, temporary, *, work):
  """Runs each contender in a process of its own, and the machine's peak."""
  del temporary
  peak = step_speed.run_self(sys.executable, "--peak")["peak"][work.dtype]
  options = argparse.Namespace(**{**vars(arguments), "steps": 1})
  layers, found = arguments.num_hidden_layers, {}
  for name in step_speed.contenders(work, arguments.compiled_peers):
    measures = step_speed.measure_contender(
      work, name, options, peer_environment(arguments)
    )
    if measures:
      rate = work.size / measures["seconds"]
      found[name] = {
        "examples_per_second": rate, "share": rate * work.flop(layers) / peak,
        "processor_seconds": measures["processor"],
      }
  return found


# Pre-training data.


def _data():
  times, kept = dict(result="speedup", at_most=False), dict(at_most=True)
  yield Work(
    "data", ("text", "vocab", "original"), _data_turn,
    (
      table_rows.Row(
        "create_pretraining_data: processor, without the start", "added",
        15, **times,
      ),
      table_rows.Row(
        "create_pretraining_data: processor, with the start", "processor",
        15, **times,
      ),
      table_rows.Row("create_pretraining_data: wall", "wall", None, **times),
      table_rows.Row(
        "create_pretraining_data: memory added to the start's",
        "added_megabytes", 1 / 8, **kept,
      ),
    ),
  )


def _data_turn(arguments, temporary):
  text, tiny = temporary / "text.txt", temporary / "tiny.txt"
  with open(arguments.text, "rb") as stream:
    part = stream.read(int(arguments.text_mb * 1e6))
  # No half line, which may be half a character.
  text.write_bytes(part[: part.rfind(b"\n") + 1])
  tiny.write_text(pretraining_data_speed.TINY_TEXT)
  makers = {
    table_rows.OURS: pretraining_data_speed.ours,
    "the original": functools.partial(
      pretraining_data_speed.original, arguments.original
    ),
  }
  found = {}
  for contender, make in makers.items():
    start, cost = (
      measured_runs.measure(
        make([
          f"--input_file={path}", f"--vocab_file={arguments.vocab}",
          f"--output_file={temporary / 'records'}", "--dupe_factor=5",
        ]),
        env=measured_runs.environment(CUDA_VISIBLE_DEVICES="-1"),
      )
      for path in (tiny, text)
    )
    found[contender] = {
      **_measures(cost),
      # Less a run on a tiny text: what is left grows with the text.
      "added": cost.processor - start.processor,
      "added_megabytes": cost.megabytes - start.megabytes,
    }
  return found


def _measures(cost):
  return {
    "wall": cost.seconds, "processor": cost.processor,
    "megabytes": cost.megabytes,
  }


# Short lines.


def _lines():
  kinds = [*_DTYPES, _INT8]
  for work, dtype in itertools.product(("features", "predictions"), kinds):
    against = " against float32" if dtype == _INT8 else ""
    rows = tuple(
      table_rows.Row(
        f"{work} of short lines, MiniLM, {dtype}{against}: {measure}", measure,
        2.5 if dtype == _INT8 else 1.5, at_most=False, result="speedup",
      )
      for measure in ("processor", "wall")
    )
    turn = functools.partial(_lines_turn, work=work, dtype=dtype)
    yield Work(
      f"lines/{work}/{dtype}", ("glue", "weights"), turn, rows,
      None if dtype == _INT8 else dtype, True,
    )


def _write_lines(arguments, temporary):
  """Writes phrases of SST-2; returns a file of lines, and one with a header."""
  rows = (arguments.glue / "SST-2" / "train.tsv").read_text(encoding="utf-8")
  rows = rows.splitlines()[1 : arguments.lines + 1]
  lines, table = temporary / "lines.txt", temporary / "lines.tsv"
  texts = [row.split("\t")[0].strip() for row in rows]
  lines.write_text("\n".join(texts) + "\n", encoding="utf-8")
  table.write_text("\n".join(["text", *texts]) + "\n", encoding="utf-8")
  return lines, table


def _prediction_command(model, table, output, dtype):
  return [
    sys.executable, ROOT / "run_classifier.py", "--do_predict",
    f"--model_dir={model}", f"--predict_file={table}", f"--output_dir={output}",
    f"--predict_batch_size={_LINES_TOGETHER}", *_numbers_flags(dtype),
  ]


def _numbers_flags(dtype):
  if dtype == _INT8:
    return ["--engine=onnx", "--quantize=int8"]
  return [f"--dtype={dtype}"]


def _lines_turn(arguments, temporary, *, work, dtype):
  lines, table = _write_lines(arguments, temporary)
  if work == "features":
    ours = [
      sys.executable, ROOT / "extract_features.py",
      *_weights_flags(arguments.weights), f"--input_file={lines}",
      "--pooling=mean", "--output_format=npz",
      f"--output_file={temporary / 'ours.npz'}",
      f"--batch_size={_LINES_TOGETHER}", *_numbers_flags(dtype),
    ]
  else:
    ours = _prediction_command(
      _small_classifier(arguments, temporary), table,
      temporary / "predictions", dtype,
    )
  ending = {"features": "npz", "predictions": "tsv"}[work]
  peer = [
    arguments.peer_python, BENCHMARKS / "lines_peer.py", f"--work={work}",
    f"--lines={lines}", f"--weights={arguments.weights}",
    f"--batch_size={_LINES_TOGETHER}",
    f"--dtype={'float32' if dtype == _INT8 else dtype}",
    f"--output={temporary / 'theirs'}.{ending}",
  ]
  commands = {table_rows.OURS: (ours, None)}
  commands["transformers"] = peer, peer_environment(arguments)
  if dtype != "bfloat16":
    # Its products in float32 are faster on some processors, MKL's on others.
    command = [*peer, "--onednn"]
    commands["transformers, oneDNN"] = command, peer_environment(arguments)
  return {
    name: _measures(measured_runs.measure(command, env=env))
    for name, (command, env) in commands.items()
  }


def _weights_flags(weights):
  return [
    f"--init_checkpoint={weights}", f"--vocab_file={weights / 'vocab.txt'}",
    f"--bert_config_file={weights / 'config.json'}",
  ]


def _small_classifier(arguments, temporary):
  """Trains MiniLM for a step; returns the folder of the model."""
  examples, output = temporary / "few.tsv", temporary / "trained"
  examples.write_text("text\tlabel\ngood\tyes\nbad\tno\n", encoding="utf-8")
  measured_runs.run([
    sys.executable, ROOT / "run_classifier.py", "--do_train",
    *_weights_flags(arguments.weights), f"--train_file={examples}",
    f"--output_dir={output}", "--num_train_epochs=1", "--train_batch_size=2",
  ])
  return output / "final_model"


# Engines.


def _engines():
  for model in engine_works.MODELS:
    yield Work(
      f"engines/{model}", ("weights",),
      functools.partial(_engine_turn, model=model),
      tuple(engine_works.speed_rows(model)), None, True,
    )
  for task in engine_works.SCORED:
    yield Work(
      f"engines/scores/{task}", ("glue", "weights"),
      functools.partial(_engine_scores_turn, task=task),
      tuple(engine_works.score_rows(task)), None, True,
    )


def _engine_turn(arguments, temporary, *, model):
  folder = arguments.weights
  if model == "base":
    folder = _base_weights(arguments, temporary)
  return engine_works.speed_turn(
    arguments, temporary, folder=folder, env=peer_environment(arguments)
  )


def _engine_scores_turn(arguments, temporary, *, task):
  data_dir = arguments.glue / _TASKS[task][0]
  job = _job(arguments, task=task, data_dir=data_dir, num_train_epochs=1.0)
  job.data_dir = finetuning_scores.shortened(job, temporary / "data")
  output = temporary / "output"
  measured_runs.run(finetuning_scores.our_command(job, 1, output))
  return engine_works.score_turn(
    arguments, temporary, task=task, data_dir=job.data_dir,
    trained=output / "final_model", env=peer_environment(arguments),
  )


# Starts.


def _starts():
  rows = tuple(
    table_rows.Row(
      f"start of MiniLM on MRPC, {records}: processor above importing "
      f"TensorFlow{unit}", kind + measure, target, at_most=True, result="own",
    )
    for measure, records in (
      ("first_start", "records not cached"), ("next_start", "records cached")
    )
    # Seconds depend on the machine, imports less so.
    for kind, unit, target in (
      ("", "", 2.5), ("imports, ", ", in imports", None)
    )
  )
  yield Work("start/first_step", ("glue", "weights"), _start_turn, rows)
  scripts = sorted(
    path.stem
    for path in ROOT.glob("*.py")
    if "command.run(main)" in path.read_text(encoding="utf-8")
    and path.stem != "setup"
  )
  rows = tuple(
    table_rows.Row(
      f"import of {script}.py: processor", script, None, at_most=True,
      result="own",
    )
    for script in ("tensorflow", *scripts)
  )
  yield Work("start/import", (), _import_turn, rows)


def _import_seconds(module):
  code = "import tensorflow"
  if module != "tensorflow":
    code = measured_runs.import_code(ROOT / f"{module}.py")
  command = [sys.executable, "-c", code]
  env = measured_runs.environment(PYTHONPATH=str(ROOT))
  return measured_runs.measure(command, env=env).processor


def _import_turn(arguments, temporary):
  del arguments, temporary
  # The rows say which modules: the list is written once.
  work = next(work for work in all_works() if work.name == "start/import")
  modules = [row.measure for row in work.rows]
  return {
    table_rows.OURS: {module: _import_seconds(module) for module in modules}
  }


def _start_turn(arguments, temporary):
  """Processor time from the command to the first line of the training log."""
  output = temporary / "output"
  log = output / "train_log.jsonl"
  command = [
    sys.executable, ROOT / "run_classifier.py", "--do_train",
    *_weights_flags(arguments.weights), "--task_name=mrpc",
    f"--data_dir={arguments.glue / 'MRPC'}", f"--output_dir={output}",
    f"--train_batch_size={_BATCH_SIZE}", "--log_steps=1",
    "--iterations_per_loop=1",
  ]
  imported = _import_seconds("tensorflow")
  measures = {}
  for measure in ("first_start", "next_start"):
    # Of the first start: the second would seem done at once.
    log.unlink(missing_ok=True)
    cost = measured_runs.measure(
      command, until=lambda: log.exists() and log.stat().st_size
    )
    measures[measure] = cost.processor - imported
    measures[f"imports, {measure}"] = measures[measure] / imported
  return {table_rows.OURS: measures}
