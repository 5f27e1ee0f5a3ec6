"""Works of table.py on engines: texts to vectors, and scores of classifiers."""

import itertools
import json
import sys

import engine_speed
import measured_runs
import table_rows

ROOT = engine_speed.ROOT
_THREADS = {"all threads": 0, "one thread": 1}
MODELS = {"minilm": "MiniLM-L6", "base": "BERT-base"}
SCORED = {"sts-b": "STS-B", "mrpc": "MRPC"}
_INT8 = "here, int8"


def speed_rows(model):
  """Yields the Rows of a model of MODELS."""
  for threads in _THREADS:
    for size, length in engine_speed.BATCHES:
      measure = f"{engine_speed.texts_per_second(size, length)}, {threads}"
      for peer, target in (("ONNX Runtime", 1.0), ("OpenVINO", 0.95)):
        yield table_rows.Row(
          f"{MODELS[model]}, {length} × {size}, {threads}: int8 against "
          f"{peer}'s", measure, target, at_most=False,
          peers=f"{peer}, int8", ours=_INT8,
        )
    yield table_rows.Row(
      f"{MODELS[model]}, one text, {threads}: p50 in float32",
      f"milliseconds, p50, {threads}", 1.0, at_most=True,
      peers="ONNX Runtime, float32", ours="here, float32",
    )


def speed_turn(arguments, temporary, *, folder, env):
  """Measures all contenders, in turns; the network is that of `folder`."""
  found = {}
  for threads, name in itertools.product(
    arguments.threads.split(","), engine_speed.CONTENDERS
  ):
    measures = engine_speed.run_contender(
      name, _THREADS[threads], arguments.peer_python, f"--model={folder}",
      f"--made={temporary}", f"--seconds={arguments.seconds}", env=env,
    )
    found.setdefault(name, {}).update(
      {f"{measure}, {threads}": x for measure, x in (measures or {}).items()}
    )
    print(name, threads, measures, file=sys.stderr, flush=True)
  return found


def score_rows(task):
  """Yields the Rows of a task of SCORED."""
  names = [n for n in engine_speed.CONTENDERS if n.startswith(_INT8)]
  for name in names:
    yield table_rows.Row(
      f"MiniLM, {SCORED[task]}, {name}: score less that of float32",
      "score", -0.005 if task == "sts-b" else None, at_most=False,
      result="difference", peers="here, float32, TensorFlow", ours=name,
    )


def score_turn(arguments, temporary, *, task, data_dir, trained, env):
  """Scores all contenders on the dev set.

  Args:
    arguments: flags of table.py.
    temporary: an empty folder.
    task: of SCORED.
    data_dir: folder of its files.
    trained: folder of a model that run_classifier.py trained.
    env: the environment.
  """
  # Imported here: it loads TensorFlow.
  from classification import glue

  model, made = temporary / "model", temporary / "made"
  made.mkdir()
  measured_runs.run([
    sys.executable, ROOT / "convert_checkpoint.py", "--to=huggingface",
    f"--model_dir={trained}", f"--output={model}",
  ])
  files = {}
  for split in ("train", "dev"):
    examples = glue.read(glue.find(task), str(data_dir), split)
    files[split] = temporary / f"{split}.json"
    pairs = [(example.text_a, example.text_b) for example in examples]
    files[split].write_text(json.dumps(pairs), encoding="utf-8")
  gold = [float(example.label) for example in examples]
  found = {}
  for name in engine_speed.CONTENDERS:
    answered = engine_speed.run_contender(
      name, 0, arguments.peer_python, f"--model={model}", f"--made={made}",
      "--head=classification", f"--pairs={files['dev']}",
      f"--samples={files['train']}", env=env,
    )
    if answered:
      found[name] = {"score": _score(task, answered["answers"], gold)}
  return found


def _score(task, answers, gold):
  """Returns Spearman's correlation, or the share of right classes."""
  from classification import scores

  if task == "sts-b":
    return scores.correlation(*map(scores.average_ranks, (answers, gold)))
  return sum(map(float.__eq__, map(float, answers), gold)) / len(gold)


def write_tables(page, runs, notes):
  """Writes the engines' tables into a page, as far as they were measured.

  Args:
    page: pathlib.Path, with two markers for each of MODELS and for the scores.
    runs: dict from the work's name to the results of table.py.
    notes: dict from the work's name to table_rows.run_note.
  """
  for model, title in MODELS.items():
    work = f"engines/{model}"
    lines = []
    for threads in _THREADS if work in runs else ():
      found = _medians_of(runs[work]["turns"], threads)
      if found:
        lines += [f"{title}, {threads}:", "", *engine_speed.table(found), ""]
    if lines:
      lines.append(f"{notes[work]}.")
      table_rows.write_into(page, f"engines, {title}", "\n".join(lines))
  works = {task: f"engines/scores/{task}" for task in SCORED}
  if all(work in runs for work in works.values()):
    lines = ["| engine | STS-B, Spearman | MRPC, accuracy |", "|---|---|---|"]
    columns = [
      table_rows.medians(runs[work]["turns"], "score")
      for work in works.values()
    ]
    for name in engine_speed.CONTENDERS:
      cells = [
        table_rows.number(column[name], "score") if name in column else "–"
        for column in columns
      ]
      lines.append(f"| {name} | {' | '.join(cells)} |")
    # One of both, where they are of one run.
    lines += ["", *dict.fromkeys(f"{notes[name]}." for name in works.values())]
    table_rows.write_into(page, "engines, scores", "\n".join(lines))


def _medians_of(turns, threads):
  """Returns {contender: {measure: median}} of what some threads did."""
  ending, found = f", {threads}", {}
  # One that failed has none.
  measured = set().union(*(m for turn in turns for m in turn.values()))
  for measure in measured:
    if measure.endswith(ending):
      for name, value in table_rows.medians(turns, measure).items():
        found.setdefault(name, {})[measure.removesuffix(ending)] = value
  return {n: found[n] for n in engine_speed.CONTENDERS if n in found}
