"""The folder of a run: whose it is, its checkpoints, where a run starts from.

  run_fingerprint.json              what kind of run the folder belongs to
  model.ckpt-20.index, .data-...    weights and optimizer state after step 20
  model.ckpt-20.commit              says that those two are whole
  checkpoint                        TensorFlow's note of which one is newest

  run.lock                          the process that trains here, or did last

A checkpoint of ours counts only when its .commit file exists and the sizes and
checksums in there are right, its own too. That file is written last, when the
others are on the disk, so a kill at any moment leaves a checkpoint that counts
or none. Paths with "://" work too, as far as TensorFlow knows them.

The original's checkpoints have no .commit file. They count when its own file
`checkpoint` names them and all their values can be read: a run of the original
continues here, and one of ours that the original continued does so at the
newest step. The first checkpoint that is saved here gives them .commit files.

Only a start that trains locks the folder. One that evaluates or predicts next
to a training reads whole checkpoints and removes nothing.
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
_TRAINED_WITH = "trained_with"  # A part of that file, see TrainedWith.
_NAME = re.compile(r"(model\.ckpt-(\d+))\.(index|commit|data-\d{5}-of-\d{5})$")
_TEMPORARY = re.compile(
  r"(model\.ckpt-\d+(\.commit)?|checkpoint|run_fingerprint\.json)\.tmp-[\w-]+"
)
# The first line of our file `checkpoint`. Where it is absent, another program
# was the last to save here. TensorFlow skips such lines.
_OURS = "# A checkpoint counts only with its .commit file.\n"

# Folder -> content of the fingerprint, where there are checkpoints of another
# program: only loading them shows whether they are of this model. It is written
# with the first checkpoint.
_unwritten_fingerprints: dict[str, str] = {}


class TrainedWith(NamedTuple):
  """The settings that a run records when it starts, as JSON can hold them."""

  fixed: dict  # Must not change: the optimizer, ...
  watched: dict  # Seldom changes on purpose: the data, ...


class StartingPoint(NamedTuple):
  """Where the weights of a run come from.

  Attributes:
    origin: "resume", "init" or "random".
    path: prefix of the run's own checkpoint, "<folder>/model.ckpt-<step>"; the
      path given by the user; None.
    own_step: how many updates this run has made.
    extra: the dict that `save` was given with the run's own checkpoint.
  """

  origin: str
  path: str | None = None
  own_step: int = 0
  extra: dict = {}

  @property
  def step(self) -> int:
    """How many steps the weights were trained for; see weight_files.step_of.

    If the run trains the weights of --init_checkpoint, its steps begin at 0.
    """
    is_init = self.origin == "init"
    return weight_files.step_of(self.path) if is_init else self.own_step


def starting_point(
  folder: str | None, init_checkpoint: str | None,
  trained_with: TrainedWith | None = None
) -> StartingPoint:
  """Decides where a run starts from; the order is important.

  1. The newest whole checkpoint in its folder, which `check_output_dir` has
     found to be this run's. Watched settings that differ from the run's first
     settings are logged.
  2. The checkpoint that the user gave.
  3. Random weights.
  """
  checkpoint = newest_checkpoint(folder) if folder else None
  if checkpoint:
    _log_resumption(checkpoint, init_checkpoint)
    if trained_with:
      _name_changes(folder, trained_with.watched)
    return checkpoint
  if init_checkpoint:
    logging.info("starting from the weights in %s", init_checkpoint)
    return StartingPoint("init", init_checkpoint)
  logging.warning("starting from random weights: no checkpoint was given")
  return StartingPoint("random")


def _log_resumption(checkpoint, init_checkpoint):
  logging.info("resuming from %s", checkpoint.path)
  if not tf.io.gfile.exists(f"{checkpoint.path}.commit"):
    logging.info(
      "it was written by another program, such as the original BERT: its names "
      "and shapes are checked, then the run continues at its step %d",
      checkpoint.step,
    )
  if init_checkpoint:
    logging.warning(
      "--init_checkpoint=%s is not used: the run goes on from %s",
      init_checkpoint, checkpoint.path,
    )


def _name_changes(folder, watched):
  noted = (_read_fingerprint(folder) or {}).get(_TRAINED_WITH)
  before = noted["watched"] if noted else {}
  for name in sorted(before.keys() & watched.keys()):
    if before[name] != watched[name]:
      logging.warning(
        "the run in %s began with %s=%s, and goes on with %s",
        folder, name, before[name], watched[name],
      )


def check_output_dir(
  folder: str, fingerprint: dict, trained_with: TrainedWith | None = None
) -> None:
  """Makes a folder, or finds that it is there, for one run.

  A start that trains locks it until the process ends, and removes what killed
  processes of the run left behind. Raises InputError: the folder belongs to
  another run (the first difference is named), holds checkpoints of an unknown
  one, or another process trains there.

  Args:
    fingerprint: what must not change between two starts of one run: kind of
      run, task, model configuration, ...; JSON can hold it.
    trained_with: None for a start that does not train.
  """
  try:
    tf.io.gfile.makedirs(folder)
    _check_owner(folder, fingerprint, trained_with)
    if trained_with:
      folder_lock.acquire(folder)
      # Once more: before the lock another run may have begun and ended here.
      is_noted = _check_owner(folder, fingerprint, trained_with)
      _remove_leftovers(folder)
      if not is_noted:
        _note_owner(folder, fingerprint, trained_with)
  except (OSError, tf.errors.OpError) as error:
    raise errors.InputError(
      f"cannot use {folder} as the folder of a run: "
      f"{weight_files.reason_of(error)}"
    ) from error


def _check_owner(folder, fingerprint, trained_with):
  """Whether the checkpoints in a folder are known to be of this run.

  Raises InputError: they are of another one.
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
      "file `checkpoint` of the original names it: it belongs to another "
      "program; give another --output_dir, and this one as --init_checkpoint "
      "to start from its weights"
    )
  return False


