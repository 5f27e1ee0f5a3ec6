"""Checks the files that a command's flags name.

Refuses missing inputs, and outputs that would overwrite an input.
"""

import glob
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from common import errors, file_io, run_settings

# Flags that name input files, besides those that end in _file. So the flags of
# extensions need no entry here.
_INPUTS = ("add_tokens", "search")
_OUTPUTS = ("output_file", "attention_html")
# {pattern of files that scripts write to --output_dir: flag that writes them}
_WRITTEN = {
  r"((test_|nbest_)?predictions|test_results|null_odds).*": "do_predict",
  r"(eval_|seeds_|search_).*": "do_eval",
}


def refuse_missing(values: Mapping[str, Any]) -> None:
  """Refuses flags that name a missing local file.

  Args:
    values: values of flags by name.

  Raises:
    InputError: a file is missing, or is "-".
  """
  for flag, value in _inputs(values):
    if value == "-":
      raise errors.InputError(
        f"--{flag}=-: only --text=- (--question=- of run_squad.py) reads "
        "standard input; name a file"
      )
    for name in [value] if os.path.exists(value) else value.split(","):
      name = name.strip()
      if file_io.is_remote(name):
        continue  # Its reader checks it: TensorFlow is not imported yet.
      if set(name) & set("*?["):
        file_io.expand_file_patterns(name)
        continue
      # Records may be named by the prefix of their shards or manifest.
      prefix = name.removesuffix(".gz")
      shards = glob.escape(prefix) + "-*-of-*"
      if not (
        any(map(file_io.exists, (name, f"{prefix}.manifest.json")))
        or glob.glob(shards)
      ):
        raise errors.InputError(f"no such file: {name}")


def refuse(settings: run_settings.Settings) -> None:
  """Refuses an output that is also an input, or is named twice.

  Links and other spellings of a path count as the same file.

  Raises:
    InputError: there is such an output; the message names it and its flags.
  """
  read = dict(_files_read(settings))
  for name in _OUTPUTS:
    seen: dict[Any, str] = {}
    for path in filter(None, (settings.get(name) or "").split(",")):
      key = _identity(path.strip())
      if key in read:
        raise errors.InputError(
          f"--{name}={path} is a file that --{read[key]} reads, and would be "
          "overwritten; name another file"
        )
      if key in seen:
        raise errors.InputError(
          f"--{name}: {path} and {seen[key]} are the same file; name it once"
        )
      seen[key] = path
  _refuse_in_output_dir(settings)


def _inputs(values) -> Iterator[tuple[str, str]]:
  """Yields (name, value) of the flags that name files."""
  for name in values:
    is_file = name.endswith("_file") and name not in _OUTPUTS
    value = values.get(name)
    if (is_file or name in _INPUTS) and isinstance(value, str) and value:
      yield name, value


def _files_read(settings: run_settings.Settings) -> Iterator[tuple]:
  """Yields (identity, name of the flag) of each input file.

  All files in a model's folder count as input files.
  """
  folders = [n for n in settings if n == "model_dir" or "_checkpoint" in n]
  for name in folders:
    folder = settings.get(name)
    folder = folder if isinstance(folder, str) else ""
    for file in os.listdir(folder) if os.path.isdir(folder) else ():
      yield _identity(os.path.join(folder, file)), name
  for name, value in _inputs(settings):
    try:
      paths = file_io.expand_file_patterns(value)
    except errors.InputError:
      continue  # The script reports the missing file.
    for path in paths:
      yield _identity(path), name


def _identity(path: str):
  """Returns a value that all names of a file share, including hard links."""
  if file_io.is_remote(path):
    return path
  if os.path.exists(path):
    status = os.stat(path)
    return status.st_dev, status.st_ino
  return os.path.realpath(path)


def _refuse_in_output_dir(settings: run_settings.Settings) -> None:
  """Refuses input files that the script itself would write to --output_dir."""
  folder = settings.get("output_dir")
  if not folder:
    return
  for flag in ("train_file", "eval_file", "predict_file"):
    path = settings.get(flag) or ""
    if not path or _identity(os.path.dirname(path) or ".") != _identity(folder):
      continue
    for pattern, writer in _WRITTEN.items():
      name = os.path.basename(os.path.realpath(path))
      if settings.get(writer) and re.fullmatch(pattern, name):
        raise errors.InputError(
          f"--{flag}={path} is a file that --{writer} writes to --output_dir; "
          "name another --output_dir, or copy the file"
        )
