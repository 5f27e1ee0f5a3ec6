"""Runs a row of rows.csv with its command and seeds, and stores the results.

A run's folder is OUTPUT/ROW/seed_N, which is the --output_dir of the row's
script. After the script has ended, the results are written to result.json in
this folder. A seed with this file is skipped. An interrupted run continues. No
TensorFlow is imported here.
"""

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

from common import errors, file_io, flag_values, json_files, process_pool
from reproduction import catalog, rows

_SCRIPTS = pathlib.Path(__file__).resolve().parents[1]
_RESULT = "result.json"
# Weight files of Hugging Face and TensorFlow.
_WEIGHTS = r"\.(safetensors|bin)$|\.data-\d+-of-\d+$"
# Verdicts on runs that deviate from the recipe, the most serious first.
SMOKE, CHANGED, OTHER, LESS_DATA = DEVIATIONS = (
  "smoke run",
  "recipe changed",
  "other weights",
  "less data",
)


class Plan(NamedTuple):
  """A row, and the settings to run it with."""

  row: rows.Row
  model: str  # Folder of the model; "" if an earlier run trains it.
  data: str  # Folder or files of the data.
  output: str  # Folder for all rows.
  max_steps: int = 0  # Steps of a smoke run; 0: a full run.
  extra: tuple[str, ...] = ()  # The user's flags, which change the recipe.

  def folder(self, seed: int) -> str:
    """Returns the folder of a seed's run."""
    return os.path.join(self.output, self.row.name, f"seed_{seed}")

  def folder_before(self, seed: int) -> str:
    """Returns the folder of the run from which a seed starts; "" for none.

    It is the run with the same seed, or with seed 1 if only that run has
    finished: several fine-tuning runs can start from one pre-training run.
    """
    if not self.row.after:
      return ""
    before = self._replace(row=rows.ROWS[self.row.after])
    folders = [before.folder(seed), before.folder(1)]
    done = (f for f in folders if os.path.exists(os.path.join(f, _RESULT)))
    return next(done, folders[0])


def find_model(row: rows.Row, folder: str | None) -> str:
  """Returns the folder of a row's model; "" if an earlier run trains it.

  `folder` is --model_dir: a model folder, or a folder with downloads. Raises
  InputError: the model is missing; the message says how to get it.
  """
  if row.is_chained:
    return ""
  for path in [os.path.join(folder, row.model), folder] if folder else []:
    if _config_in(path):
      return path
  raise errors.InputError(
    f"--row={row.name} needs {row.model}, but there is no model in --model_dir="
    f"{folder or '(not given)'}; {_download('model', row.model, folder)}"
    if row.model
    else f"--row={row.name} has no released model to start from: --model_dir "
    "must be a folder with bert_config.json and vocab.txt; weights are optional"
  )


def _download(flag: str, name: str | None, folder: str | None) -> str:
  return (
    f"download it: python download.py --{flag}={name} "
    f"--dir={folder or 'downloads'}"
  )


def _config_in(folder: str) -> str | None:
  names = ("bert_config.json", "config.json")
  paths = (os.path.join(folder, name) for name in names)
  return next(filter(os.path.exists, paths), None)


def find_data(row: rows.Row, folder: str | None) -> str:
  """Returns the folder of a row's data, or the paths of its record files.

  Raises InputError: the data is missing; the message says how to get it.
  """
  if not row.data:
    if folder:
      return folder
    raise errors.InputError(
      f"--row={row.name} needs your record files as --data_dir ({row.note})"
    )
  needed = {f.partition("{data}/")[2] for f in row.flags if "{data}/" in f}
  for path in [os.path.join(folder, row.data), folder] if folder else []:
    _, folders, files = next(os.walk(path), ("", [], []))
    # A folder without files is a folder of downloads, or XNLI's data folder.
    if needed <= {*files} and (files or "XNLI-1.0" in folders):
      return path
  advice = _download("data", row.data, folder)
  if row.data in catalog.ELSEWHERE:
    advice = catalog.ELSEWHERE[row.data].about
  raise errors.InputError(
    f"--row={row.name} needs the data {row.data}, which --data_dir="
    f"{folder or '(not given)'} does not have; {advice}"
  )


