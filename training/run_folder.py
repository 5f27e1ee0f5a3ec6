"""Manages a run's folder: its owner, its checkpoints, its starting point.

  run_fingerprint.json              identifies the run that owns the folder
  model.ckpt-20.index, .data-...    weights and optimizer state after step 20
  model.ckpt-20.commit              marks these two files as complete
  checkpoint                        TensorFlow's list of the checkpoints
  run.lock                          names the last process that trained here

A checkpoint of this project is valid only if it has a .commit file whose sizes
and checksums match, including the checksum of the .commit file itself. That
file is written last, after the others are on the disk, so a kill leaves a valid
checkpoint or none. Paths with "://" work if TensorFlow supports them.

The original's checkpoints have no .commit file. They are valid if the
original's file `checkpoint` names them and all their tensors can be read. So
both programs can continue each other's runs at the newest step. Before this
project saves its first checkpoint there, it adds the missing .commit files.

Only a process that trains locks the folder. A process that evaluates or
predicts during training reads complete checkpoints and removes nothing.
"""

import contextlib
import json
import os
import re
from typing import NamedTuple

import tensorflow as tf
from absl import logging

from checkpoints import weight_files
from common import errors, file_io, folder_lock, json_files

_FINGERPRINT = "run_fingerprint.json"
_TRAINED_WITH = "trained_with"  # A key in that file, see TrainedWith.
_NAME = re.compile(r"(model\.ckpt-(\d+))\.(index|commit|data-\d{5}-of-\d{5})$")
_TEMPORARY = re.compile(
  r"(model\.ckpt-\d+(\.commit)?|checkpoint|run_fingerprint\.json)\.tmp-[\w-]+"
  r"|model\.ckpt-\d+\.earlier\."
)
# This project writes this first line into the file `checkpoint`; TensorFlow
# skips the line. If it is absent, another program saved here last.
_HEAD = "# A checkpoint counts only with its .commit file.\n"
_STATE = "checkpoint"

# {folder: fingerprint} for folders whose checkpoints have no valid fingerprint,
# such as another program's. It is written with this run's first checkpoint,
# because only loading the earlier ones shows whether they fit the model.
_unwritten_fingerprints: dict[str, dict] = {}


class TrainedWith(NamedTuple):
  """The settings that a run records when it starts, in JSON types."""

  fixed: dict  # Must not change: the optimizer, ...
  watched: dict  # A change is logged, since it may be a mistake: the data, ...


class StartingPoint(NamedTuple):
  """Where the weights of a run come from.

  Attributes:
    origin: "resume", "init" or "random".
    path: for "resume", the prefix "<folder>/model.ckpt-<step>" of the run's
      checkpoint; for "init", the path that the user gave; for "random", None.
    own_step: the number of steps that this run has taken.
    extra: the dict that was passed to `save` with the run's checkpoint.
  """

  origin: str
  path: str | None = None
  own_step: int = 0
  extra: dict = {}

  @property
  def step(self) -> int:
    """The number of steps that trained the weights; see weight_files.step_of.

    A run that trains from --init_checkpoint counts its own steps from 0.
    """
    if self.origin == "init" and self.path:
      return weight_files.step_of(self.path)
    return self.own_step


def starting_point(
  folder: str,
  init_checkpoint: str | None,
  trained_with: TrainedWith | None = None,
) -> StartingPoint:
  """Returns where a run starts: the first of these points that exists.

  1. The newest complete checkpoint in the folder. The folder must have passed
     `check_output_dir`. Changes of watched settings since the run began are
     logged.
  2. The checkpoint that the user gave.
  3. Random weights.
  """
  if checkpoint := newest_checkpoint(folder):
    _log_resumption(checkpoint, init_checkpoint)
    if trained_with:
      _warn_of_changes(folder, trained_with.watched)
    return checkpoint
  if init_checkpoint:
    logging.info("starting from the weights in %s", init_checkpoint)
    return StartingPoint("init", init_checkpoint)
  logging.warning("starting from random weights: no checkpoint was given")
  return StartingPoint("random")


def _log_resumption(checkpoint, init_checkpoint) -> None:
  logging.info("resuming from %s", checkpoint.path)
  if not tf.io.gfile.exists(f"{checkpoint.path}.commit"):
    logging.info(
      "another program, such as google-research/bert, wrote this checkpoint: "
      "names and shapes are checked, then the run continues at step %d",
      checkpoint.step,
    )
  if init_checkpoint:
    logging.warning(
      "--init_checkpoint=%s is not used: the run continues from %s",
      init_checkpoint,
      checkpoint.path,
    )


