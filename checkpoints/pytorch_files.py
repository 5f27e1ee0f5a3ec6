"""Tensors of PyTorch's pytorch_model.bin, read without running what it says.

Such a file is a pickle, and unpickling calls whatever functions the file
names. Here it can name only functions in `_KNOWN`, all of them harmless;
a file that asks for any other is refused. Two layouts exist:

  since PyTorch 1.6   a zip file, with the pickle in NAME/data.pkl and each
                      storage's bytes in NAME/data/KEY
  before that         pickles one after another (a magic number, a version,
                      facts of the machine, the tensors, the storages' keys),
                      then each storage: how many numbers, int64, and its bytes

A tensor is a view of a storage: offset, shape and strides, in numbers. A view
that leaves its storage is refused. No size that a file declares is believed
before the file is that long.
"""

import collections
import contextlib
import io
import math
import mmap
import os
import pickle
import pickletools
import struct
import zipfile
from typing import NamedTuple

import ml_dtypes
import numpy as np

from common import errors

# PyTorch's own, of torch.save before version 1.6.
_MAGIC = 0x1950A86A20F9469CFC6C
_VERSION = 1001

# PyTorch's class of a storage -> type of its numbers, and safetensors' name.
_STORAGES = {
  "DoubleStorage": (np.dtype("<f8"), "F64"),
  "FloatStorage": (np.dtype("<f4"), "F32"),
  "HalfStorage": (np.dtype("<f2"), "F16"),
  "BFloat16Storage": (np.dtype(ml_dtypes.bfloat16), "BF16"),
  "LongStorage": (np.dtype("<i8"), "I64"),
  "IntStorage": (np.dtype("<i4"), "I32"),
  "ShortStorage": (np.dtype("<i2"), "I16"),
  "CharStorage": (np.dtype("i1"), "I8"), "ByteStorage": (np.dtype("u1"), "U8"),
  "BoolStorage": (np.dtype("?"), "BOOL"),
}


class _Storage(NamedTuple):
  """Numbers in the file: of which class of PyTorch, under which key."""

  kind: str
  key: str
  size: int


class _Tensor(NamedTuple):
  """A view of a storage; all but the storage in numbers, not in bytes."""

  storage: _Storage
  offset: int
  shape: tuple
  strides: tuple

  def get_shape(self) -> list[int]:
    return list(self.shape)

  def get_dtype(self) -> str:
    """Returns the type as safetensors names it, such as "F32"."""
    return _STORAGES[self.storage.kind][1]


def _tensor(storage, offset, shape, strides, *unused):
  """Makes a _Tensor; raises ValueError if the view leaves its storage."""
  del unused  # Gradients and hooks.
  shape, strides = tuple(shape), tuple(strides)
  numbers = (offset, *shape, *strides)
  whole = all(type(n) is int and n >= 0 for n in numbers)
  if not isinstance(storage, _Storage) or not whole or (
    len(shape) != len(strides)
  ):
    raise ValueError("a tensor's shape makes no sense")
  # The place of the last number of the view, if it has any.
  last = offset + sum((size - 1) * step for size, step in zip(shape, strides))
  # A view of no numbers leaves nothing, wherever it begins.
  if math.prod(shape) and last >= storage.size:
    raise ValueError("a tensor is larger than its storage")
  return _Tensor(storage, offset, shape, strides)


# The names that a file may use: its pickle can call nothing else.
_KNOWN = {
  ("collections", "OrderedDict"): collections.OrderedDict,
  ("torch._utils", "_rebuild_tensor_v2"): _tensor,
  # A tensor, and whether it is trained.
  ("torch._utils", "_rebuild_parameter"): lambda tensor, *unused: tensor,
}


class _Unknown(Exception):
  """The name of a function that a file asks for and must not have."""


class _Unpickler(pickle.Unpickler):
  """Makes tensors, and nothing that is not in `_KNOWN`.

  `storages` are those that the pickle describes, by their key.
  """

  def __init__(self, stream):
    super().__init__(stream)
    self.storages = {}

  def find_class(self, module, name):
    # Its name will do: `persistent_load` gets it back in its tuple.
    if module == "torch" and name in _STORAGES:
      return name
    if (module, name) not in _KNOWN:
      raise _Unknown(f"{module}.{name}")
    return _KNOWN[module, name]

  def persistent_load(self, description):
    """Returns the _Storage that a tuple describes."""
    what, kind, key, _, size, *rest = description
    # The last one: a storage that is a part of another, which models lack.
    if what != "storage" or kind not in _STORAGES or any(rest):
      raise ValueError("a storage of unknown kind")
    if type(size) is not int or size < 0 or type(key) not in (int, str):
      raise ValueError("a storage without a size or a name")
    return self.storages.setdefault(str(key), _Storage(kind, str(key), size))