def command(plan: Plan, seed: int) -> list[str]:
  """Returns the command of a seed's run as a list for subprocess."""
  row, folder = plan.row, plan.folder(seed)
  model = os.path.join(plan.folder_before(seed), "final_model")
  flags = [
    flag.replace("{data}", plan.data)
    .replace("{output}", folder)
    .replace("{before}", model)
    for flag in row.flags
  ]
  if plan.max_steps and row.script == "run_pretraining.py":
    # The recipe's warm-up is longer than a smoke run. A run and the run that
    # continues it have the same --num_train_steps, and each takes half of them.
    flags += [
      f"--num_train_steps={2 * plan.max_steps}",
      "--num_warmup_steps=0",
      f"--stop_step={plan.max_steps * (2 if row.after else 1)}",
    ]
  elif plan.max_steps and "--do_train" in flags:
    flags.append(f"--max_train_steps={plan.max_steps}")
  if "--do_train" in flags:
    flags.append(f"--seed={seed}")
  return [
    sys.executable,
    str(_SCRIPTS / row.script),
    *_model_flags(plan.model),
    *flags,
    f"--output_dir={folder}",
    # The user's flags come last, because absl takes the last value of a flag.
    *plan.extra,
  ]


def _model_flags(folder: str):
  """Returns --model_dir, or the flags for a folder without weights."""
  if not folder:
    return []
  names = os.listdir(folder)
  # Pre-training rows can start from a configuration without weights.
  if any(name.endswith((".index", ".safetensors", ".bin")) for name in names):
    return [f"--model_dir={folder}"]
  flags = [f"--bert_config_file={_config_in(folder)}"]
  if "vocab.txt" in names:
    flags.append(f"--vocab_file={os.path.join(folder, 'vocab.txt')}")
  return flags


def run(plan: Plan, seed: int) -> None:
  """Runs a seed and writes its result.json, unless the file exists.

  Raises InputError: the script failed, or was stopped and can continue; the
  file is from another command; or an earlier row's run has not finished.
  """
  arguments, folder = command(plan, seed), plan.folder(seed)
  path = os.path.join(folder, _RESULT)
  if os.path.exists(path):
    old_command = json_files.read(path)["command"]
    # Ignore the interpreter, whose path depends on the environment.
    if old_command[1:] == arguments[1:]:
      return
    raise errors.InputError(
      f"{path} is from another command ({shlex.join(old_command)}); "
      "remove its folder, or choose another --output_dir"
    )
  before = plan.row.after and _read_before(plan, seed)
  if before and not (plan.row.is_chained or os.path.exists(folder)):
    _begin_after(plan, seed, before["results"]["global_step"])
  start = time.time()
  # Start a separate process, as a user would.
  code = _call(arguments)
  if code:
    raise errors.InputError(
      f"{os.path.basename(arguments[1])} ended with code {code}; see its "
      "message above, or run reproduce.py again to continue (the script's "
      f"command was {shlex.join(arguments)})"
    )
  grid, results = read_search(folder), {}
  if grid:
    results = grid[0][1]
  elif "--do_eval" in arguments:  # Else a server computes the scores.
    results = read_eval_results(folder)
  weights = _weights(plan, seed)
  json_files.write(
    path,
    {
      "row": plan.row.name,
      "seed": seed,
      **weights,
      "data": plan.data,
      "command": arguments,
      "results": results,
      "grid": grid,
      "deviations": _deviations(plan, weights, before),
      "seconds": round(time.time() - start, 1),  # Since the last start.
      "machine": machine(),
      "date": time.strftime("%Y-%m-%d"),
    },
  )


def _call(arguments: list[str]) -> int:
  """Runs a command and returns its exit code; SIGTERM ends both processes."""
  # The default action would end only this process.
  signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
  with subprocess.Popen(arguments) as child:
    try:
      return child.wait()
    finally:
      # On SIGTERM, a training script saves a checkpoint and ends.
      child.terminate()
      child.wait()


def _read_before(plan, seed: int):
  """Returns the result.json of the run from which a seed starts."""
  folder = plan.folder_before(seed)
  path = os.path.join(folder, _RESULT)
  if os.path.exists(path):
    return _read(path)
  raise errors.InputError(
    f"--row={plan.row.name} starts from the run in {folder}, which is not "
    f"finished; run --row={plan.row.after} first, with the same --output_dir"
  )


def _read(path: str):
  result = json_files.read(path)
  if "deviations" in result:
    return result
  raise errors.InputError(
    f"{path} was written by an earlier version; move its folder away, and run "
    "the row again for a new result"
  )


def _begin_after(plan, seed: int, step) -> None:
  """Creates a run's folder with the last checkpoint of an earlier row's run."""
  before = plan.folder_before(seed)
  with file_io.new_folder(plan.folder(seed)) as folder:
    for name in os.listdir(before):
      if name.startswith((f"model.ckpt-{step:.0f}.", "run_fingerprint.")):
        shutil.copy(os.path.join(before, name), folder)


