"""Runs a row of the table: its command, its seeds, its results.

A run is in OUTPUT/ROW/seed_N, which is the --output_dir of the row's script.
Its results are in result.json there, written when the script is done: a seed
with that file is not run again, and a killed run is continued.
"""

import contextlib
import ctypes
import os
import pathlib
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from typing import NamedTuple

from common import choices, errors, file_io, json_files, process_pool
from reproduction import catalog, rows

_SCRIPTS = pathlib.Path(__file__).resolve().parents[1]
_RESULT = "result.json"
# Files of weights of Hugging Face, and of TensorFlow.
_WEIGHTS = r"\.(safetensors|bin)$|\.data-\d+-of-\d+$"
_PR_SET_PDEATHSIG = 1  # From linux/prctl.h.
# Data sets whose tables lie further down: XNLI, IMDB and PAWS-X.
_DEEP = {"XNLI-1.0", "xnli.dev.tsv", "train", "de", "en"}


class Plan(NamedTuple):
  """How a row is run."""

  row: rows.Row
  model: str  # Folder of the weights; "" if the row's flags name them.
  data: str  # Folder or files; "" where the row needs none.
  output: str  # Folder of all rows.
  max_steps: int = 0  # Where a smoke run ends.
  extra: tuple[str, ...] = ()  # The user's flags, which change the recipe.

  def folder(self, seed: int) -> str:
    """Returns the folder of a seed's run."""
    return os.path.join(self.output, self.row.name, f"seed_{seed}")


def find_model(row: rows.Row, folder: str | None) -> str:
  """Returns the folder of a row's weights; "" if an earlier run makes them.

  `folder` is --model_dir: a model's folder, or a folder of downloads. Raises
  InputError: the model is missing; the message has the command to download it.
  """
  if row.is_chained:
    return ""
  for path in _candidates(folder, row.model):
    if _config_in(path):
      return path
  if not row.model:
    raise errors.InputError(
      f"--row={row.name} starts from no released model: --model_dir must name "
      "a folder with bert_config.json and vocab.txt (and weights, if any)"
    )
  raise errors.InputError(
    f"--row={row.name} needs {row.model}, and there is no model in "
    f"--model_dir={folder or ''}; download it: python download.py "
    f"--model={row.model} --dir={folder or 'downloads'}"
  )


def _candidates(folder, name):
  return [os.path.join(folder, name), folder] if folder else []


def _config_in(folder):
  paths = (
    os.path.join(folder, name) for name in ("bert_config.json", "config.json")
  )
  return next(filter(os.path.exists, paths), None)


def find_data(row: rows.Row, folder: str | None) -> str:
  """Returns the folder of a row's data, or its files of records.

  Raises InputError: it is not there; the message says how to get it.
  """
  if not row.data:
    if not folder:
      raise errors.InputError(
        f"--row={row.name} needs --data_dir: your records ({row.note})"
      )
    return folder
  for path in _candidates(folder, row.data):
    if _has_files(row, path):
      return path
  how = (
    f"download it: python download.py --data={row.data} "
    f"--dir={folder or 'downloads'}"
  )
  if row.data in catalog.ELSEWHERE:
    how = catalog.ELSEWHERE[row.data].about
  raise errors.InputError(
    f"--row={row.name} needs the data {row.data}, which --data_dir="
    f"{folder or ''} does not hold; {how}"
  )


def _has_files(row, folder):
  """Returns whether a folder has the files in the row's flags, or any table."""
  named = [
    flag.partition("{data}/")[2] for flag in row.flags if "{data}/" in flag
  ]
  inside = os.listdir(folder) if os.path.isdir(folder) else []
  if named:
    return set(named) <= set(inside)
  return any(n.endswith((".tsv", ".csv")) or n in _DEEP for n in inside)


def command(plan: Plan, seed: int) -> list[str]:
  """Returns the command of a seed's run, a list for subprocess.

  Raises InputError: no script does this row.
  """
  row, folder = plan.row, plan.folder(seed)
  if not row.script:
    raise errors.InputError(f"--row={row.name} cannot be run: {row.note}")
  flags = [
    flag.replace("{data}", plan.data).replace("{output}", folder)
    .replace("{before}", _model_before(plan, seed))
    for flag in row.flags
  ]
  if plan.max_steps and row.script == "run_pretraining.py":
    # The recipe's warm-up is longer than a whole smoke run. Another row may go
    # on with it.
    flags += [
      f"--num_train_steps={2 * plan.max_steps}", "--num_warmup_steps=0",
      f"--stop_step={plan.max_steps * (2 if row.after else 1)}",
    ]
  elif plan.max_steps and "--do_train" in flags:
    flags.append(f"--max_train_steps={plan.max_steps}")
  if "--do_train" in flags:
    flags.append(f"--seed={seed}")
  return [
    # The user's flags come last: absl takes the last value of a flag.
    sys.executable, str(_SCRIPTS / row.script), *_model_flags(plan.model),
    *flags, f"--output_dir={folder}", *plan.extra,
  ]