def _read_fingerprint(folder):
  """Returns the fingerprint; None with a warning if it is unusable."""
  path = os.path.join(folder, _FINGERPRINT)
  if not tf.io.gfile.exists(path):
    return None
  try:
    values = json_files.read_sealed(path)
    noted = json_files.field(values, _TRAINED_WITH, dict, path, {})
    for name in TrainedWith._fields if noted else ():
      json_files.field(noted, name, dict, path)
    return values
  except errors.InputError as error:
    logging.warning(
      "%s; whose run this is cannot be told: it goes on if its weights fit",
      error,
    )
  return None


def _note_owner(folder, fingerprint, trained_with):
  """Writes the fingerprint, now or with the first checkpoint."""
  content = {**fingerprint, _TRAINED_WITH: trained_with._asdict()}
  if _steps(folder):
    _unwritten_fingerprints[folder] = content
  else:
    # Nothing was saved by whoever was here before: the folder is free.
    json_files.write_sealed(os.path.join(folder, _FINGERPRINT), content)


def _remove_leftovers(folder):
  """Removes what killed processes could not finish, if none runs here."""
  names = set(tf.io.gfile.listdir(folder))
  for name in sorted(names):
    match = _NAME.match(name)
    # A checkpoint of another program may be in the making.
    alone = match and not _foreign_steps(folder) and not names & {
      f"{match[1]}.index", f"{match[1]}.commit"
    }
    if alone or _TEMPORARY.match(name):
      file_io.remove(os.path.join(folder, name))


