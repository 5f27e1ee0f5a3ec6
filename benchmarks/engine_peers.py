"""torch, ONNX Runtime and OpenVINO, for engine_speed.py and engine_steps.py.

The graph is torch's own ONNX export. int8 is what sentence-transformers makes:
ONNX Runtime's dynamic quantization with signed weights, and OpenVINO's by NNCF,
calibrated on 200 examples.
"""

import os
import pathlib
import tempfile

import numpy as np
import tokenizers

MAX_TOKENS = 128
BATCH = 32
_NAMES = ("input_ids", "attention_mask", "token_type_ids")


class Torch:
  """Eager mode with scaled-dot-product attention; bfloat16 by autocast.

  "onednn": float32 with oneDNN's products instead of MKL's.
  """

  def __init__(self, folder, head, numbers):
    import torch
    from torch.utils import mkldnn

    import engine_networks

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    self._torch, self._is_mixed = torch, numbers == "bfloat16"
    self._network = engine_networks.Network(folder, head)
    if numbers == "onednn":
      self._network = mkldnn.to_mkldnn(self._network)

  def __call__(self, *arrays):
    """Returns the network's result of int64 ids, mask and segments [B, T]."""
    torch = self._torch
    with torch.inference_mode(), torch.autocast(
      "cpu", torch.bfloat16, enabled=self._is_mixed
    ):
      found = self._network(*map(torch.from_numpy, arrays))
    return found.float().numpy()


class OnnxRuntime:
  """CPUExecutionProvider with all of its own optimizations."""

  def __init__(self, path):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    self._session = onnxruntime.InferenceSession(str(path), options)

  def __call__(self, *arrays):
    """As Torch does."""
    return self._session.run(None, dict(zip(_NAMES, arrays)))[0]


class OpenVino:
  """CPU plugin, latency hint: all threads for one batch."""

  def __init__(self, path, numbers):
    import openvino

    core = openvino.Core()
    # Of a float32 graph: bfloat16 is the default where the processor has it.
    hint = "bf16" if numbers == "bfloat16" else "f32"
    model = core.compile_model(core.read_model(path), "CPU", {
      "INFERENCE_PRECISION_HINT": hint,
      "INFERENCE_NUM_THREADS": len(os.sched_getaffinity(0)),
    })
    self._request = model.create_infer_request()

  def __call__(self, *arrays):
    """As Torch does."""
    found = self._request.infer(dict(zip(_NAMES, arrays)), share_inputs=True)
    return found[0]


class Texts:
  """A peer with its tokenizer: texts in, numbers out."""

  def __init__(self, engine, folder):
    """Takes one of the above, and a folder with tokenizer.json."""
    self._engine = engine
    self._tokenizer = tokenizers.Tokenizer.from_file(
      os.path.join(folder, "tokenizer.json")
    )
    self._tokenizer.no_padding()
    self._tokenizer.enable_truncation(MAX_TOKENS)

  def compute(self, texts):
    """Returns the results [N, n] of str, or of pairs of them."""
    encoded = self._tokenizer.encode_batch(texts)
    lengths = np.array([len(each.ids) for each in encoded])
    # Sorts texts by length, as all programs here do, and pads each batch.
    order = np.argsort(-lengths, kind="stable")
    size = max(BATCH, min(len(texts), 64) if lengths.max() <= 16 else 0)
    found = [None] * len(texts)
    for start in range(0, len(texts), size):
      rows = order[start : start + size]
      arrays = self.arrays([encoded[row] for row in rows])
      for row, result in zip(rows, self._engine(*arrays)):
        found[row] = result
    return np.stack(found)

  def arrays(self, encoded):
    """Returns ids, mask and segments, int64 [B, T], the first is longest."""
    ids, mask, segments = np.zeros([3, len(encoded), len(encoded[0])], np.int64)
    for row, each in enumerate(encoded):
      ids[row, : len(each)], mask[row, : len(each)] = each.ids, 1
      segments[row, : len(each)] = each.type_ids
    return ids, mask, segments

  def samples(self, texts):
    """Returns a list of what an engine takes, one text each."""
    return [
      dict(zip(_NAMES, self.arrays([each])))
      for each in self._tokenizer.encode_batch(texts)
    ]


def make(engine, numbers, source, head, path, samples=None):
  """Writes what an engine loads, in a process of its own.

  Args:
    engine: "OnnxRuntime" or "OpenVino".
    numbers: "float32", "bfloat16" or "int8".
    source, head: as engine_networks.Network takes.
    path: .onnx or .xml, to write.
    samples: a function without arguments that returns what int8 is calibrated
      on.
  """
  import engine_networks

  network = engine_networks.Network(source, head)
  if engine == "OnnxRuntime" and numbers != "int8":
    engine_networks.export(network, path)
    return
  with tempfile.TemporaryDirectory() as folder:
    graph = pathlib.Path(folder, "model.onnx")
    engine_networks.export(network, graph)
    if engine == "OnnxRuntime":
      from onnxruntime import quantization

      quantization.quantize_dynamic(
        graph, path, weight_type=quantization.QuantType.QInt8
      )
      return
    import openvino

    model = openvino.Core().read_model(graph)
    if numbers == "int8":
      import nncf

      batches = samples()
      model = nncf.quantize(
        model, nncf.Dataset(batches), model_type=nncf.ModelType.TRANSFORMER,
        subset_size=len(batches),
      )
    openvino.save_model(model, path, compress_to_fp16=False)
