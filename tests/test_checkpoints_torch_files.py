"""PyTorch's files (pytorch_model.bin) are read if torch is installed."""

import collections
import os
import subprocess
import sys
import types
import zipfile

import numpy as np
import pytest
import safetensors.numpy

import script_runner
from checkpoints import model_folder, weight_files
from common import errors, json_files, program


def write(folder, tensors, **options):
  torch = pytest.importorskip("torch")
  torch.save(tensors, folder / "pytorch_model.bin", **options)


def tensors_of_all_types(torch):
  table = torch.arange(24.0).reshape(6, 4)
  return collections.OrderedDict(
    {
      "bert.table": table,
      "bert.tied": table,
      "bert.columns": table.T,
      "bert.rows": table[2:4],
      "bert.scalar": torch.tensor(3.0),
      "bert.trained": torch.nn.Parameter(torch.ones(2)),
      "bert.half": torch.tensor([0.5, 65504]).half(),
      "bert.bfloat16": torch.tensor([0.1, 3e38]).bfloat16(),
      "bert.double": torch.tensor([0.1], dtype=torch.float64),
      "bert.flag": torch.tensor([True, False]),
      "bert.sparse": table.to_sparse(),
      "bert.position_ids": torch.arange(5)[None],
    }
  )


@pytest.mark.parametrize("entry", ["", "state_dict", "model"])
@pytest.mark.parametrize("is_zip", [True, False])
def test_tensors_equal_those_of_pytorch(tmp_path, is_zip, entry):
  torch = pytest.importorskip("torch")
  tensors = tensors_of_all_types(torch)
  state = {"epoch": 3, entry: tensors} if entry else tensors
  write(tmp_path, state, _use_new_zipfile_serialization=is_zip)
  reader = weight_files.open_reader(str(tmp_path))
  assert set(reader.shapes) == set(tensors)
  for name, tensor in tensors.items():
    value = reader.read(name)
    is_small = tensor.dtype in (torch.float16, torch.bfloat16)
    expected = tensor.detach().to_dense()
    expected = expected.float() if is_small else expected
    assert value.shape == reader.shapes[name] == tuple(tensor.shape)
    assert value.dtype == expected.numpy().dtype
    np.testing.assert_array_equal(value, expected)
  assert reader.notes == ["weights are converted from BF16, F16 to float32"]


def test_files_of_an_index_are_read_together(tmp_path):
  torch = pytest.importorskip("torch")
  for name in ("a", "b"):
    torch.save({f"bert.{name}": torch.ones(2)}, tmp_path / f"{name}.bin")
  json_files.write(
    str(tmp_path / "pytorch_model.bin.index.json"),
    {"weight_map": {"bert.a": "a.bin", "bert.b": "b.bin"}},
  )
  assert {*weight_files.open_reader(str(tmp_path)).shapes} == {
    "bert.a",
    "bert.b",
  }


@pytest.mark.parametrize(
  "make, message",
  [
    (
      lambda torch: torch.nn.Linear(3, 2),
      r"\(Unsupported global: GLOBAL torch.nn.modules.linear.Linear was not",
    ),
    (lambda torch: {"a": 3}, "no named tensors"),
    (lambda torch: torch.ones(2), "no named tensors"),
    (
      lambda torch: {"a": torch.ones(1).to(torch.float8_e4m3fn)},
      "a is of type F8_E4M3FN; expected one of",
    ),
    (lambda torch: {"a": torch.ones(1).to(torch.int8)}, "a is of type I8; exp"),
  ],
)
def test_other_contents_are_refused(tmp_path, make, message):
  write(tmp_path, make(pytest.importorskip("torch")))
  with pytest.raises(errors.InputError, match=f"pytorch_model.bin.*{message}"):
    weight_files.open_reader(str(tmp_path))


