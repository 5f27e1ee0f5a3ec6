"""Reads the tensors of PyTorch's pytorch_model.bin without running its code.

Such a file is a pickle, and unpickling calls all functions that the file names.
Here it can name only the harmless functions in `_KNOWN`; a file with any other
function is refused. Two layouts exist:

  since PyTorch 1.6   a zip file, with the pickle in NAME/data.pkl and each
                      storage's bytes in NAME/data/KEY
  before that         consecutive pickles (a magic number, a version, facts
                      about the machine, the tensors, the storages' keys), then
                      each storage: its number of elements, int64, and its bytes

A tensor is a view of a storage: offset, shape and strides, in elements. NumPy
refuses a view beyond its storage. Sizes in a file are checked against the
length of the file before they are used.
"""

import collections
import contextlib
import functools
import io
import math
import mmap
import os
import pickle
import pickletools
import struct
import zipfile
from collections.abc import Callable
from typing import NamedTuple

import ml_dtypes
import numpy as np

from common import errors

# The first two pickles of a file from before PyTorch 1.6: the magic number and
# the version of the layout.
_OLD_START = (0x1950A86A20F9469CFC6C, 1001)
# {PyTorch's class of a storage: (dtype, safetensors' name of the dtype)}
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


class StoredTensor(NamedTuple):
  """A tensor of a file; `dtype` is safetensors' name, such as "F32"."""

  dtype: str
  shape: tuple[int, ...]
  read: Callable[[], np.ndarray]


class _Storage(NamedTuple):
  """A storage in the file, with its key; `class_name` is one of _STORAGES."""

  class_name: str
  key: str
  size: int

  @property
  def num_bytes(self):
    return self.size * _STORAGES[self.class_name][0].itemsize


class _View(NamedTuple):
  """A tensor in a storage; offset and strides count elements, not bytes."""

  storage: _Storage
  offset: int
  shape: tuple[int, ...]
  strides: tuple[int, ...]


def _view(storage, offset, shape, strides, *unused):
  del unused  # These are about gradients and hooks.
  numbers = (offset, *shape, *strides)
  if not isinstance(storage, _Storage) or {*map(type, numbers)} - {int}:
    raise ValueError("a tensor's shape makes no sense")
  return _View(storage, offset, tuple(shape), tuple(strides))


# The names that a file may use: its pickle can call nothing else.
_KNOWN = {
  ("collections", "OrderedDict"): collections.OrderedDict,
  ("torch._utils", "_rebuild_tensor_v2"): _view,
  # Its arguments are a tensor and whether it is trained.
  ("torch._utils", "_rebuild_parameter"): lambda tensor, *unused: tensor,
  # A name instead of the class suffices for `persistent_load`.
  **{("torch", name): name for name in _STORAGES},
}


class _Unpickler(pickle.Unpickler):
  """An unpickler that refuses all names that are not in `_KNOWN`."""

  def __init__(self, stream):
    super().__init__(stream)
    self.storages: dict[str, _Storage] = {}  # {key: storage}.

  def find_class(self, module, name):
    if (module, name) not in _KNOWN:
      raise errors.InputError(
        f"it asks for {module}.{name}, which is not run: the file holds more "
        "than tensors; save the state_dict alone, or as model.safetensors"
      )
    return _KNOWN[module, name]

  def persistent_load(self, description):
    """Returns the _Storage that a tuple describes."""
    label, class_name, key, _, size, *rest = description
    # `rest` describes a part of another storage, which models do not have.
    if label != "storage" or class_name not in _STORAGES or any(rest):
      raise ValueError("a storage of unknown kind")
    if type(size) is not int or size < 0 or type(key) not in (int, str):
      raise ValueError("a storage without a size or a name")
    storage = _Storage(class_name, str(key), size)
    return self.storages.setdefault(storage.key, storage)


def _load(stream):
  """Returns the content of a pickle, and its storages: {key: storage}."""
  start = stream.tell()
  for count, (operation, index, _) in enumerate(pickletools.genops(stream)):
    # A large index would make the unpickler allocate memory for all below.
    if operation.name.endswith("PUT") and index > count:
      raise ValueError("its pickle numbers more objects than it has")
  stream.seek(start)
  unpickler = _Unpickler(stream)
  return unpickler.load(), unpickler.storages