def _warn_of_changes(folder: str, watched) -> None:
  stored = _read_fingerprint(folder)
  before = (stored or {}).get(_TRAINED_WITH, {}).get("watched", {})
  for name in sorted(before.keys() & watched.keys()):
    if before[name] != watched[name]:
      logging.warning(
        "the run in %s began with %s=%s, and continues with %s",
        folder,
        name,
        before[name],
        watched[name],
      )


def check_output_dir(
  folder: str, fingerprint: dict, trained_with: TrainedWith | None = None
) -> None:
  """Creates the folder of a run, or checks that it belongs to the run.

  A process that trains locks the folder until the process ends, and removes
  files that killed processes left behind. Raises InputError: the folder cannot
  be used, belongs to another run (the error names the first difference) or
  holds checkpoints of an unknown program; or another process trains there.

  Args:
    fingerprint: settings that must not change between two starts of a run, such
      as the task and the model's configuration, in JSON types.
    trained_with: None if the process does not train.
  """
  try:
    tf.io.gfile.makedirs(folder)
    _check_owner(folder, fingerprint, trained_with)
    if trained_with:
      folder_lock.acquire(folder)
      # Checked again: another run may have begun and ended before the lock.
      is_recorded = _check_owner(folder, fingerprint, trained_with)
      _remove_leftovers(folder)
      _repair_state(folder)
      if not is_recorded:
        _record_owner(folder, fingerprint, trained_with)
  except (OSError, tf.errors.OpError) as error:
    raise errors.InputError(
      f"cannot use {folder} as the folder of a run: {errors.reason_of(error)}"
    ) from error


def _check_owner(folder: str, fingerprint, trained_with):
  """Returns whether a fingerprint shows that checkpoints belong to this run.

  Raises InputError: they belong to another run or to another program.
  """
  steps = _steps(folder)
  if steps and tf.io.gfile.exists(os.path.join(folder, _FINGERPRINT)):
    stored = _read_fingerprint(folder)
    if stored:
      _check_same_run(folder, stored, fingerprint, trained_with)
    return bool(stored)
  if steps and not _foreign_steps(folder):
    raise errors.InputError(
      f"{folder} holds model.ckpt-{steps[0]} but no {_FINGERPRINT}, and no "
      "file `checkpoint` of google-research/bert names it: it belongs to "
      "another program; pass another --output_dir, and "
      f"--init_checkpoint={folder} to start from its weights"
    )
  return False


def _read_fingerprint(folder: str):
  """Returns the fingerprint; None with a warning if it is unusable."""
  path = os.path.join(folder, _FINGERPRINT)
  if not tf.io.gfile.exists(path):
    return None
  try:
    values = json_files.read_sealed(path)
    settings = json_files.field(values, _TRAINED_WITH, dict, path, {})
    for name in TrainedWith._fields if settings else ():
      json_files.field(settings, name, dict, path)
    return values
  except errors.InputError as error:
    logging.warning(
      "%s; the owner of this folder is unknown: the run continues if the "
      "checkpoint's weights fit",
      error,
    )
  return None


def _record_owner(folder: str, fingerprint, trained_with) -> None:
  """Writes the fingerprint, now or with the first checkpoint."""
  content = {**fingerprint, _TRAINED_WITH: trained_with._asdict()}
  if _steps(folder):
    _unwritten_fingerprints[folder] = content
  else:
    # Without checkpoints, the folder belongs to no other run.
    json_files.write_sealed(os.path.join(folder, _FINGERPRINT), content)


def _remove_leftovers(folder: str) -> None:
  """Removes the unfinished files of killed processes; needs the lock."""
  names = set(tf.io.gfile.listdir(folder))
  # If another program uses the folder, it may be writing a checkpoint now.
  is_ours = not _foreign_steps(folder)
  # The index goes first: without it, no program reads the other files.
  for name in sorted(names, key=lambda name: (".index" not in name, name)):
    match = _NAME.match(name)
    is_partial = match and is_ours and f"{match[1]}.commit" not in names
    if match and is_partial and name.endswith(".index"):
      logging.warning(
        "removing %s, whose saving or removal was not finished",
        os.path.join(folder, match[1]),
      )
    if is_partial or _TEMPORARY.match(name):
      file_io.remove(os.path.join(folder, name))