@pytest.mark.parametrize("is_zip", [True, False])
def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path, is_zip):
  torch = pytest.importorskip("torch")
  write(tmp_path, {"a": torch.ones(9)}, _use_new_zipfile_serialization=is_zip)
  path = tmp_path / "pytorch_model.bin"
  data = path.read_bytes()
  for length in range(0, len(data) - 1, 11):
    path.write_bytes(data[:length])
    with pytest.raises(errors.InputError, match=f"^{path} cannot .*copy it a"):
      weight_files.open_reader(str(path))


def test_a_changed_byte_is_found_by_its_checksum(tmp_path):
  torch = pytest.importorskip("torch")
  write(tmp_path, {"bert.a": torch.full([9], 0.1)})
  path = tmp_path / "pytorch_model.bin"
  weight_files.open_reader(str(path))  # Caches that the file is intact.
  value = np.float32(0.1).tobytes()
  path.write_bytes(path.read_bytes().replace(value, b"\0" + value[1:], 1))
  with pytest.raises(
    errors.InputError, match="its entry .*data/0 is damaged.*copy"
  ):
    weight_files.open_reader(str(path))


class FakeTensor:
  """A torch.Tensor of a type that NumPy may lack."""

  def __init__(self, dtype, value):
    self.dtype, self.value = f"torch.{dtype}", np.array(value)
    self.shape = self.value.shape

  def element_size(self):
    return int("".join(filter(str.isdecimal, self.dtype)) or 8) // 8

  def is_floating_point(self):
    return "float" in self.dtype

  def float(self):
    return FakeTensor("float32", self.value.astype(np.float32))

  def to_dense(self):
    return self

  def numpy(self, *, force):
    assert force and self.dtype != "torch.bfloat16"
    return self.value


@pytest.fixture
def fake_torch(tmp_path, monkeypatch):
  """A stand-in for torch, so that reading is tested without the package.

  A test sets `state`, what torch.load returns; `options` has its arguments.
  """

  def load(path, **options):
    fake.options = options
    if isinstance(fake.state, BaseException):
      raise fake.state
    return fake.state

  fake = types.SimpleNamespace(load=load, Tensor=FakeTensor, state={})
  monkeypatch.setitem(sys.modules, "torch", fake)
  monkeypatch.setattr(program, "installed_version", lambda package: "2.6")
  return fake


@pytest.mark.parametrize("entry", ["", "state_dict", "model"])
@pytest.mark.parametrize("is_zip", [True, False])
def test_what_torch_loads_is_read(tmp_path, fake_torch, is_zip, entry):
  path = tmp_path / "pytorch_model.bin"
  path.write_bytes(b"pickle")
  if is_zip:
    with zipfile.ZipFile(path, "w") as archive:
      archive.writestr("data/0", b"value")
  tensors = {
    "bert.a": FakeTensor("float32", [1.5, 2]),
    "bert.b": FakeTensor("bfloat16", [[0.5]]),
    "bert.c": FakeTensor("int16", [3]),
    "bert.d": FakeTensor("bool", True),
    "bert.e": FakeTensor("float64", [0.1]),
    7: FakeTensor("float32", [1.0]),
    "bert.step": 12,
  }
  fake_torch.state = {"epoch": 3, entry: tensors} if entry else tensors
  reader = weight_files.open_reader(str(tmp_path))
  assert fake_torch.options == {
    "map_location": "cpu",
    "weights_only": True,
    "mmap": is_zip,
  }
  assert [*reader.shapes] == [f"bert.{name}" for name in "abcde"]
  for name, shape in reader.shapes.items():
    value, expected = reader.read(name), tensors[name].value
    assert value.shape == shape
    is_half = name == "bert.b"
    assert value.dtype == (np.float32 if is_half else expected.dtype)
    np.testing.assert_array_equal(value, expected)
  assert reader.notes == ["weights are converted from BF16 to float32"]


_LONG = "Weights only load failed. Re-run it. WeightsUnpickler error: "


