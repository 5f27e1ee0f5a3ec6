"""Finds, reads and writes checkpoints, and loads them into variables.

A TensorFlow checkpoint consists of PREFIX.index (names, shapes, checksums) and
PREFIX.data-00000-of-00001 (the values, maybe in several shards).
The released checkpoints are name-based, as usual in TensorFlow 1: the key of a
value is the name of its variable. This project writes such checkpoints, too, so
the original can read them. A `.meta` file is not needed.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from absl import logging

import named_weights
from checkpoints import (
  hub_folder,
  huggingface,
  model_folder,
  model_garden,
  weight_names,
)
from common import errors, file_io, json_files

TF1 = "TensorFlow 1"

# Weights that some programs pad to a round number of rows.
_PADDED = re.compile(
  r"bert/embeddings/word_embeddings$|cls/predictions/output_bias$"
)
# Names of optimizer state, which `load` does not report as unused.
_OPTIMIZER_STATE = re.compile(
  r"/(adam_m|adam_v|lamb_m|lamb_v|Adam|Adam_1|LAMB|LAMB_1)$"
  r"|^(global_step|applied_updates|beta1_power|beta2_power|loss_scale/\w+)$"
)
_ADAPTER = "adapter_config.json"
# The end of a prefix whose checkpoint is being replaced, see `_commit`.
_EARLIER = ".earlier"
# TensorFlow writes the values to a .tempstate file first.
_SUFFIX = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5}(\.tempstate\d+)?)$")


Reader = weight_names.Reader


def open_reader(
  path: str, folder_of: Callable[[str], json_files.Folder] | None = None
) -> Reader:
  """Opens a checkpoint of any format; the reader uses TF1 names.

  Raises InputError: files are missing, damaged or not supported.

  Args:
    path: a TensorFlow checkpoint of the original, this project or Model Garden
      (see `find_prefix`), or Hugging Face's (see model_folder.weights_file).
    folder_of: function of a file; returns its folder, of which some files may
      have been read. None: json_files.folder_of.
  """
  file = model_folder.weights_file(path)
  if file:
    if file_io.exists(os.path.join(os.path.dirname(file), _ADAPTER)):
      errors.warn_once(
        f"{path}: the adapter of {_ADAPTER} is ignored; merge it in PEFT first"
      )
    folder = (folder_of or json_files.folder_of)(file)
    return huggingface.open_reader(path, file, folder)
  if hub_folder.is_one(path):
    prefix = hub_folder.weights_prefix(path)
    return hub_folder.describe(path, _open_tensorflow(prefix))
  return _open_tensorflow(find_prefix(path))


def _open_tensorflow(prefix: str) -> Reader:
  _check_all_shards_exist(prefix)
  with _errors_named(f"{prefix}.index is not a readable index"):
    opened = tf.compat.v1.train.NewCheckpointReader(
      file_io.literal_name(prefix)
    )
    shapes = opened.get_variable_to_shape_map()

  def read(name: str) -> np.ndarray:
    # This also verifies the checksum.
    with _errors_named(f"{prefix}: the value of {name} cannot be read"):
      return opened.get_tensor(name)

  reader = Reader(
    TF1,
    prefix,
    weight_names.of_tf1(shapes),
    shapes.__getitem__,
    read,
    folder=os.path.dirname(prefix),
  )
  if model_garden.GRAPH in shapes:
    return model_garden.from_bundle(reader)
  return reader


def step_of(path: str) -> int:
  """Returns the number of training steps of a model folder's weights, or 0.

  As in the original: the step of a checkpoint with optimizer state is ignored.
  """
  reader = open_reader(path)
  is_training = any(name.endswith("/adam_m") for name in reader.shapes)
  if is_training or "global_step" not in reader.shapes:
    return 0
  return int(reader.read("global_step"))


@contextlib.contextmanager
def _errors_named(problem: str) -> Iterator[None]:
  try:
    yield
  # The exception that TensorFlow raises depends on the damage to the file.
  except (tf.errors.OpError, ValueError, RuntimeError, IndexError) as error:
    raise errors.InputError(
      f"{problem} ({errors.reason_of(error)}); the file is damaged or "
      "truncated: copy it again or pass another checkpoint"
    ) from error


def find_prefix(path: str) -> str:
  """Returns the prefix of the checkpoint at a path.

  Raises InputError: no checkpoint, a Git LFS pointer, or an ambiguous path.

  Args:
    path: a prefix, a file of a checkpoint, or a folder. In a folder, the first
      match counts: bert_model.ckpt, the newest in the file "checkpoint" (by its
      name in this folder, else by its path), the only checkpoint, the highest
      model.ckpt-NUMBER.
  """
  # Accept the name of a file, because shells complete to file names.
  prefix = _SUFFIX.sub("", path)
  if tf.io.gfile.exists(f"{prefix}.index"):
    for file in files_of(prefix):
      file_io.refuse_pointer(file)
    return prefix
  if not prefix.endswith(_EARLIER) and _is_complete(prefix + _EARLIER):
    errors.warn_once(
      f"{prefix}: a process ended while it replaced these weights: the weights "
      f"of before are used, which are in {prefix}{_EARLIER}.*"
    )
    return prefix + _EARLIER
  if tf.io.gfile.isdir(path):
    return find_prefix(_prefix_in_folder(path))
  folder = os.path.dirname(path) or "."
  present = _prefixes(folder) if tf.io.gfile.isdir(folder) else []
  candidates = f"; {folder} has {', '.join(present)}" if present else ""
  raise errors.InputError(
    f"no checkpoint at {path}: there is no {prefix}.index{candidates}"
  )


def files_of(prefix: str) -> list[str]:
  """Returns the existing files of a checkpoint, its index last.

  The prefix is literal, while TensorFlow's functions treat * and [x] as
  patterns.
  """
  folder, start = os.path.split(prefix)
  if not tf.io.gfile.isdir(folder or "."):
    return []
  names = [
    name
    for name in tf.io.gfile.listdir(folder or ".")
    if name.startswith(start) and _SUFFIX.fullmatch(name[len(start) :])
  ]
  names.sort(key=lambda name: (name.endswith(".index"), name))
  return [os.path.join(folder, name) for name in names]


def _prefix_in_folder(folder: str) -> str:
  present = _prefixes(folder)
  if not present and file_io.exists(os.path.join(folder, _ADAPTER)):
    raise errors.InputError(
      f"{folder} has only a PEFT adapter, without its base model; merge both "
      "in PEFT (merge_and_unload), and save the whole model"
    )
  if not present:
    raise errors.InputError(
      f"no checkpoint in {folder}: it has no *.index, model.safetensors or "
      "pytorch_model.bin (for an exported network, the folder must also have "
      "export_saved_model.py's answers.json)"
    )
  if "bert_model.ckpt" in present:
    return os.path.join(folder, "bert_model.ckpt")
  # The file `checkpoint` may be damaged, or name a missing checkpoint.
  state = None
  with contextlib.suppress(ValueError):  # Includes UnicodeDecodeError.
    state = tf.train.get_checkpoint_state(folder)
  named = state.model_checkpoint_path if state else ""
  # In a copy of a folder, the file may name the original folder.
  for path in (os.path.join(folder, os.path.basename(named)), named):
    if named and tf.io.gfile.exists(f"{path}.index"):
      return path
  if len(present) == 1:
    return os.path.join(folder, present[0])
  if not all(re.fullmatch(r"model\.ckpt-\d+", name) for name in present):
    raise errors.InputError(
      f"{folder} has several checkpoints: {', '.join(present)}; pass one"
    )
  newest = max(present, key=lambda name: int(name.split("-")[1]))
  return os.path.join(folder, newest)


def _prefixes(folder: str) -> list[str]:
  """Returns the names of a folder's checkpoints without their suffix."""
  names = [n for n in tf.io.gfile.listdir(folder) if n.endswith(".index")]
  prefixes = {n.removesuffix(".index") for n in names if ".tmp-" not in n}
  return sorted({name.removesuffix(_EARLIER) for name in prefixes})


