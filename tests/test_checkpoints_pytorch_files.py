"""Files of PyTorch: every value, and nothing but values."""

import os
import pathlib
import pickle
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

import torch_files
from checkpoints import pytorch_files
from common import errors

GOLDEN = pathlib.Path("tests/golden/pytorch")
TYPES = {
  "half": "F16", "bfloat16": "BF16", "position_ids": "I64", "flag": "BOOL"
}


@pytest.mark.parametrize("name", ["zip.bin", "old.bin"])
def test_values_are_pytorchs(name):
  tensors = pytorch_files.read(str(GOLDEN / name))
  expected = np.load(GOLDEN / "values.npz")
  assert set(tensors) == set(expected)
  for key, tensor in tensors.items():
    value = tensor.read()
    assert value.shape == tensor.shape == expected[key].shape
    assert tensor.dtype == TYPES.get(key, "F32")
    if key == "bfloat16":
      value = value.astype(np.float32)
    assert value.dtype == expected[key].dtype
    np.testing.assert_array_equal(value, expected[key])


def test_a_module_is_refused_with_the_name_that_it_asks_for():
  with pytest.raises(errors.InputError, match="asks for torch.nn.modules."):
    pytorch_files.read(str(GOLDEN / "module.bin"))


class Attack:
  """Unpickling it makes a folder."""

  def __init__(self, path):
    self.path = path

  def __reduce__(self):
    return os.mkdir, (self.path,)


@pytest.mark.parametrize("is_zip", [True, False])
def test_no_function_of_a_file_is_called(tmp_path, is_zip):
  pickled = pickle.dumps({"weight": Attack(str(tmp_path / "made"))}, 2)
  path = tmp_path / "pytorch_model.bin"
  if is_zip:
    with zipfile.ZipFile(path, "w") as archive:
      archive.writestr("archive/data.pkl", pickled)
  else:
    path.write_bytes(pickled)
  with pytest.raises(errors.InputError, match="asks for posix.mkdir"):
    pytorch_files.read(str(path))
  assert not (tmp_path / "made").exists()
  # The same bytes do call it where nothing stops them.
  pickle.loads(pickled)
  assert (tmp_path / "made").exists()


@pytest.mark.parametrize("name", ["zip.bin", "old.bin"])
def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path, name):
  whole = (GOLDEN / name).read_bytes()
  path = tmp_path / name
  for length in range(0, len(whole) - 1, 7):
    path.write_bytes(whole[:length])
    with pytest.raises(errors.InputError, match="copy it again"):
      for tensor in pytorch_files.read(str(path)).values():
        tensor.read()


def write_view(path, shape, strides):
  """Writes a view of three numbers: shape and strides are parts of a pickle."""
  torch_files.write(path, {"a": np.ones(3, np.float32)}, is_old=True)
  data = path.read_bytes().replace(b"K\3\x85", shape)
  path.write_bytes(data.replace(b"K\1\x85", strides))


@pytest.mark.parametrize(
  "shape, strides",
  [
    (b"K\4\x85", b"K\1\x85"), (b"K\3\x85", b"K\2\x85"),
    (b"K\3\x85", b"J\xff\xff\xff\xff\x85"), (b"K\2\x85", b"K\1K\1\x86"),
  ],
  ids=["(4,) by (1,)", "(3,) by (2,)", "(3,) by (-1,)", "(2,) by (1, 1)"],
)
def test_a_view_beyond_its_storage_is_refused(tmp_path, shape, strides):
  write_view(tmp_path / "a.bin", shape, strides)
  tensor = pytorch_files.read(str(tmp_path / "a.bin"))["a"]
  with pytest.raises(errors.InputError, match="strides"):
    tensor.read()


def refused(tmp_path, pickled, message, *, is_zip=True, **zip_options):
  """Asserts that a file is refused, at next to no memory."""
  path = tmp_path / "pytorch_model.bin"
  path.write_bytes(pickled)
  if is_zip:
    with zipfile.ZipFile(path, "w", **zip_options) as archive:
      archive.writestr("archive/data.pkl", pickled)
  tracemalloc.start()
  with pytest.raises(errors.InputError, match=message):
    pytorch_files.read(str(path))
  assert tracemalloc.get_traced_memory()[1] < 10**7
  tracemalloc.stop()


@pytest.mark.parametrize("is_zip", [True, False])
def test_no_memory_is_taken_for_what_is_not_there(tmp_path, is_zip):
  # Object number 2^29, for which an unpickler would make a table.
  refused(
    tmp_path, b"\x80\x02Nr\xff\xff\xff\x1f.", "numbers more objects",
    is_zip=is_zip,
  )
  # A text of 2^60 bytes.
  refused(
    tmp_path, b"\x80\x04\x8d" + struct.pack("<Q", 1 << 60), "but only 0 remain",
    is_zip=is_zip,
  )


def test_a_number_that_is_repeated_beyond_the_file_is_refused(tmp_path):
  path = tmp_path / "a.bin"
  # Shape (2^33,), stride (0,).
  write_view(path, b"\x8a\5\0\0\0\0\2\x85", b"K\0\x85")
  tensor = pytorch_files.read(str(path))["a"]
  assert tensor.shape == (1 << 33,)
  with pytest.raises(errors.InputError, match="a tensor is larger than the fi"):
    tensor.read()


def test_a_key_of_nested_tuples_is_refused(tmp_path):
  # ((((), ()), ((), ())), ...: as a text it would have 2^40 parts.
  key = b"(t" + b"2\x86" * 40
  refused(
    tmp_path,
    b"\x80\x02(X\x07\0\0\0storagectorch\nFloatStorage\n" + key
    + b"X\x03\0\0\0cpuK\x01tQ.",
    "a storage without a size or a name",
  )


def test_compressed_and_encrypted_zips_are_refused(tmp_path):
  refused(
    tmp_path, b"\0" * 10**5, "is compressed", compression=zipfile.ZIP_DEFLATED
  )
  path = tmp_path / "pytorch_model.bin"
  torch_files.write(str(path), {"a": np.zeros(2, np.float32)})
  data = bytearray(path.read_bytes())
  # The flag of encryption in the list of entries.
  data[data.index(b"PK\x01\x02") + 8] |= 1
  path.write_bytes(data)
  with pytest.raises(errors.InputError, match="compressed or encrypted"):
    pytorch_files.read(str(path))