def _repair_state(folder: str) -> None:
  """Writes the file `checkpoint` again if it lacks the last step saved here."""
  steps = sorted(_steps(folder, "commit"))
  if not steps or _foreign_steps(folder):
    return
  path = os.path.join(folder, _STATE)
  stored = b""
  if tf.io.gfile.exists(path):
    with tf.io.gfile.GFile(path, "rb") as stream:
      stored = stream.read()
  if stored != _state_of(steps).encode("utf-8"):
    logging.info("%s is written again: its last step is %d", path, steps[-1])
    with errors.by_product(path):
      _write_state(folder, steps)


def _check_same_run(folder: str, stored, fingerprint, trained_with) -> None:
  current = json_files.plain(fingerprint)
  stored_settings = stored.pop(_TRAINED_WITH, None)
  if stored_settings and trained_with:
    stored.update(stored_settings["fixed"])
    current.update(json_files.plain(trained_with.fixed))
  # With flat dicts, the error can name one field of a configuration.
  stored, current = _flat(stored), _flat(current)
  for key in sorted(stored.keys() | current.keys()):
    # Values are compared as JSON, because the error shows them as JSON.
    there, here = (
      json.dumps(d.get(key, "(absent)")) for d in (stored, current)
    )
    if there != here:
      raise errors.InputError(
        f"{folder} belongs to another run: {key[1:]} is {there} there and "
        f"{here} now; pass another --output_dir, or empty this one"
      )


def _flat(value, prefix: str = "") -> dict:
  """Returns {".a.b": 8} for {"a": {"b": 8}}."""
  if not isinstance(value, dict):
    return {prefix: value}
  parts = [_flat(inner, f"{prefix}.{key}") for key, inner in value.items()]
  return {key: inner for part in parts for key, inner in part.items()}


def save(
  folder: str,
  step: int,
  tensors: dict,
  *,
  extra: dict | None = None,
  max_to_keep: int = 5,
) -> str:
  """Saves a checkpoint, and removes the oldest ones; returns its prefix.

  Raises InputError: the checkpoint cannot be written, for example because the
  disk is full. Earlier checkpoints stay.

  Args:
    folder: a folder that `check_output_dir` has checked.
    step: the number of steps so far.
    tensors: {name: array, tensor or tf.Variable}.
    extra: a dict of JSON types, which `newest_checkpoint` returns.
    max_to_keep: number of checkpoints to keep, including this one; 0: all.
  """
  prefix = os.path.join(folder, f"model.ckpt-{step}")
  try:
    _adopt_foreign(folder)
    with weight_files.temporary_prefix(prefix) as temporary:
      weight_files.write_values(temporary, tensors)
      # An earlier checkpoint of this step stays valid until the new one is
      # ready to replace it.
      file_io.remove(f"{prefix}.commit")
    _commit(prefix, extra or {})
  except (errors.InputError, OSError, tf.errors.OpError) as error:
    raise errors.InputError(
      f"step {step} could not be saved in {folder}: "
      f"{errors.reason_of(error)}; the earlier checkpoints are kept: "
      "make room and run the same command again"
    ) from error
  _rotate(folder, int(step), max_to_keep)
  return prefix


def _rotate(folder: str, step, max_to_keep: int) -> None:
  """Lists a step that is complete, and then removes the oldest ones.

  Until the step is complete, only the older checkpoints are valid. Failures are
  warnings, since the step is saved; the next start repairs them.
  """
  # Later checkpoints must be damaged, since the run did not resume from them.
  steps = [s for s in _steps(folder, "commit") if s <= step]
  old_steps = steps[max_to_keep:] if max_to_keep else []
  kept = sorted(set(steps) - set(old_steps))
  for fault, action in (
    (
      "the file `checkpoint` does not name it",
      lambda: _write_state(folder, kept),
    ),
    ("older checkpoints stay", lambda: _remove(folder, old_steps)),
  ):
    try:
      action()
    except (errors.InputError, OSError, tf.errors.OpError) as error:
      logging.warning(
        "step %d is saved in %s, but %s (%s); the next start repairs this",
        step,
        folder,
        fault,
        errors.reason_of(error),
      )


def _commit(prefix: str, extra) -> None:
  """Writes the .commit file, which marks a checkpoint as complete."""
  files = [f for f in weight_files.files_of(prefix) if f[-5:] != ".meta"]
  marker = {
    "files": {os.path.basename(path): _summary(path) for path in files},
    "extra": extra,
  }
  json_files.write_sealed(f"{prefix}.commit", marker)