def _is_complete(prefix: str) -> bool:
  return tf.io.gfile.exists(f"{prefix}.index") and len(files_of(prefix)) > 1


def _check_all_shards_exist(prefix: str) -> None:
  """Raises InputError if one of PREFIX.data-00000-of-00002 ... is missing."""
  present = set(map(os.path.basename, files_of(prefix)))
  # The name of each shard ends with the total number of shards.
  count = max((int(n[-5:]) for n in present if n[-5:].isdecimal()), default=1)
  for shard in range(count):
    expected = f"{os.path.basename(prefix)}.data-{shard:05d}-of-{count:05d}"
    if expected not in present:
      raise errors.InputError(
        f"{expected} is missing next to {prefix}.index; copy all files of the "
        "checkpoint"
      )


def is_optimizer_state(name: str) -> bool:
  """Returns whether a name belongs to optimizer state, not to a weight."""
  return bool(_OPTIMIZER_STATE.search(name))


def without_slot(name: str) -> str:
  """Returns a name without the suffix of an optimizer moment (/adam_m)."""
  return _OPTIMIZER_STATE.sub("", name)


# Writing


def write_tf1(prefix: str, tensors: Mapping[str, npt.ArrayLike]) -> None:
  """Writes a checkpoint that the original and `open_reader` can read.

  The files depend only on the names and values. They get their final names when
  all are on the disk, the index last, so an incomplete checkpoint never has an
  index. An existing checkpoint is replaced. Raises InputError: the files cannot
  be written (the message has the reason).
  """
  with temporary_prefix(prefix) as temporary:
    write_values(temporary, tensors)