def _check_same_run(folder, stored, fingerprint, trained_with):
  current = json_files.plain(fingerprint)
  noted = stored.pop(_TRAINED_WITH, None)
  if noted and trained_with:
    stored.update(noted["fixed"])
    current.update(json_files.plain(trained_with.fixed))
  # Flat, so that the error can name one field of a configuration.
  stored, current = _flat(stored), _flat(current)
  for key in sorted(stored.keys() | current.keys()):
    # As JSON, in which the two can differ only visibly.
    there, here = (
      json.dumps(d.get(key, "(absent)")) for d in (stored, current)
    )
    if there != here:
      raise errors.InputError(
        f"{folder} belongs to another run: {key[1:]} is {there} there and "
        f"{here} now; give another --output_dir, or empty this one"
      )


def _flat(value, prefix=""):
  """{"model": {"hidden_size": 8}} -> {".model.hidden_size": 8}"""
  if not isinstance(value, dict):
    return {prefix: value}
  parts = [_flat(inner, f"{prefix}.{key}") for key, inner in value.items()]
  return {key: inner for part in parts for key, inner in part.items()}


def save(
  folder: str, step: int, tensors: dict, *, extra: dict | None = None,
  max_to_keep: int = 5
) -> str:
  """Saves and commits a checkpoint, removes the oldest; returns its prefix.

  Raises InputError: it cannot be written, say for want of space. Earlier
  checkpoints are still there.

  Args:
    folder: a folder of `check_output_dir`.
    step: updates made so far.
    tensors: name to array, tensor or tf.Variable.
    extra: to be found again in `newest_checkpoint`; JSON can hold it.
    max_to_keep: how many checkpoints stay, this one included; 0 for all.
  """
  prefix = os.path.join(folder, f"model.ckpt-{step}")
  try:
    _adopt_foreign(folder)
    with weight_files.temporary_prefix(prefix) as temporary:
      weight_files.write_values(temporary, tensors)
      # One of this step that is there already counts until the new one is
      # ready to take its place.
      file_io.remove(f"{prefix}.commit")
    # In this order: until the commit is written, the older ones are all there
    # is; they are removed after it.
    _commit(prefix, extra or {})
    kept = _remove_oldest(folder, int(step), max_to_keep)
    _write_state(folder, kept)
  except (errors.InputError, OSError, tf.errors.OpError) as error:
    raise errors.InputError(
      f"step {step} could not be saved in {folder}: "
      f"{weight_files.reason_of(error)}; the earlier checkpoints are kept: "
      "make room and run the same command again"
    ) from error
  return prefix


def _commit(prefix, extra):
  """Writes the file that says that a checkpoint is whole."""
  files = [f for f in weight_files.files_of(prefix) if f[-5:] != ".meta"]
  marker = {
    "files": {os.path.basename(path): _summary(path) for path in files},
    "extra": extra,
  }
  json_files.write_sealed(f"{prefix}.commit", marker)


def _read_commit(path):
  """Returns the content of a .commit file.

  Raises InputError: it is damaged.
  """
  marker = json_files.read_sealed(path)
  json_files.field(marker, "extra", dict, path, {})
  if not json_files.field(marker, "files", dict[str, dict], path, {}):
    raise errors.InputError("its .commit file names no files")
  for summary in marker["files"].values():
    json_files.field(summary, "bytes", int, path)
  return marker


def _adopt_foreign(folder):
  """Makes checkpoints of another program ours, before one of ours is saved.

  From now on the file `checkpoint` is ours, and says nothing about them.
  """
  for step in _foreign_steps(folder):
    prefix = os.path.join(folder, f"model.ckpt-{step}")
    if not tf.io.gfile.exists(f"{prefix}.commit"):
      with contextlib.suppress(errors.InputError):  # One that is damaged.
        _check_foreign(prefix, step)
        _commit(prefix, {})
  fingerprint = _unwritten_fingerprints.pop(folder, None)
  if fingerprint:
    json_files.write_sealed(os.path.join(folder, _FINGERPRINT), fingerprint)