def _stored(archive, name, size=None):
  """Returns the bytes of a zip's entry, which must have `size` if given."""
  entry = archive.getinfo(name)
  # PyTorch does not compress. So an entry cannot be longer than the file.
  if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
    raise ValueError(f"{name} is compressed or encrypted")
  if size is not None and entry.file_size != size:
    raise ValueError(f"{name} has {entry.file_size} bytes instead of {size}")
  return archive.read(entry)


def _read_zip(path):
  """Returns the pickled object and a function that reads a storage's bytes."""
  with zipfile.ZipFile(path) as archive:
    names = archive.namelist()
    # The folder in the zip may have any name.
    (pickled,) = [name for name in names if name.endswith("/data.pkl")]
    folder = pickled.removesuffix("data.pkl")
    order = f"{folder}byteorder"
    if order in names and _stored(archive, order) != b"little":
      raise ValueError("the numbers are big-endian")
    state, _ = _load(io.BytesIO(_stored(archive, pickled)))

  def content(storage):
    with zipfile.ZipFile(path) as archive:
      name = f"{folder}data/{storage.key}"
      return _stored(archive, name, storage.num_bytes)

  return state, content


def _read_old(path):
  """Like `_read_zip`, for the layout before PyTorch 1.6."""
  with open(path, "rb") as stream:
    data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
  # The third pickle describes the machine that wrote the file.
  magic, version, _ = (_load(data)[0] for _ in range(3))
  if (magic, version) != _OLD_START:
    raise ValueError("it does not start as such files do")
  state, storages = _load(data)
  places: dict[str, int] = {}
  for key in _load(data)[0]:
    (size,) = struct.unpack("<q", data.read(8))
    storage = storages[str(key)]
    if size != storage.size:
      raise ValueError("a storage has another size than its tensors say")
    places[storage.key] = data.tell()
    # Skip the elements, which are read on demand.
    data.seek(storage.num_bytes, 1)

  def content(storage):
    return memoryview(data)[places[storage.key] :][: storage.num_bytes]

  return state, content


@contextlib.contextmanager
def _errors_named(path):
  try:
    with errors.placed(path):
      yield
  # A MemoryError does not mean that the file is damaged.
  except (errors.InputError, MemoryError):
    raise
  # A damaged pickle or zip can raise any other exception.
  except Exception as error:
    reason = str(error) or type(error).__name__
    raise errors.InputError(
      f"{path} is no readable file of PyTorch's weights ({reason}); copy it "
      "again, or save the model as model.safetensors"
    ) from error


def _values(path, content, view):
  dtype, _ = _STORAGES[view.storage.class_name]
  with _errors_named(path):
    # A stride of 0 could repeat an element many times.
    if math.prod(view.shape) * dtype.itemsize > os.path.getsize(path):
      raise ValueError("a tensor is larger than the file")
    # The copy is contiguous, and does not keep the rest of the storage.
    return np.ndarray(
      view.shape, dtype, content(view.storage), view.offset * dtype.itemsize,
      [step * dtype.itemsize for step in view.strides],
    ).copy()


def read(path: str) -> dict[str, StoredTensor]:
  """Returns a local file's tensors, whose values are read on demand.

  It and StoredTensor.read raise InputError: the file is damaged, is not a file
  of PyTorch, or has other objects than tensors.
  """
  with _errors_named(path):
    is_zip = zipfile.is_zipfile(path)
    state, content = (_read_zip if is_zip else _read_old)(path)
    # Training scripts save further objects, with the weights in this entry.
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
      state = state["state_dict"]
    if not isinstance(state, dict):
      raise ValueError("no dictionary of tensors")
    tensors = {
      name: StoredTensor(
        _STORAGES[view.storage.class_name][1], view.shape,
        functools.partial(_values, path, content, view),
      )
      for name, view in state.items()
      if isinstance(name, str) and isinstance(view, _View)
    }
    if not tensors:
      raise ValueError("no tensor in it")
    return tensors
