"""Reads and writes Hugging Face folders.

  config.json                          the model configuration
  model.safetensors                    the weights in one file
  model.safetensors.index.json         or the index of several such files
  pytorch_model.bin                    the weights in older folders, maybe with
                                       an index. Reading them needs PyTorch;
                                       this project never writes them
  vocab.txt or tokenizer.json          the vocabulary
  tokenizer_config.json

Hugging Face's "gelu" is the exact function with erf. The original's "gelu" is
the approximation with tanh, which Hugging Face calls "gelu_new". A conversion
therefore changes the name and keeps the function.
"""

import functools
import os
import re
import zipfile
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import ml_dtypes  # noqa: F401  (lets safetensors return bfloat16)
import numpy as np
import safetensors
import safetensors.numpy

import configuration
from checkpoints import tokenizer_files, weight_names
from common import errors, file_io, json_files

if TYPE_CHECKING:
  import torch

# First components of tensor names, in models with and without a head.
_ROOTS = (
  "bert roberta electra distilbert transformer albert encoder embeddings "
  "pooler cls lm_head classifier ernie"
).split()
# The safetensors dtypes that this project reads. Eight-bit dtypes (F8_E4M3, I8,
# U8) belong to quantized models, whose scales this project does not apply.
_DTYPES = "F64 F32 F16 BF16 I64 I32 I16 U64 U32 U16 BOOL".split()


class StoredTensor(NamedTuple):
  """A tensor in a file; `dtype` has safetensors' names, such as "F32"."""

  dtype: str
  shape: Sequence[int]
  read: Callable[[], np.ndarray]


Tensors = dict[str, StoredTensor]  # By their names in a file.


def open_reader(
  path: str, file: str, folder: json_files.Folder
) -> weight_names.Reader:
  """Opens the weights at a path.

  Raises InputError: a file is missing, damaged or not supported.

  Args:
    file: the result of model_folder.weights_file.
    folder: the folder of this file.
  """
  config, is_span = None, False
  if "config.json" in folder.names:
    config = configuration.read(folder.path_of("config.json"), folder)
    classes = folder.read("config.json").get("architectures")
    is_span = "ForQuestionAnswering" in str(classes)
  tensors, prefix = _without_prefix(_open_files(file))
  values = config or {"variant": weight_names.variant_of(tensors)}
  variant = values.get("variant", "bert")
  _check_tied(path, tensors, variant)
  names, derived = weight_names.find(variant, tensors, is_span=is_span)

  def read(name: str) -> np.ndarray:
    value = tensors[name].read()
    # float32 represents float16 and bfloat16 exactly. float64 stays float64.
    is_small = value.dtype.name in ("float16", "bfloat16")
    return value.astype(np.float32) if is_small else value

  return weight_names.Reader(
    "Hugging Face",
    path,
    names,
    lambda name: tensors[name].shape,
    read,
    folder=folder.path,
    config=config,
    notes=[
      *[f"the prefix {prefix!r} of all names is ignored"] * bool(prefix),
      *_notes(derived, tensors),
    ],
  )


def _without_prefix(tensors: Tensors) -> tuple[Tensors, str]:
  """Removes a prefix that all names share; returns tensors and the prefix.

  Programs that wrap the model add it: "module.bert.pooler.weight" becomes
  "bert.pooler.weight". The prefixes of Hugging Face's classes stay.
  """
  prefix = ""
  while True:
    firsts = {name.removeprefix(prefix).partition(".")[0] for name in tensors}
    (first,) = firsts if len(firsts) == 1 else ("",)
    if not first or first in _ROOTS:
      break
    prefix += f"{first}."
  # ERNIE without its task embeddings is BERT.
  return {
    re.sub(r"^ernie\.", "bert.", name.removeprefix(prefix)): tensor
    for name, tensor in tensors.items()
  }, prefix


