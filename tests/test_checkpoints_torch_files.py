"""PyTorch's files (pytorch_model.bin) are read if torch is installed."""

import collections
import subprocess
import sys

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
