"""The folder of a run: whose it is, its checkpoints, where a run starts from.

  run_fingerprint.json              what kind of run the folder belongs to
  model.ckpt-20.index, .data-...    weights and optimizer state after step 20
  model.ckpt-20.commit              says that those two are whole
  checkpoint                        TensorFlow's note of which one is newest

A checkpoint counts only when its .commit file exists and the sizes and
checksums in there are right. That file is written last, when the others are
on the disk, so a run that is killed at any moment leaves a checkpoint that
counts or none. Paths with "://" work too, as far as TensorFlow knows them.
"""

import json
import os
import re
from typing import NamedTuple, Optional

import tensorflow as tf
from absl import logging

from checkpoints import weight_files
from common import errors, file_io, json_files

_FINGERPRINT = "run_fingerprint.json"
_TRAINED_WITH = "trained_with"  # A part of that file, see TrainedWith.
_NAME = re.compile(r"(model\.ckpt-(\d+))\.(index|commit|data-\d{5}-of-\d{5})$")
_TEMPORARY = re.compile(
  r"(model\.ckpt-\d+(\.commit)?|checkpoint|run_fingerprint\.json)\.tmp-[\w-]+"
)


class Commit(NamedTuple):
  """A checkpoint that was found whole.

  Attributes:
    prefix: "<folder>/model.ckpt-<step>".
    step: updates that were made.
    extra: the dict that `save` was given.
  """

  prefix: str
  step: int
  extra: dict


class TrainedWith(NamedTuple):
  """What starts of a run note of how they train; those that only evaluate none.

  Attributes:
    fixed: JSON-able dict of what must not change: the optimizer, ...
    watched: JSON-able dict of what hardly changes on purpose: the data, ...
  """

  fixed: dict
  watched: dict


class StartingPoint(NamedTuple):
  """Where the weights of a run come from.

  Attributes:
    kind: "resume", "init" or "random".
    path: prefix of the run's own checkpoint; the path given by the user; None.
    commit: the Commit to resume from, else None.
  """

  kind: str
  path: Optional[str]
  commit: Optional[Commit]


def starting_point(folder, init_checkpoint, trained_with=None):
  """Decides where a run starts from; the order is important.

  1. A whole checkpoint of this same run, in its folder.
  2. The checkpoint that the user gave.
  3. Random weights.

  Args:
    folder: the run's folder; it need not exist.
    init_checkpoint: path, or None or "".
    trained_with: TrainedWith or None; what is watched and differs from what
      the run began with is named, aloud.
  """
  commit = latest_committed(folder)
  if commit:
    logging.info("resuming from %s", commit.prefix)
    if init_checkpoint:
      logging.warning(
        "--init_checkpoint=%s is not used: the run goes on from %s",
        init_checkpoint, commit.prefix,
      )
    if trained_with:
      _name_changes(folder, trained_with.watched)
    return StartingPoint("resume", commit.prefix, commit)
  if init_checkpoint:
    logging.info("starting from the weights in %s", init_checkpoint)
    return StartingPoint("init", init_checkpoint, None)
  logging.warning("starting from random weights: no checkpoint was given")
  return StartingPoint("random", None, None)


def _name_changes(folder, watched):
  path = os.path.join(folder, _FINGERPRINT)
  if not tf.io.gfile.exists(path):
    return
  before = json_files.read(path).get(_TRAINED_WITH, {}).get("watched", {})
  for name in sorted(before.keys() & watched.keys()):
    if before[name] != watched[name]:
      logging.warning(
        "the run in %s began with %s=%s, and goes on with %s",
        folder, name, before[name], watched[name],
      )


def claim(folder, fingerprint, trained_with=None):
  """Makes a folder the one of this run, or finds that it already is.

  What a killed save of an earlier start left behind is removed.

  Args:
    folder: made where it does not exist.
    fingerprint: JSON-able dict of what must not change between two starts of
      one run: kind of run, task, model configuration, ...
    trained_with: TrainedWith, or None for a start that does not train; what
      is fixed must be as in the first start that trained.

  Raises:
    InputError: the folder belongs to another run (the first difference is
      named), or holds checkpoints of an unknown one.
  """
  path = os.path.join(folder, _FINGERPRINT)
  try:
    tf.io.gfile.makedirs(folder)
    steps = _steps(folder)
    if steps and tf.io.gfile.exists(path):
      _check_same_run(path, fingerprint, trained_with)
    elif steps:
      raise errors.InputError(
        f"{folder} holds model.ckpt-{steps[0]} but no {_FINGERPRINT}: it "
        "belongs to another program; give another --output_dir, and this one "
        "as --init_checkpoint to start from its weights"
      )
    else:
      # Nothing was saved by whoever was here before: the folder is free.
      noted = {_TRAINED_WITH: trained_with._asdict()} if trained_with else {}
      json_files.write(path, {**fingerprint, **noted})
    _remove_leftovers(folder)
  except tf.errors.OpError as error:
    raise errors.InputError(
      f"cannot use {folder} as the folder of a run: {error.message}"
    ) from error


def _remove_leftovers(folder):
  """Removes what a save that was cut short could not finish."""
  names = set(tf.io.gfile.listdir(folder))
  for name in sorted(names):
    match = _NAME.match(name)
    alone = match and not names & {
      f"{match.group(1)}.index", f"{match.group(1)}.commit"
    }
    if alone or _TEMPORARY.match(name):
      tf.io.gfile.remove(os.path.join(folder, name))