@pytest.mark.parametrize(
  "state, reason",
  [
    (RuntimeError(f"{_LONG}Unsupported x. Please y"), "(Unsupported x)"),
    (RuntimeError("one line\nanother"), "(one line)"),
    (EOFError(), "(EOFError)"),
    ({"bert.a": 3}, "no named tensors"),
    ([FakeTensor("float32", [1])], "no named tensors"),
    ({"bert.a": FakeTensor("uint8", [1])}, "bert.a is of type U8;"),
    ({"bert.a": FakeTensor("int8", [1])}, "bert.a is of type I8;"),
    ({"bert.a": FakeTensor("float8_e5m2", [1])}, "bert.a is of type F8_E5M2;"),
  ],
)
def test_what_torch_cannot_load_is_named(tmp_path, fake_torch, state, reason):
  path = tmp_path / "pytorch_model.bin"
  path.write_bytes(b"pickle")
  fake_torch.state = state
  with pytest.raises(errors.InputError) as refused:
    weight_files.open_reader(str(tmp_path))
  assert str(path) in str(refused.value) and reason in str(refused.value)


def test_full_memory_is_no_damage(tmp_path, fake_torch):
  (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
  fake_torch.state = MemoryError()
  with pytest.raises(MemoryError):
    weight_files.open_reader(str(tmp_path))


def test_a_damaged_entry_of_a_zip_is_found_anew(tmp_path, fake_torch):
  path = tmp_path / "pytorch_model.bin"
  with zipfile.ZipFile(path, "w") as archive:
    archive.writestr("data/0", b"value")
  fake_torch.state = {"bert.a": FakeTensor("float32", [1])}
  weight_files.open_reader(str(tmp_path))  # Caches that the file is intact.
  path.write_bytes(path.read_bytes().replace(b"value", b"velue"))
  stat = path.stat()
  os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 10**9))
  with pytest.raises(errors.InputError, match="entry data/0 is damaged"):
    weight_files.open_reader(str(tmp_path))


@pytest.mark.parametrize(
  "version, message",
  [
    ("", r"installed: none\): run pip install"),
    ("2.5.1+cpu", r"installed: 2.5.1.cpu\): run pip install"),
    ("2.6.0", None),
    ("3.0", None),
  ],
)
def test_torch_is_needed_only_for_its_own_files(
  tmp_path, version, message, monkeypatch
):
  monkeypatch.setattr(program, "installed_version", lambda package: version)
  path = tmp_path / "0_Transformer" / "pytorch_model.bin"
  path.parent.mkdir()
  path.touch()
  if message:
    with pytest.raises(errors.InputError, match=f"^{path} .*{message}"):
      weight_files.open_reader(str(tmp_path))
  else:
    assert model_folder.weights_file(str(tmp_path)) == str(path)
  preferred = tmp_path / "model.safetensors"
  safetensors.numpy.save_file({"bert.a": np.ones(2, np.float32)}, preferred)
  assert model_folder.weights_file(str(tmp_path)) == str(preferred)
  assert list(weight_files.open_reader(str(tmp_path)).shapes) == ["bert.a"]


@pytest.mark.skipif(
  program.installed_version("torch") != "", reason="torch is installed"
)
@pytest.mark.parametrize(
  "script, flag, flags",
  [
    ("run_squad.py", "model_dir", {"do_predict": True, "output_dir": "out"}),
    ("convert_checkpoint.py", "input", {"to": "tf1", "output": "out"}),
  ],
)
def test_missing_torch_is_reported_before_tensorflow_is_loaded(
  script, flag, flags, tmp_path
):
  (tmp_path / "config.json").write_text('{"model_type": "bert"}')
  (tmp_path / "pytorch_model.bin").touch()
  if script == "run_squad.py":
    flags = {**flags, "predict_file": tmp_path / "config.json"}
  finished = subprocess.run(
    [
      sys.executable,
      "-X",
      "importtime",
      script,
      *script_runner.command_line({flag: tmp_path, **flags}),
    ],
    capture_output=True,
    text=True,
    cwd=script_runner.ROOT,
  )
  assert finished.returncode == 1
  expected = f"error: {tmp_path}/pytorch_model.bin needs torch 2.6"
  assert expected in finished.stderr
  assert "| tensorflow" not in finished.stderr