def _model_flags(folder):
  """Returns --model_dir, or the paths where there are no weights yet."""
  if not folder:
    return []
  names = os.listdir(folder)
  # Pre-training rows start from a configuration alone.
  if any(name.endswith((".index", ".safetensors", ".bin")) for name in names):
    return [f"--model_dir={folder}"]
  flags = [f"--bert_config_file={_config_in(folder)}"]
  if "vocab.txt" in names:
    flags.append(f"--vocab_file={os.path.join(folder, 'vocab.txt')}")
  return flags


def run(plan: Plan, seed: int) -> None:
  """Runs a seed, unless it is done, and writes its result.json.

  Raises InputError: the script failed, or was stopped and may be continued.
  """
  arguments = command(plan, seed)
  path = os.path.join(plan.folder(seed), _RESULT)
  if os.path.exists(path):
    done = json_files.read(path)["command"]
    # The interpreter is left out: its path depends on the environment.
    if done[1:] == arguments[1:]:
      return
    raise errors.InputError(
      f"{path} is of another command ({shlex.join(done)}); remove its folder, "
      "or choose another --output_dir"
    )
  before = _result_before(plan, seed) if plan.row.after else None
  if before and not (plan.row.is_chained or os.path.exists(plan.folder(seed))):
    _begin_after(plan, seed, before["results"]["global_step"])
  start = time.time()
  # The script runs in a separate process, as if a user started it.
  code = _call(arguments)
  if code:
    raise errors.InputError(
      f"{os.path.basename(arguments[1])} ended with code {code}; run the same "
      "command again to go on, or see its own message above: "
      f"{shlex.join(arguments)}"
    )
  grid, results = read_search(plan.folder(seed)), {}
  if grid:
    results = grid[0][1]
  elif "--do_eval" in arguments:  # Others leave files for a server.
    results = read_eval_results(plan.folder(seed))
  json_files.write(path, {
    "row": plan.row.name, "seed": seed, **_start_record(plan, seed),
    "before": before, "data": plan.data,
    "fewer": fewer_rows(plan.row, plan.data),
    "command": arguments, "extra": list(plan.extra),
    "smoke": bool(plan.max_steps), "max_steps": plan.max_steps,
    "results": results, "grid": grid,
    "seconds": round(time.time() - start, 1),  # Only since the last start.
    "machine": machine(), "date": time.strftime("%Y-%m-%d"),
  })


def _call(arguments):
  """Runs a command to its end; the child ends with this process."""
  ends = _end_with_parent if os.name == "posix" else None
  with subprocess.Popen(arguments, preexec_fn=ends) as child:
    try:
      return child.wait()
    except BaseException:
      # After SIGTERM the script saves its step and ends.
      child.terminate()
      child.wait()
      raise


def _end_with_parent():
  """Asks Linux for SIGTERM when the parent ends, however it ends."""
  with contextlib.suppress(OSError, AttributeError):
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _folder_before(plan, seed):
  """Returns the folder of the run that a seed starts from.

  It is the run of the same seed, or of seed 1 if only that is finished: one
  pre-training serves many fine-tunings.
  """
  before = plan._replace(row=rows.ROWS[plan.row.after])
  folders = [before.folder(seed), before.folder(1)]
  done = (f for f in folders if os.path.exists(os.path.join(f, _RESULT)))
  return next(done, folders[0])


def _model_before(plan, seed):
  """Returns the folder of the model in {before}; "" where no row has it."""
  if not plan.row.is_chained:
    return ""
  return os.path.join(_folder_before(plan, seed), "final_model")


def _result_before(plan, seed):
  """Returns the result.json of the run that a seed starts from."""
  folder = _folder_before(plan, seed)
  path = os.path.join(folder, _RESULT)
  if not os.path.exists(path):
    raise errors.InputError(
      f"--row={plan.row.name} goes on with the run in {folder}, which is not "
      f"finished; run --row={plan.row.after} first, with the same --output_dir"
    )
  return json_files.read(path)