def _check_tied(path: str, tensors: Tensors, variant: str) -> None:
  """Raises InputError if a copy of a tied weight differs from the weight.

  TF1 has a single name for both.
  """
  for pair in weight_names.tied(variant).items():
    # A file has these names with or without the variant's prefix.
    prefix = weight_names.prefix_of(variant)
    spellings = [{n, n.removeprefix(prefix)} for n in pair]
    names = [n for each in spellings for n in each & tensors.keys()]
    if len(names) == 2:
      values = [tensors[n].read() for n in names]
      # They differ if the head was trained with its own copy of the weight.
      if not np.array_equal(values[0], values[1]):
        raise errors.InputError(
          f"{path}: {names[0]} differs from {names[1]}, but this project uses "
          "one weight for both"
        )


def _open_files(path: str) -> Tensors:
  """Returns {name: StoredTensor} for a file, or for all files of an index."""
  if not path.endswith(".json"):
    return _open(path)
  weight_map = json_files.field(
    json_files.read(path), "weight_map", dict[str, str], path
  )
  folder = os.path.dirname(path)
  tensors: Tensors = {}
  opened: dict[str, Tensors] = {}
  for name, file in weight_map.items():
    if os.path.basename(file) != file:
      raise errors.InputError(
        f"{path} names {file!r}, but only files next to it are read"
      )
    if file not in opened:
      opened[file] = _open(os.path.join(folder, file))
    if name not in opened[file]:
      raise errors.InputError(
        f"{os.path.join(folder, file)} lacks the tensor {name} that {path} "
        "lists; copy all files again"
      )
    tensors[name] = opened[file][name]
  return tensors


def _open(path: str) -> Tensors:
  if file_io.is_remote(path):
    raise errors.InputError(f"{path} is not on a local disk; copy it to one")
  if not os.path.exists(path):
    raise errors.InputError(f"no such file: {path}; copy all model files")
  file_io.refuse_pointer(path)
  # The file's name determines the format; opening the file checks the content.
  is_torch = path.endswith(".bin")
  tensors = _open_torch(path) if is_torch else _open_safetensors(path)
  for name, tensor in tensors.items():
    if tensor.dtype not in _DTYPES:
      raise errors.InputError(
        f"{path}: {name} is of type {tensor.dtype}; expected one of "
        f"{', '.join(_DTYPES)}: save the model, not quantized, in float32"
      )
  return tensors


def _open_safetensors(path: str) -> Tensors:
  try:
    opened = safetensors.safe_open(path, framework="numpy")
  except (safetensors.SafetensorError, OSError) as error:
    raise errors.InputError(
      f"{path} is not a readable safetensors file ({error}); copy it again"
    ) from error
  entries = {name: opened.get_slice(name) for name in opened.keys()}
  return {
    name: StoredTensor(
      entry.get_dtype(),
      entry.get_shape(),
      functools.partial(opened.get_tensor, name),
    )
    for name, entry in entries.items()
  }


@functools.cache
def _damaged_entry(path: str, _changed_at: int) -> str | None:
  """Returns the name of a zip's first damaged entry, or None.

  The check reads the whole file, so its result is cached. The modification time
  is an argument, so that a changed file is checked again.
  """
  with zipfile.ZipFile(path) as archive:
    return archive.testzip()


def _open_torch(path: str) -> Tensors:
  # Imported here because only .bin files need PyTorch.
  import torch

  try:
    # PyTorch has written zip files since version 1.6. It can memory-map them,
    # but does not verify their checksums.
    is_zip = zipfile.is_zipfile(path)
    if is_zip and (damaged := _damaged_entry(path, os.stat(path).st_mtime_ns)):
      raise ValueError(f"its entry {damaged} is damaged")
    state = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
  except MemoryError:
    raise
  # A damaged file can raise any exception.
  except Exception as error:
    # Keep only the sentence of PyTorch's long message that names the problem.
    text = str(error).rpartition("WeightsUnpickler error: ")[2]
    reason = re.split(r"\. |\n", text)[0] or type(error).__name__
    raise errors.InputError(
      f"{path} cannot be loaded as PyTorch weights ({reason}); copy it "
      "again, or save the model as model.safetensors"
    ) from error
  # Training scripts also save other objects; one of these has the weights.
  if isinstance(state, dict):
    state = state.get("state_dict", state.get("model", state))
  entries = state.items() if isinstance(state, dict) else ()
  tensors = {
    name: tensor
    for name, tensor in entries
    if isinstance(name, str) and isinstance(tensor, torch.Tensor)
  }
  if not tensors:
    raise errors.InputError(
      f"{path} has no named tensors; save the model as model.safetensors"
    )
  return {
    name: StoredTensor(
      # torch.bfloat16 -> BF16, torch.uint8 -> U8
      re.sub(
        r"torch\.|(?<=f)loat|(?<=i)nt|(?<=u)int", "", str(tensor.dtype)
      ).upper(),
      tensor.shape,
      functools.partial(_value_of, tensor),
    )
    for name, tensor in tensors.items()
  }


