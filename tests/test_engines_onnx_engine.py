"""ONNX Runtime is imported without its telemetry."""

import os
import subprocess
import sys

import pytest

import engine_models
from common import errors
from script_runner import ROOT

pytest.importorskip("onnxruntime")

from engines import onnx_engine, onnx_graph

RUN = """
import os, sys, time
from engines import onnx_engine
engine = onnx_engine.OnnxEngine(sys.argv[1])
engine.run([[2]], [[1]], [[0]])
time.sleep(1)  # It would write from a thread of its own.
print(os.environ["ORT_DISABLE_TELEMETRY"])
"""


@pytest.mark.parametrize("given, used", [(None, "1"), ("0", "0")])
def test_nothing_is_written_below_the_user_s_folder(given, used, tmp_path):
  path = tmp_path / "model.onnx"
  config = engine_models.config_of(num_hidden_layers=1)
  weights = engine_models.network(config, "embedding")[-1]
  onnx_graph.write(str(path), onnx_graph.make("embedding", weights, config))
  home = tmp_path / "home"
  home.mkdir()
  names = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
  env = {**os.environ, **dict.fromkeys(names, str(home))}
  env.pop("ORT_DISABLE_TELEMETRY", None)
  if given:
    env["ORT_DISABLE_TELEMETRY"] = given
  done = subprocess.run(
    [sys.executable, "-B", "-c", RUN, str(path)], cwd=ROOT, env=env, text=True,
    capture_output=True, check=True,
  )
  assert done.stdout == f"{used}\n"
  if used == "1":
    # Others, such as Keras, have folders there.
    assert not list(home.rglob("*[Mm]icrosoft*"))


def test_weights_outside_of_the_folder_are_refused(tmp_path):
  """By ONNX Runtime itself."""
  import onnx

  pytest.importorskip("onnxruntime", "1.24", reason="older ones read them")

  (tmp_path / "in").mkdir()
  (tmp_path / "x.bin").write_bytes(bytes(16))
  tensor = onnx.TensorProto(
    name="w", data_type=1, dims=[4], data_location=onnx.TensorProto.EXTERNAL
  )
  for key, value in {"location": "../x.bin", "length": "16"}.items():
    tensor.external_data.add(key=key, value=value)
  values = [
    onnx.helper.make_tensor_value_info(name, 1, [4])
    for name in ("input_ids", "b")
  ]
  node = onnx.helper.make_node("Add", ["input_ids", "w"], ["b"])
  graph = onnx.helper.make_graph([node], "g", values[:1], values[1:], [tensor])
  model = onnx.helper.make_model(
    graph, ir_version=10, opset_imports=[onnx.helper.make_opsetid("", 20)]
  )
  path = tmp_path / "in" / "model.onnx"
  path.write_bytes(model.SerializeToString())
  with pytest.raises(errors.InputError, match="cannot be read by ONNX Runtime"):
    onnx_engine.OnnxEngine(str(path))