def _remove_oldest(folder, step, max_to_keep):
  """Returns the steps that stay, ascending; `step` is the last of them."""
  # Newer checkpoints are damaged: the run would have resumed from them.
  steps = [s for s in _steps(folder, "commit") if s <= step]
  gone = steps[max_to_keep:] if max_to_keep else []
  for old in gone:
    prefix = os.path.join(folder, f"model.ckpt-{old}")
    # The commit and the index first: a checkpoint that is half removed must
    # not count, and what is left of it goes with the next start.
    for path in [f"{prefix}.commit", *reversed(weight_files.files_of(prefix))]:
      file_io.remove(path)
  return sorted(set(steps) - set(gone))


def _write_state(folder, steps):
  """Writes the file by which tf.train.latest_checkpoint finds the newest."""
  lines = [f'model_checkpoint_path: "model.ckpt-{steps[-1]}"\n']
  lines += [f'all_model_checkpoint_paths: "model.ckpt-{n}"\n' for n in steps]
  file_io.write_text(os.path.join(folder, "checkpoint"), _OURS + "".join(lines))


def newest_checkpoint(folder: str) -> StartingPoint | None:
  """Returns the newest checkpoint that is whole, whoever wrote it.

  Newer ones that are not whole are skipped, with a warning.
  """
  foreign = _foreign_steps(folder)
  for step in sorted({*_steps(folder), *foreign}, reverse=True):
    prefix = os.path.join(folder, f"model.ckpt-{step}")
    try:
      if tf.io.gfile.exists(f"{prefix}.commit"):
        marker = _read_commit(f"{prefix}.commit")
        _check_files(folder, marker["files"])
        extra = marker.get("extra") or {}
        return StartingPoint("resume", prefix, step, extra)
      if step not in foreign:
        raise errors.InputError("it was never finished: no .commit file")
      _check_foreign(prefix, step)
      return StartingPoint("resume", prefix, step)
    except errors.InputError as error:
      logging.warning("skipping %s: %s", prefix, error)
  return None


def _foreign_steps(folder):
  """Returns the steps that the file `checkpoint` of another program names."""
  path = os.path.join(folder, "checkpoint")
  if not tf.io.gfile.exists(path):
    return set()
  with tf.io.gfile.GFile(path, "rb") as stream:
    text = stream.read().decode("utf-8", "replace")
  if text.startswith(_OURS):
    return set()
  # The paths may be absolute, of the machine where the original ran.
  named = re.findall(r'_paths?: "(?:[^"]*/)?model\.ckpt-(\d+)"', text)
  return set(map(int, named))


def _check_foreign(prefix, step):
  """Raises InputError if a checkpoint without a .commit file is not whole."""
  reader = weight_files.open_reader(prefix)
  if "global_step" not in reader.shapes:
    raise errors.InputError("it is no training checkpoint: no global_step")
  for name in reader.shapes:
    reader.read(name)  # Its checksum is checked.
  stored_step = int(reader.read("global_step"))
  if stored_step != step:
    raise errors.InputError(f"its global_step is {stored_step}")


def _steps(folder, suffix=""):
  """Steps of which the folder has a file (of this suffix), newest first."""
  if not tf.io.gfile.isdir(folder):
    return []
  matches = map(_NAME.match, tf.io.gfile.listdir(folder))
  steps = {int(m[2]) for m in matches if m and m[3].startswith(suffix)}
  return sorted(steps, reverse=True)


def _check_files(folder, files):
  """Raises InputError if a file is not as the commit marker says."""
  for name, expected in files.items():
    summary = _summary(os.path.join(folder, name))
    if summary["bytes"] != expected["bytes"]:
      raise errors.InputError(
        f"{name} has {summary['bytes']} bytes instead of {expected['bytes']}"
      )
    if summary != expected:
      raise errors.InputError(f"the checksum of {name} is wrong")


def _summary(path):
  size, digest = file_io.size_and_sha256(path)
  return {"bytes": size, "sha256": digest}