def _check_same_run(path, fingerprint, trained_with):
  theirs, ours = json_files.read(path), json_files.plain(fingerprint)
  noted = theirs.pop(_TRAINED_WITH, None)
  if noted and trained_with:
    theirs.update(noted["fixed"])
    ours.update(json_files.plain(trained_with.fixed))
  theirs, ours = _flat(theirs), _flat(ours)
  for key in sorted(theirs.keys() | ours.keys()):
    there, here = (json.dumps(d.get(key, "(absent)")) for d in (theirs, ours))
    if there != here:
      raise errors.InputError(
        f"{os.path.dirname(path)} belongs to another run: {key} is {there} "
        f"there and {here} now; give another --output_dir, or empty this one "
        "to start anew"
      )


def _flat(value, prefix=""):
  """{"model": {"hidden_size": 8}} -> {"model.hidden_size": 8}."""
  if not isinstance(value, dict):
    return {prefix: value}
  flat = {}
  for key, inner in value.items():
    flat.update(_flat(inner, f"{prefix}.{key}" if prefix else key))
  return flat


def save(folder, step, tensors, *, extra=None, max_to_keep=5):
  """Saves and commits a checkpoint, then removes the oldest ones.

  Args:
    folder: a folder that was claimed.
    step: updates made so far.
    tensors: dict from name to array, tensor or tf.Variable.
    extra: JSON-able dict to be found again in `latest_committed`.
    max_to_keep: how many checkpoints stay, this one included; 0 for all.

  Returns:
    The prefix of the checkpoint.

  Raises:
    InputError: it cannot be written, say for want of space. Earlier
      checkpoints are still there.
  """
  prefix = os.path.join(folder, f"model.ckpt-{step}")
  try:
    with weight_files.files_aside(prefix) as aside:
      weight_files.write_values(aside, tensors)
      # One of this step that is there already counts until the new one is
      # ready to take its place.
      _remove(f"{prefix}.commit")
    files = tf.io.gfile.glob(f"{prefix}.data-*") + [f"{prefix}.index"]
    marker = {
      "files": {os.path.basename(path): _summary(path) for path in files},
      "extra": extra or {},
    }
    json_files.write(f"{prefix}.commit", marker)
    kept = _remove_oldest(folder, int(step), max_to_keep)
    _write_state(folder, kept)
  except (errors.InputError, OSError, tf.errors.OpError) as error:
    raise errors.InputError(
      f"step {step} could not be saved in {folder}: "
      f"{weight_files.reason_of(error)}; the earlier checkpoints are kept: "
      "make room and run the same command again"
    ) from error
  return prefix


def _remove_oldest(folder, step, max_to_keep):
  """Returns the steps that stay, ascending; `step` is the last of them."""
  steps = [s for s in _steps(folder, "commit") if s <= step]
  gone = steps[max_to_keep:] if max_to_keep else []
  for old in gone:
    prefix = os.path.join(folder, f"model.ckpt-{old}")
    _remove(f"{prefix}.commit")
    _remove(f"{prefix}.index")
    for path in tf.io.gfile.glob(f"{prefix}.*"):
      _remove(path)
  return sorted(set(steps) - set(gone))


def _write_state(folder, steps):
  """Writes the file by which tf.train.latest_checkpoint finds the newest."""
  lines = [f'model_checkpoint_path: "model.ckpt-{steps[-1]}"\n']
  for step in steps:
    lines.append(f'all_model_checkpoint_paths: "model.ckpt-{step}"\n')
  file_io.write_text(os.path.join(folder, "checkpoint"), "".join(lines))


def latest_committed(folder):
  """Returns the Commit of the newest checkpoint that is whole, or None.

  Newer ones that are not are passed over, aloud.
  """
  for step in _steps(folder):
    prefix = os.path.join(folder, f"model.ckpt-{step}")
    try:
      if not tf.io.gfile.exists(f"{prefix}.commit"):
        raise errors.InputError("it was never finished: no .commit file")
      marker = json_files.read(f"{prefix}.commit")
      _check_files(folder, marker.get("files"))
      return Commit(prefix, step, marker.get("extra"))
    except errors.InputError as error:
      logging.warning("passing over %s: %s", prefix, error)
  return None


def _steps(folder, kind=""):
  """Steps of which the folder has a file (of this kind), the newest first."""
  if not tf.io.gfile.isdir(folder):
    return []
  found = map(_NAME.match, tf.io.gfile.listdir(folder))
  steps = {int(m.group(2)) for m in found if m and m.group(3).startswith(kind)}
  return sorted(steps, reverse=True)


def _check_files(folder, files):
  """Raises InputError if a file is not as the commit marker says."""
  if not files:
    raise errors.InputError("its .commit file names no files")
  for name, expected in files.items():
    path = os.path.join(folder, name)
    if not tf.io.gfile.exists(path):
      raise errors.InputError(f"{name} is missing")
    found_bytes = tf.io.gfile.stat(path).length
    if found_bytes != expected["bytes"]:
      raise errors.InputError(
        f"{name} has {found_bytes} bytes instead of {expected['bytes']}"
      )
    if _summary(path) != expected:
      raise errors.InputError(f"the checksum of {name} is wrong")


def _summary(path):
  """Size and SHA-256 of a file."""
  size, digest = file_io.size_and_sha256(path)
  return {"bytes": size, "sha256": digest}


def _remove(path):
  if tf.io.gfile.exists(path):
    tf.io.gfile.remove(path)
