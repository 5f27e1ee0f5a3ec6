"""Runs a row of the table with its command and seeds, and stores the results.

A run's folder is OUTPUT/ROW/seed_N, which is the --output_dir of the row's
script. When the script has ended, its results are written to result.json there.
A seed with that file is skipped; an interrupted run continues.
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
# Weight files of Hugging Face and TensorFlow.
_WEIGHTS = r"\.(safetensors|bin)$|\.data-\d+-of-\d+$"
_PR_SET_PDEATHSIG = 1  # From linux/prctl.h.
# Entries of data sets with tables in subfolders: XNLI, IMDB and PAWS-X.
_DEEP = {"XNLI-1.0", "xnli.dev.tsv", "train", "de", "en"}


class Plan(NamedTuple):
  """A row, and the settings to run it with."""

  row: rows.Row
  model: str  # Folder of the weights; "" if the row's flags name them.
  data: str  # Folder or files; "" if the row needs none.
  output: str  # Folder for all rows.
  max_steps: int = 0  # Last step of a smoke run.
  extra: tuple[str, ...] = ()  # The user's flags, which change the recipe.

  def folder(self, seed: int) -> str:
    """Returns the folder of a seed's run."""
    return os.path.join(self.output, self.row.name, f"seed_{seed}")


def find_model(row: rows.Row, folder: str | None) -> str:
  """Returns the folder of a row's weights; "" if an earlier run makes them.

  `folder` is --model_dir: a model folder, or a folder with downloads. Raises
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

  Raises InputError: the data is missing; the message says how to get it.
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
  """Returns whether a folder has the files in the row's flags, or a table."""
  named = [
    flag.partition("{data}/")[2] for flag in row.flags if "{data}/" in flag
  ]
  inside = os.listdir(folder) if os.path.isdir(folder) else []
  if named:
    return set(named) <= set(inside)
  return any(n.endswith((".tsv", ".csv")) or n in _DEEP for n in inside)


def command(plan: Plan, seed: int) -> list[str]:
  """Returns the command of a seed's run as a list for subprocess.

  Raises InputError: no script can run this row.
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
    # The recipe's warm-up is longer than a smoke run. A row that continues
    # another row's run needs twice the steps.
    flags += [
      f"--num_train_steps={2 * plan.max_steps}", "--num_warmup_steps=0",
      f"--stop_step={plan.max_steps * (2 if row.after else 1)}",
    ]
  elif plan.max_steps and "--do_train" in flags:
    flags.append(f"--max_train_steps={plan.max_steps}")
  if "--do_train" in flags:
    flags.append(f"--seed={seed}")
  return [
    # The user's flags come last, because absl takes the last value of a flag.
    sys.executable, str(_SCRIPTS / row.script), *_model_flags(plan.model),
    *flags, f"--output_dir={folder}", *plan.extra,
  ]


def _model_flags(folder):
  """Returns --model_dir, or the flags for a folder without weights."""
  if not folder:
    return []
  names = os.listdir(folder)
  # Rows of pre-training start from a configuration without weights.
  if any(name.endswith((".index", ".safetensors", ".bin")) for name in names):
    return [f"--model_dir={folder}"]
  flags = [f"--bert_config_file={_config_in(folder)}"]
  if "vocab.txt" in names:
    flags.append(f"--vocab_file={os.path.join(folder, 'vocab.txt')}")
  return flags


def run(plan: Plan, seed: int) -> None:
  """Runs a seed and writes its result.json, unless that exists.

  Raises InputError: the script failed, or was stopped and can continue.
  """
  arguments = command(plan, seed)
  path = os.path.join(plan.folder(seed), _RESULT)
  if os.path.exists(path):
    done = json_files.read(path)["command"]
    # Ignore the interpreter, whose path depends on the environment.
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
  # A separate process, as if a user had started the script.
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
  elif "--do_eval" in arguments:  # Other rows write files for a server.
    results = read_eval_results(plan.folder(seed))
  json_files.write(path, {
    "row": plan.row.name, "seed": seed, **_start_record(plan, seed),
    "before": before, "data": plan.data,
    "fewer": fewer_rows(plan.row, plan.data),
    "command": arguments, "extra": list(plan.extra),
    "smoke": bool(plan.max_steps), "max_steps": plan.max_steps,
    "results": results, "grid": grid,
    "seconds": round(time.time() - start, 1),  # Since the last start.
    "machine": machine(), "date": time.strftime("%Y-%m-%d"),
  })


def _call(arguments):
  """Runs a command and returns its exit code; it ends with this process."""
  ends = _end_with_parent if os.name == "posix" else None
  with subprocess.Popen(arguments, preexec_fn=ends) as child:
    try:
      return child.wait()
    except BaseException:
      # On SIGTERM the script saves its step and ends.
      child.terminate()
      child.wait()
      raise


def _end_with_parent():
  """Makes Linux send SIGTERM to this process when its parent ends."""
  with contextlib.suppress(OSError, AttributeError):
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _folder_before(plan, seed):
  """Returns the folder of the run that a seed starts from.

  It is the run with the same seed, or with seed 1 if only that has finished,
  because several fine-tunings can start from one pre-training.
  """
  before = plan._replace(row=rows.ROWS[plan.row.after])
  folders = [before.folder(seed), before.folder(1)]
  done = (f for f in folders if os.path.exists(os.path.join(f, _RESULT)))
  return next(done, folders[0])


def _model_before(plan, seed):
  """Returns the folder of the model for {before}; "" if the row lacks that."""
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
  """Makes a run's folder with the last checkpoint of an earlier row's run."""
  before = _folder_before(plan, seed)
  with file_io.new_folder(plan.folder(seed)) as folder:
    for name in os.listdir(before):
      if name.startswith((f"model.ckpt-{step:.0f}.", "run_fingerprint.")):
        shutil.copy(os.path.join(before, name), folder)


def _start_record(plan, seed):
  """Returns the fields of result.json about a run's initial weights."""
  if plan.row.is_chained:
    weights = weights_record(_model_before(plan, seed))
    return {**weights, "model": plan.row.after, "config": {}}
  config = json_files.read(_config_in(plan.model))
  return {
    **weights_record(plan.model),
    "config": {name: str(config.get(name)) for name in plan.row.config},
  }