def write_values(prefix: str, tensors: Mapping[str, npt.ArrayLike]) -> None:
  """Writes the files of `write_tf1`; call it in a `temporary_prefix` block."""
  names = sorted(tensors)
  with tf.device("CPU:0"):
    # SaveV2 writes name-based values; tf.train.Checkpoint is object-based.
    tf.raw_ops.SaveV2(
      prefix=prefix,
      tensor_names=names,
      shape_and_slices=[""] * len(names),
      tensors=[tf.convert_to_tensor(tensors[name]) for name in names],
    )


@contextlib.contextmanager
def temporary_prefix(prefix: str) -> Iterator[str]:
  """Provides a temporary prefix for writing; renames its files at the end.

  If the block raises, the temporary files are removed, and the files of
  `prefix` do not change. Raises InputError: TensorFlow or the system cannot
  write them.
  """
  temporary = file_io.temporary_path(prefix)
  try:
    tf.io.gfile.makedirs(os.path.dirname(prefix) or ".")
    yield temporary
    _commit(temporary, prefix)
  except (tf.errors.OpError, OSError) as error:
    raise errors.unwritable(f"the checkpoint {prefix}", error) from error
  finally:
    _remove_files(temporary)


def _commit(temporary: str, prefix: str) -> None:
  """Renames the files of a complete checkpoint, the index last.

  The checkpoint that they replace stays readable: until the new one is
  complete, its files also have the names of `_EARLIER`, which `find_prefix`
  knows. If a renaming fails, it gets its names back.
  """
  files = files_of(temporary)
  if file_io.is_remote(prefix):
    _rename_all(temporary, prefix)
    return
  for path in files:
    file_io.sync(path)
  earlier = prefix + _EARLIER
  # Without an index, a killed process left the earlier files as the only ones.
  if _is_complete(prefix):
    _remove_files(earlier)
    for path in reversed(files_of(prefix)):
      _link(path, earlier + path.removeprefix(prefix))
  try:
    _rename_all(temporary, prefix)
  except BaseException:
    with contextlib.suppress(tf.errors.OpError):
      if _is_complete(earlier):
        _rename_all(earlier, prefix)
    raise
  finally:
    if _is_complete(prefix):
      _remove_files(earlier)
  file_io.sync(os.path.dirname(prefix) or ".")


def _rename_all(source: str, prefix: str) -> None:
  """Gives the files of a checkpoint another prefix, the index last."""
  files = files_of(source)
  # Remove the old index first. Otherwise, a program could read it together with
  # the new data.
  if files and tf.io.gfile.exists(f"{prefix}.index"):
    tf.io.gfile.remove(f"{prefix}.index")
  for path in files:
    suffix = path.removeprefix(source)
    tf.io.gfile.rename(path, prefix + suffix, overwrite=True)


def _link(path: str, name: str) -> None:
  """Gives a file a second name, or another one where links are impossible."""
  try:
    os.link(path, name)
  except OSError:
    os.replace(path, name)


def _remove_files(prefix: str) -> None:
  """Removes the files of a checkpoint, if that is possible."""
  with contextlib.suppress(tf.errors.OpError):
    for path in reversed(files_of(prefix)):
      tf.io.gfile.remove(path)


# Loading


class Report(NamedTuple):
  """The result of `load`: sorted lists of names.

  Attributes:
    loaded: variables that got a value.
    missing: variables that kept their value, because the file lacks the name.
    unused: names in the file without a variable, except optimizer state.
  """

  loaded: list[str]
  missing: list[str]
  unused: list[str]


def without_random_init(
  source: str | Reader | None,
) -> contextlib.AbstractContextManager[Any]:
  """Returns a context in which variables that `load` will set start at zero.

  Raises InputError: the checkpoint cannot be opened.

  Args:
    source: see `load`; None: nothing is loaded, so all variables are random.
  """
  if isinstance(source, str):
    source = open_reader(source)
  return named_weights.without_random_init(source.shapes if source else {})


