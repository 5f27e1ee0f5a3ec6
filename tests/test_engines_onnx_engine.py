"""Tests that ONNX Runtime is imported without its telemetry."""

import os
import subprocess
import sys

import pytest

import engine_models
from script_runner import ROOT

pytest.importorskip("onnxruntime")

from exports import onnx_graph

RUN = """
import os, sys, time
from engines import onnx_engine
engine = onnx_engine.OnnxEngine(sys.argv[1])
engine.run([[2]], [[1]], [[0]])
time.sleep(1)  # Telemetry would be written by a separate thread.
print(os.environ["ORT_DISABLE_TELEMETRY"])
"""


@pytest.mark.parametrize("value, used", [(None, "1"), ("0", "0")])
def test_telemetry_writes_nothing_to_the_home_folder(value, used, tmp_path):
  path = tmp_path / "model.onnx"
  config = engine_models.config_of(num_hidden_layers=1)
  weights = engine_models.network(config, "embedding")[-1]
  onnx_graph.write(str(path), onnx_graph.make("embedding", weights, config))
  home = tmp_path / "home"
  home.mkdir()
  names = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
  env = {**os.environ, **dict.fromkeys(names, str(home))}
  env.pop("ORT_DISABLE_TELEMETRY", None)
  if value:
    env["ORT_DISABLE_TELEMETRY"] = value
  finished = subprocess.run(
    [sys.executable, "-B", "-c", RUN, str(path)],
    cwd=ROOT,
    env=env,
    text=True,
    capture_output=True,
    check=True,
  )
  assert finished.stdout == f"{used}\n"
  if used == "1":
    # Other libraries, such as Keras, may write there.
    assert not list(home.rglob("*[Mm]icrosoft*"))