def _adopt_foreign(folder: str) -> None:
  """Adds .commit files to another program's checkpoints before the first save.

  Their file `checkpoint` makes them valid only until the save replaces it.
  """
  for step in _foreign_steps(folder):
    prefix = os.path.join(folder, f"model.ckpt-{step}")
    if not tf.io.gfile.exists(f"{prefix}.commit"):
      with contextlib.suppress(errors.InputError):  # Skips damaged ones.
        _check_foreign(prefix, step)
        _commit(prefix, {})
  fingerprint = _unwritten_fingerprints.pop(folder, None)
  if fingerprint:
    json_files.write_sealed(os.path.join(folder, _FINGERPRINT), fingerprint)


def _remove(folder: str, steps) -> None:
  """Removes checkpoints."""
  for step in steps:
    prefix = os.path.join(folder, f"model.ckpt-{step}")
    # The .commit file and the index are removed first: a checkpoint that lacks
    # files must not be valid, and the next start removes its other files.
    for path in [f"{prefix}.commit", *reversed(weight_files.files_of(prefix))]:
      file_io.remove(path)


def _write_state(folder: str, steps) -> None:
  """Writes the file that tf.train.latest_checkpoint reads."""
  file_io.write_text(os.path.join(folder, _STATE), _state_of(steps))


def _state_of(steps: list[int]) -> str:
  """Returns the text of the file `checkpoint` for ascending steps."""
  lines = [f'model_checkpoint_path: "model.ckpt-{steps[-1]}"\n']
  lines += [f'all_model_checkpoint_paths: "model.ckpt-{n}"\n' for n in steps]
  return _HEAD + "".join(lines)


def newest_checkpoint(folder: str) -> StartingPoint | None:
  """Returns the newest complete checkpoint of this or another program.

  Newer incomplete checkpoints are skipped with a warning.
  """
  foreign = _foreign_steps(folder)
  for step in sorted({*_steps(folder), *foreign}, reverse=True):
    prefix = os.path.join(folder, f"model.ckpt-{step}")
    try:
      if tf.io.gfile.exists(f"{prefix}.commit"):
        marker = json_files.read_sealed(f"{prefix}.commit")
        _check_files(folder, json_files.field(marker, "files", dict, prefix))
        return StartingPoint("resume", prefix, step, marker.get("extra", {}))
      if step not in foreign:
        raise errors.InputError("it was never finished: no .commit file")
      _check_foreign(prefix, step)
      return StartingPoint("resume", prefix, step)
    except errors.InputError as error:
      logging.warning("skipping %s: %s", prefix, error)
  return None


def _foreign_steps(folder: str) -> set:
  """Returns the steps that the file `checkpoint` of another program names."""
  path = os.path.join(folder, _STATE)
  if not tf.io.gfile.exists(path):
    return set()
  with tf.io.gfile.GFile(path, "rb") as stream:
    text = stream.read().decode("utf-8", "replace")
  if text.startswith(_HEAD):
    return set()
  # The paths may be absolute paths on another machine.
  steps = re.findall(r'_paths?: "(?:[^"]*/)?model\.ckpt-(\d+)"', text)
  return set(map(int, steps))


def _check_foreign(prefix: str, step) -> None:
  """Raises InputError if a checkpoint without a .commit file is invalid."""
  reader = weight_files.open_reader(prefix)
  if "global_step" not in reader.shapes:
    raise errors.InputError("it is not a training checkpoint: no global_step")
  for name in reader.shapes:
    reader.read(name)  # Reading checks the checksum.
  stored_step = int(reader.read("global_step"))
  if stored_step != step:
    raise errors.InputError(f"its global_step is {stored_step}")


def _steps(folder: str, suffix: str = "") -> list:
  """Returns the steps that have a file (with this suffix), newest first."""
  if not tf.io.gfile.isdir(folder):
    return []
  matches = map(_NAME.match, tf.io.gfile.listdir(folder))
  steps = {int(m[2]) for m in matches if m and m[3].startswith(suffix)}
  return sorted(steps, reverse=True)


def _check_files(folder: str, files: dict[str, dict]) -> None:
  """Raises InputError if a file differs from its entry in the .commit file."""
  for name, expected in files.items():
    summary = _summary(os.path.join(folder, name))
    if summary["bytes"] != expected["bytes"]:
      raise errors.InputError(
        f"{name} has {summary['bytes']} bytes instead of {expected['bytes']}"
      )
    if summary != expected:
      raise errors.InputError(f"the checksum of {name} is wrong")


def _summary(path: str) -> dict:
  size, digest = file_io.size_and_sha256(path)
  return {"bytes": size, "sha256": digest}