def load(
  variables: Iterable[tf.Variable] | Mapping[str, tf.Variable],
  source: str | Reader,
  *,
  allowed_missing: Iterable[str] = (),
) -> Report:
  """Sets variables to the values that a checkpoint has under their names.

  Names and shapes are checked before the first variable changes. The report is
  logged and returned. The checkpoint may lack a variable, such as a new head's,
  if its name matches a regular expression of `allowed_missing`. Raises
  InputError: any other variable is missing, a variable's shape differs, or the
  file is damaged. Unlike the original: a missing variable is an error. The
  original silently trains it from random values.
  """
  reader = open_reader(source) if isinstance(source, str) else source
  named = by_name(variables)
  shapes = {name: tuple(v.shape) for name, v in named.items()}
  check_shapes(shapes, reader, allowed_missing=allowed_missing)
  needed, stored = named.keys(), reader.shapes.keys()
  report = Report(
    loaded=sorted(needed & stored),
    missing=sorted(needed - stored),
    unused=sorted(n for n in stored - needed if not is_optimizer_state(n)),
  )
  for name in report.loaded:
    # Omit rows that only pad the weight.
    rows = slice(shapes[name][0]) if _PADDED.search(name) else ...
    value = np.asarray(reader.read(name))[rows]
    is_finite = value.dtype.kind not in "iu" and np.isfinite(value).all()
    if named[name].dtype.is_floating and not is_finite:
      raise errors.InputError(
        f"{reader.path}: {name} (type {value.dtype}) has NaN, infinity or "
        "integers, but weights are finite floats: pass another checkpoint; to "
        "resume a run, remove the newest checkpoint"
      )
    # The model may store a variable in bfloat16.
    named[name].assign(tf.cast(value, named[name].dtype))
  _log(report, reader)
  return report


def by_name(
  variables: Iterable[tf.Variable] | Mapping[str, tf.Variable],
) -> dict[str, tf.Variable]:
  """Returns {name: variable}; a mapping is copied."""
  if isinstance(variables, Mapping):
    return dict(variables)
  return {named_weights.variable_name(v): v for v in variables}


def check_shapes(
  shapes: dict[str, tuple[int, ...]],
  reader: Reader,
  *,
  allowed_missing: Iterable[str] = (),
) -> None:
  """Checks that a checkpoint has all variables; see `load`.

  Raises InputError: a variable is missing or has another shape.
  """

  def may_be_missing(name: str) -> bool:
    return any(re.search(pattern, name) for pattern in allowed_missing)

  lacking = sorted(
    n for n in shapes.keys() - reader.shapes.keys() if not may_be_missing(n)
  )
  if lacking:
    raise errors.InputError(
      f"{reader.path} has no {file_io.listed(lacking)} (it has "
      f"{file_io.listed(list(reader.shapes))}); pass the checkpoint that "
      "belongs to this model configuration"
    )
  for name, shape in shapes.items():
    stored = reader.shapes.get(name, shape)
    if _PADDED.search(name) and stored[1:] == shape[1:] and stored > shape:
      logging.warning(
        "%s: %s has %d rows, but the vocabulary has %d entries: the last rows, "
        "which are padding, are left out",
        reader.path,
        name,
        stored[0],
        shape[0],
      )
    elif stored != shape:
      # A head may be missing, but must not have another shape.
      advice = (
        "pass the checkpoint's labels, or a checkpoint from before fine-tuning"
        if may_be_missing(name)
        else "pass the configuration and vocabulary of the checkpoint"
      )
      if name in ("output_weights", "output_bias"):
        advice = (
          f"the checkpoint was trained for a task with {stored[0]} outputs, "
          f"and this task has {shape[0]}: pass the task of the checkpoint, or "
          "another --output_dir to train a new head"
        )
      raise errors.InputError(
        f"{reader.path}: {name} has shape {list(stored)}, but {list(shape)} is "
        f"needed; {advice}"
      )


# {pattern of names of variables: the part of a model that they form}
_PARTS = {
  r"bert/pooler/": "the pooler",
  r"bert/head/": "the transform before the output layers",
  r"output_(weights|bias)$": "the classifier",
  r"cls/squad/": "the layer that finds answers",
  r"cls/predictions/": "the masked-LM head",
  r"cls/seq_relationship/": "the next-sentence head",
}


def _part_of(name: str) -> str:
  """Returns the part of a model to which a variable belongs, or its name."""
  matches = (part for each, part in _PARTS.items() if re.match(each, name))
  return next(matches, name)


def _log(report: Report, reader: Reader) -> None:
  logging.info("%d variables loaded from %s", len(report.loaded), reader.path)
  if report.missing:
    parts = dict.fromkeys(map(_part_of, report.missing))
    logging.info(
      "newly initialized, as the checkpoint lacks it: %s", ", ".join(parts)
    )
    logging.debug("not in the checkpoint: %s", ", ".join(report.missing))
  if report.unused:
    logging.info(
      "weights in the checkpoint that are not used (%d): %s",
      len(report.unused),
      file_io.listed(report.unused),
    )
    logging.debug("not used: %s", ", ".join(report.unused))
