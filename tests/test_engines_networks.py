"""Tests the fillings from an engine's logits, and scales of int8 weights."""

import numpy as np
import onnx

import engine_models
from engines import networks
from exports import onnx_graph, quantization


class Engine:
  """Returns the same logits for every batch."""

  def __init__(self, logits):
    self._logits = np.asarray(logits, np.float32)

  def run(self, *, outputs, **batch):
    assert outputs == ["logits"]
    return {"logits": self._logits}


def fillings(logits, num_words, top_k, positions):
  options = networks.OutputOptions("masked_lm", top_k)
  network = networks.of_engine(Engine(logits), options, num_words)
  outputs = network(masked_lm_positions=positions)
  return outputs["fillings"].tolist(), outputs["probabilities"]


def test_padding_rows_of_the_table_are_no_fillings():
  logits = [
    [[0.0, 1.0, 99.0], [2.0, 0.0, 99.0]]
  ]  # Row 2 of the table is padding.
  words, probabilities = fillings(logits, 2, 3, [[1, 0]])
  assert words == [[[0, 1], [1, 0]]]
  np.testing.assert_allclose(probabilities.sum(-1), 1, atol=1e-6)


def test_equal_fillings_are_in_order_of_their_ids():
  # An unstable sort would reorder this many equal logits.
  logits = np.zeros([1, 1, 100], np.float32)
  logits[..., 60] = 1
  words, _ = fillings(logits, 100, 99, [[0]])
  assert words == [[[60, *range(60), *range(61, 99)]]]


def test_each_column_of_a_matrix_has_a_scale_of_its_own(tmp_path):
  path = str(tmp_path / "model.onnx")
  config = engine_models.config_of(num_hidden_layers=1, intermediate_size=24)
  weights = engine_models.network(config, "embedding")[-1]
  onnx_graph.write(path, onnx_graph.make("embedding", weights, config))
  quantization.quantize(path)
  graph = onnx.load(path).graph
  sizes = {
    tensor.name: int(np.prod(tensor.dims))
    for tensor in graph.initializer
    if tensor.name.endswith("kernel_scale")
  }
  assert len(sizes) >= 6
  inner = {size for name, size in sizes.items() if "intermediate" in name}
  assert inner == {24}
  assert min(sizes.values()) > 1


def test_int8_leaves_no_file_of_float32_weights(tmp_path):
  path = tmp_path / "model.onnx"
  config = engine_models.config_of(num_hidden_layers=1)
  weights = engine_models.network(config, "embedding")[-1]
  graph = onnx_graph.make("embedding", weights, config)
  onnx_graph.write(str(path), graph, most_bytes=100)
  assert (tmp_path / onnx_graph.DATA_FILE).exists()
  quantization.quantize(str(path))
  assert [*tmp_path.iterdir()] == [path]