def _value_of(tensor: "torch.Tensor") -> np.ndarray:
  # NumPy lacks bfloat16; float32 represents its values exactly.
  if tensor.element_size() == 2 and tensor.is_floating_point():
    tensor = tensor.float()
  return tensor.to_dense().numpy(force=True)


def _notes(derived: list[str], tensors: Tensors) -> list[str]:
  """Returns remarks about dtypes and unread tensors."""
  notes = []
  small = sorted({t.dtype for t in tensors.values()} & {"F16", "BF16"})
  if small:
    notes.append(f"weights are converted from {', '.join(small)} to float32")
  if derived:
    notes.append(f"copies and constants are not read: {', '.join(derived)}")
  return notes


# Writing


def write(
  folder: str,
  weights: dict[str, np.ndarray],
  config: dict,
  *,
  architecture: str | None = None,
  do_lower_case: bool | None = None,
  vocab_file: str | None = None,
  never_split: Sequence[str] | None = None,
  max_length: int | None = None,
  keeps_rule: bool = False,
) -> dict[str, str]:
  """Writes weights, configuration, vocabulary and the tokenizer's files.

  Returns {TF1 name: name in the file} for the written weights. Optimizer state
  and weights that are not in `architecture` are not written. Raises InputError:
  `architecture` is of another variant, or a file cannot be read or written.

  Args:
    folder: an existing folder.
    weights: {TF1 name: value}.
    config: the entries of bert_config.json.
    architecture: name of a transformers class; by default inferred from the
      names and the configuration.
    do_lower_case, vocab_file, never_split, keeps_rule: see
      tokenizer_files.write.
    max_length: the tokenizer's; None: the model's number of positions.
  """
  variant = config.get("variant", "bert")
  if not architecture:
    architecture = weight_names.architecture_of(weights, variant)
    # The variables of these classes have the same names as a classifier's.
    if configuration.head_of(config) == "tagging":
      architecture = architecture.replace("ForSequenceC", "ForTokenC")
    if config.get("problem_type") == "multiple_choice":
      architecture = architecture.replace(
        "ForSequenceClassification", "ForMultipleChoice"
      )
  rows = weight_names.to_write(weights, variant, architecture)
  tensors = {
    row.name: weight_names.from_tf1(np.asarray(weights[row.tf1]), row.layout)
    for row in rows
  }
  path = os.path.join(folder, "model.safetensors")
  with file_io.atomic_write(path) as temporary:
    # `save_file` would write a file that only the owner can read.
    with open(temporary, "wb") as stream:
      # transformers refuses a file without the format "pt".
      stream.write(safetensors.numpy.save(tensors, {"format": "pt"}))
  write_settings(
    folder,
    config,
    architecture,
    do_lower_case=do_lower_case,
    vocab_file=vocab_file,
    max_length=max_length or config["max_position_embeddings"],
    never_split=never_split,
    keeps_rule=keeps_rule,
  )
  return {row.tf1: row.name for row in rows}


def write_settings(
  folder: str,
  config: dict,
  architecture: str,
  *,
  do_lower_case: bool | None,
  vocab_file: str | None,
  max_length: int,
  never_split: Sequence[str] | None = None,
  keeps_rule: bool = True,
) -> None:
  """Writes all files but the weights: see `write` and tokenizer_files.write."""
  json_files.write(
    os.path.join(folder, "config.json"),
    configuration.to_huggingface(config, architecture),
  )
  tokenizer_files.write(
    folder,
    vocab_file,
    do_lower_case,
    max_length,
    "DistilBertTokenizer"
    if config.get("variant") == "distilbert"
    else "BertTokenizer",
    fast=True,
    never_split=never_split,
    keeps_rule=keeps_rule,
  )