def _begin_after(plan, seed, step):
  """Makes the folder of a run that continues the run of an earlier row."""
  before = _folder_before(plan, seed)
  with file_io.new_folder(plan.folder(seed)) as folder:
    for name in os.listdir(before):
      if name.startswith((f"model.ckpt-{step:.0f}.", "run_fingerprint.")):
        shutil.copy(os.path.join(before, name), folder)


def _start_record(plan, seed):
  """Returns the fields of result.json that say what a run started from."""
  if plan.row.is_chained:
    weights = weights_record(_model_before(plan, seed))
    return {**weights, "model": plan.row.after}
  config = json_files.read(_config_in(plan.model))
  return {
    **weights_record(plan.model),
    "config": {name: str(config.get(name)) for name in plan.row.config},
  }


def weights_record(folder: str) -> dict:
  """Returns the fields of result.json that say which weights a run had.

  Returns:
    model: the name in the catalog, or the name of the folder; source: the
    addresses that download.py made the folder from, empty for any other folder;
    weights: the path; sha256: {file: sum} of the files of weights.
  """
  path, name = os.path.join(folder, "download.json"), os.path.normpath(folder)
  download = json_files.read(path) if os.path.exists(path) else {}
  files = sorted(os.listdir(folder)) if folder else []
  return {
    "model": download.get("name", os.path.basename(name)), "weights": name,
    "source": download.get("files", []),
    "sha256": {
      file: file_io.size_and_sha256(os.path.join(folder, file))[1]
      for file in files if re.search(_WEIGHTS, file)
    },
  }


def fewer_rows(row: rows.Row, folder: str) -> dict[str, tuple[int, int]]:
  """Returns {file: (lines or questions, as published)} of shortened files."""
  entry = {**catalog.DATA, **catalog.ELSEWHERE}.get(row.data)
  fewer = {}
  for name, published in (entry.rows if entry else {}).items():
    path = pathlib.Path(folder, name)
    if path.exists():
      # Questions of a file of SQuAD; lines of any other, its header included.
      unit = rb'"question"\s*:' if path.suffix == ".json" else rb"\n"
      found = len(re.findall(unit, path.read_bytes()))
      # Versions of a data set differ by a few rows.
      if found < 0.99 * published:
        fewer[name] = (found, published)
  return fewer


def machine() -> str:
  """Returns the processor, how many cores this process may use, and GPUs."""
  name = platform.processor() or platform.machine()
  if os.path.exists("/proc/cpuinfo"):
    text = pathlib.Path("/proc/cpuinfo").read_text()
    name = (re.findall(r"^model name\s*: (.*)", text, re.M) or [name])[0]
  gpus = []
  if shutil.which("nvidia-smi"):
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, check=False)
    gpus = done.stdout.splitlines() if not done.returncode else []
  cores = process_pool.default_processes()
  return ", ".join([name, f"{cores} core{'s' * (cores > 1)}", *gpus])


def read_eval_results(folder: str) -> dict[str, float]:
  """Returns {name: number} of the eval_results.txt in a folder.

  Raises InputError: there is none.
  """
  path = pathlib.Path(folder, "eval_results.txt")
  if not path.exists():
    raise errors.InputError(f"{path} is missing: the script did not evaluate")
  lines = path.read_text(encoding="utf-8").splitlines()
  # A score of one of two classes is followed by the class's name.
  return {
    name.strip(): float(value.split()[0])
    for name, _, value in (line.partition(" = ") for line in lines)
  }


def read_search(folder: str) -> list[tuple[dict, dict]]:
  """Returns (settings, scores) of each run of --search, the best run first.

  Settings are {flag: its value as text}. Without search_results.tsv: [].
  """
  path = pathlib.Path(folder, "search_results.tsv")
  if not path.exists():
    return []
  header, *lines = (
    line.split("\t") for line in path.read_text("utf-8").splitlines()
  )
  # The flags come first, then the score that was compared.
  count = next(
    n for n, name in enumerate(header) if name not in choices.SEARCHED
  )
  return [
    (dict(zip(header[:count], line)),
     dict(zip(header[count:], map(float, line[count:]))))
    for line in lines
  ]


def finished(output: str) -> list[dict]:
  """Returns the results of all finished runs below a folder, in order."""
  paths = sorted(pathlib.Path(output).glob(f"*/seed_*/{_RESULT}"))
  return [json_files.read(str(path)) for path in paths]