def weights_record(folder: str) -> dict:
  """Returns the fields of result.json about the weights in a folder.

  Returns:
    model: the name in the catalog, or the name of the folder; source: the URLs
    in the record of download.py, empty for any other folder; weights: the path;
    sha256: {file: sum} of the weight files.
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
  """Returns {file: (lines or questions, published number)} of shorter files."""
  entry = {**catalog.DATA, **catalog.ELSEWHERE}.get(row.data)
  fewer = {}
  for name, published in (entry.rows if entry else {}).items():
    path = pathlib.Path(folder, name)
    if path.exists():
      # Count questions in a SQuAD file, and lines in others, with the header.
      unit = rb'"question"\s*:' if path.suffix == ".json" else rb"\n"
      found = len(re.findall(unit, path.read_bytes()))
      # A few missing rows are ignored: versions of a data set differ by them.
      if found < 0.99 * published:
        fewer[name] = (found, published)
  return fewer


def machine() -> str:
  """Returns a text with the processor, its usable cores, and the GPUs."""
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
  """Returns {name: number} from the eval_results.txt in a folder.

  Raises InputError: the file is missing.
  """
  path = pathlib.Path(folder, "eval_results.txt")
  if not path.exists():
    raise errors.InputError(f"{path} is missing: the script did not evaluate")
  lines = path.read_text(encoding="utf-8").splitlines()
  # After the score of one of two classes comes the name of that class.
  return {
    name.strip(): float(value.split()[0])
    for name, _, value in (line.partition(" = ") for line in lines)
  }


def read_search(folder: str) -> list[tuple[dict, dict]]:
  """Returns (settings, scores) for each run of --search, the best run first.

  Settings are {flag: value as text}. Without search_results.tsv it returns [].
  """
  path = pathlib.Path(folder, "search_results.tsv")
  if not path.exists():
    return []
  header, *lines = (
    line.split("\t") for line in path.read_text("utf-8").splitlines()
  )
  # Flags come first, then scores, starting with the score for the ranking.
  count = next(
    n for n, name in enumerate(header) if name not in choices.SEARCHED
  )
  return [
    (dict(zip(header[:count], line)),
     dict(zip(header[count:], map(float, line[count:]))))
    for line in lines
  ]


def finished(output: str) -> list[dict]:
  """Returns the results of all finished runs in a folder, sorted by path.

  Raises InputError: an earlier version wrote a result, with fewer entries.
  """
  paths = sorted(pathlib.Path(output).glob(f"*/seed_*/{_RESULT}"))
  results = [json_files.read(str(path)) for path in paths]
  for path, result in zip(paths, results):
    if not {"before", "config"} <= result.keys():  # The newest entries.
      raise errors.InputError(
        f"{path} was written by an earlier version; move its folder away, and "
        "run the row again for a new result"
      )
  return results