def _weights(plan, seed: int) -> dict:
  """Returns the fields of result.json about a run's initial weights.

  model: the catalog's name in download.json, else the folder's name or, if an
  earlier row trained the model, this row's name; source: the URLs in
  download.json, [] without this file; weights: the path; sha256: {file: sum} of
  the weight files.
  """
  folder = plan.model or os.path.join(plan.folder_before(seed), "final_model")
  path, name = os.path.join(folder, "download.json"), os.path.normpath(folder)
  download = json_files.read(path) if os.path.exists(path) else {}
  model = download.get("name", os.path.basename(name))
  return {
    "model": plan.row.after if plan.row.is_chained else model,
    "weights": name,
    "source": download.get("files", []),
    "sha256": {
      file: file_io.size_and_sha256(os.path.join(folder, file))[1]
      for file in sorted(os.listdir(folder))
      if re.search(_WEIGHTS, file)
    },
  }


def _deviations(plan, weights, before) -> list:
  """Returns [(verdict, text)] for a run's deviations, most serious first."""
  row, deviations = plan.row, []
  if plan.max_steps:
    deviations.append((SMOKE, f"stopped after {plan.max_steps} steps"))
  if plan.extra:
    deviations.append((CHANGED, f"flags {shlex.join(plan.extra)}"))
  config = json_files.read(_config_in(plan.model) or "") if row.config else {}
  deviations += [
    (CHANGED, f"{name} {config.get(name)} instead of {value}")
    for name, value in row.config.items()
    if str(config.get(name)) != value
  ]
  # Trust the source that download.py recorded, not a folder's name.
  if row.model and (weights["model"] != row.model or not weights["source"]):
    sums = [f"{name} {value[:16]}" for name, value in weights["sha256"].items()]
    source = weights["source"] or ["a folder that download.py did not create"]
    text = f"weights {weights['weights']}, SHA-256: "
    text += f"{', '.join(sums) or 'unknown'}, source: {', '.join(source)}"
    deviations.append((OTHER, text))
  deviations += [(LESS_DATA, text) for text in fewer_rows(row, plan.data)]
  if before:
    deviations += [(v, f"{row.after}: {t}") for v, t in before["deviations"]]
  return sorted(deviations, key=lambda pair: DEVIATIONS.index(pair[0]))


def fewer_rows(row: rows.Row, folder: str) -> list[str]:
  """Describes each file that has fewer rows than the published file."""
  entry = {**catalog.DATA, **catalog.ELSEWHERE}.get(row.data)
  texts = []
  for name, published in (entry.rows if entry else {}).items():
    path = pathlib.Path(folder, name)
    if not path.exists():
      continue
    # Count the questions of SQuAD, and the lines of other files.
    unit, pattern = "lines", rb"\n"
    if path.suffix == ".json":
      unit, pattern = "questions", rb'"question"\s*:'
    count = len(re.findall(pattern, path.read_bytes()))
    # Allow 1 % fewer rows, because versions of a data set differ slightly.
    if count < 0.99 * published:
      texts.append(f"{name} with {count:,} of {published:,} {unit}")
  return texts


def machine() -> str:
  """Describes the processor, its usable cores, and the GPUs."""
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
  # A score for a single class is followed by the name of the class.
  return {
    name.strip(): float(value.split()[0])
    for name, _, value in (line.partition(" = ") for line in lines)
  }


def read_search(folder: str) -> list[tuple[dict, dict]]:
  """Returns (settings, scores) for each run of --search, the best run first.

  Settings are {flag: value as text}. Without search_results.tsv the list is [].
  """
  path = pathlib.Path(folder, "search_results.tsv")
  if not path.exists():
    return []
  text = path.read_text("utf-8")
  header, *lines = (line.split("\t") for line in text.splitlines())
  # The columns of the settings precede the columns of the scores.
  count = sum(name in flag_values.SEARCHED for name in header)
  names, scores = header[:count], header[count:]
  return [
    (dict(zip(names, line)), dict(zip(scores, map(float, line[count:]))))
    for line in lines
  ]


def finished(output: str) -> list[dict]:
  """Returns the results of all finished runs in a folder, sorted by path.

  Raises InputError: an earlier version of this project wrote a result.
  """
  paths = sorted(pathlib.Path(output).glob(f"*/seed_*/{_RESULT}"))
  return [_read(str(path)) for path in paths]