def _load(stream):
  """Returns the content of a pickle, and its storages by their key."""
  start = stream.tell()
  for count, (operation, index, _) in enumerate(pickletools.genops(stream)):
    # The unpickler makes room for every index below that one.
    if operation.name.endswith("PUT") and index > count:
      raise ValueError("its pickle numbers more objects than it has")
  stream.seek(start)
  unpickler = _Unpickler(stream)
  return unpickler.load(), unpickler.storages


def _stored(archive, name, size=None):
  """Returns the bytes of an entry of a zip, of `size` if that is known."""
  entry = archive.getinfo(name)
  # PyTorch compresses nothing, so that no entry is longer than the file.
  if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
    raise ValueError(f"{name} is compressed or encrypted")
  if size is not None and entry.file_size != size:
    raise ValueError(f"{name} has {entry.file_size} bytes instead of {size}")
  return archive.read(entry)


class Reader:
  """The tensors of one file, with the methods of safetensors.safe_open."""

  def __init__(self, path: str):
    """Reads what tensors there are, and no numbers.

    The file is on a local disk. Raises InputError: it is damaged, no file of
    PyTorch, or holds more than tensors.
    """
    self._path = path
    self._places = {}  # Key of a storage -> place in the file, or zip entry.
    with self._errors_named():
      self._is_zip = zipfile.is_zipfile(path)
      state = self._read_zip() if self._is_zip else self._read_old()
      # Training scripts save more, with the weights under this name.
      if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
      if not isinstance(state, dict):
        raise ValueError("no dictionary of tensors")
      self._tensors = {
        name: value
        for name, value in state.items()
        if isinstance(name, str) and isinstance(value, _Tensor)
      }
      if not self._tensors:
        raise ValueError("no tensor in it")

  def keys(self) -> list[str]:
    """Returns the names of the tensors."""
    return list(self._tensors)

  def get_slice(self, name: str) -> _Tensor:
    """Returns an object with `get_shape` and `get_dtype` of a tensor."""
    return self._tensors[name]

  def get_tensor(self, name: str) -> np.ndarray:
    """Returns a tensor; raises InputError if the file is damaged."""
    tensor = self._tensors[name]
    dtype, _ = _STORAGES[tensor.storage.kind]
    with self._errors_named():
      # A stride of 0 repeats a number as often as the shape says.
      if math.prod(tensor.shape) * dtype.itemsize > os.path.getsize(self._path):
        raise ValueError("a tensor is larger than the file")
      numbers = self._numbers(tensor.storage, dtype)
      # Safe only because `_tensor` has seen offset, shape and strides.
      view = np.lib.stride_tricks.as_strided(
        numbers[tensor.offset :], tensor.shape,
        [step * dtype.itemsize for step in tensor.strides], writeable=False,
      )
      # Contiguous, and without the rest of its storage.
      return view.copy()

  def _numbers(self, storage, dtype):
    place = self._places[storage.key]
    if not self._is_zip:
      return np.frombuffer(self._data, dtype, storage.size, place)
    with zipfile.ZipFile(self._path) as archive:
      return np.frombuffer(
        _stored(archive, place, storage.size * dtype.itemsize), dtype
      )

  def _read_zip(self):
    with zipfile.ZipFile(self._path) as archive:
      names = archive.namelist()
      # The folder in the zip has the name that the file was saved under.
      (pickled,) = [name for name in names if name.endswith("/data.pkl")]
      folder = pickled.removesuffix("data.pkl")
      order = f"{folder}byteorder"
      if order in names and _stored(archive, order) != b"little":
        raise ValueError("the numbers are big-endian")
      self._places = {
        name.removeprefix(f"{folder}data/"): name
        for name in names
        if name.startswith(f"{folder}data/")
      }
      return _load(io.BytesIO(_stored(archive, pickled)))[0]

  def _read_old(self):
    with open(self._path, "rb") as stream:
      self._data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    # The third describes the machine that wrote the file.
    magic, version, _ = (_load(self._data)[0] for _ in range(3))
    if (magic, version) != (_MAGIC, _VERSION):
      raise ValueError("it does not start as such files do")
    tensors, storages = _load(self._data)
    for key in _load(self._data)[0]:
      (size,) = struct.unpack("<q", self._data.read(8))
      storage = storages[str(key)]
      if size != storage.size:
        raise ValueError("a storage has another size than its tensors say")
      self._places[storage.key] = self._data.tell()
      # The numbers are skipped: they are read on demand.
      self._data.seek(size * _STORAGES[storage.kind][0].itemsize, 1)
    return tensors

  @contextlib.contextmanager
  def _errors_named(self):
    try:
      yield
    except _Unknown as error:
      raise errors.InputError(
        f"{self._path} asks for {error}, which is not run: it holds more than "
        "tensors; save the state_dict alone, or as model.safetensors"
      ) from error
    except MemoryError:  # The machine lacks memory; the file is whole.
      raise
    # A pickle or zip of arbitrary bytes can lead to any other.
    except Exception as error:
      reason = str(error) or type(error).__name__
      raise errors.InputError(
        f"{self._path} is no readable file of PyTorch's weights ({reason}); "
        "copy it again, or save the model as model.safetensors"
      ) from error
