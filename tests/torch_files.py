"""Writes pytorch_model.bin as PyTorch does, without PyTorch."""

import collections
import contextlib
import pickle
import struct
import sys
import types
import unittest.mock
import zipfile

import numpy as np

_CLASSES = {"float32": "FloatStorage", "int64": "LongStorage"}


class _Stored:
  """An array as a storage of its own."""

  def __init__(self, key, array, kind):
    self.key, self.array, self.kind = key, array, kind


class _Tensor:
  """What pickles as a call of PyTorch's function that makes tensors."""

  def __init__(self, stored, rebuild):
    self._stored, self._rebuild = stored, rebuild

  def __reduce__(self):
    array = self._stored.array
    strides = tuple(step // array.itemsize for step in array.strides)
    return self._rebuild, (
      self._stored, 0, array.shape, strides, False, collections.OrderedDict()
    )


class _Pickler(pickle.Pickler):
  def __init__(self, stream, is_old):
    super().__init__(stream, protocol=2)
    self._rest = (None,) if is_old else ()

  def persistent_id(self, obj):
    if not isinstance(obj, _Stored):
      return None
    return ("storage", obj.kind, obj.key, "cpu", obj.array.size, *self._rest)


@contextlib.contextmanager
def _modules():
  """Gives PyTorch's names to what the pickle mentions."""
  torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
  for name in _CLASSES.values():
    setattr(torch, name, type(name, (), {"__module__": "torch"}))

  def rebuild():
    raise AssertionError("only its name is written")

  rebuild.__module__ = "torch._utils"
  rebuild.__qualname__ = rebuild.__name__ = "_rebuild_tensor_v2"
  utils._rebuild_tensor_v2 = rebuild
  modules = {"torch": torch, "torch._utils": utils}
  with unittest.mock.patch.dict(sys.modules, modules):
    yield torch, rebuild


def write(path, arrays, *, is_old=False):
  """Writes arrays by name; `is_old`: in the layout of before PyTorch 1.6."""
  with _modules() as (torch, rebuild), open(path, "wb") as stream:
    stored = [
      _Stored(str(number), np.ascontiguousarray(array), getattr(
        torch, _CLASSES[array.dtype.name]
      ))
      for number, array in enumerate(arrays.values())
    ]
    state = collections.OrderedDict(
      (name, _Tensor(each, rebuild)) for name, each in zip(arrays, stored)
    )
    if is_old:
      for value in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}):
        pickle.dump(value, stream, 2)
      _Pickler(stream, is_old).dump(state)
      pickle.dump([each.key for each in stored], stream, 2)
      for each in stored:
        stream.write(struct.pack("<q", each.array.size) + each.array.tobytes())
      return
    with zipfile.ZipFile(stream, "w") as archive:
      with archive.open("archive/data.pkl", "w") as pickled:
        _Pickler(pickled, is_old).dump(state)
      for each in stored:
        archive.writestr(f"archive/data/{each.key}", each.array.tobytes())
