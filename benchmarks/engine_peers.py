"""Runs networks in torch, ONNX Runtime and OpenVINO, for the other scripts.

ONNX Runtime and OpenVINO run torch's ONNX export. As in sentence-transformers,
int8 is dynamic quantization with signed weights in ONNX Runtime; in OpenVINO,
it is NNCF's, calibrated on 200 examples. A process loads only one engine.
"""

import os
import pathlib
import shutil
import tempfile

import numpy as np
import tokenizers

_MAX_TOKENS = 128
_NAMES = ("input_ids", "attention_mask", "token_type_ids")


def network(source, head):
  """Returns a torch.nn.Module that maps ids, mask, segments [B, T] to a result.

  `source` is a folder in Hugging Face's layout or, for random weights, a
  transformers.BertConfig. The `head` "embedding" returns the normalized mean of
  the last hidden states [B, H]; "classification" returns logits [B, labels].
  """
  import torch
  import transformers

  class Network(torch.nn.Module):
    def __init__(self, bert):
      super().__init__()
      self.bert = bert

    def forward(self, *tensors):
      output = self.bert(**dict(zip(_NAMES, tensors)))
      if head == "classification":
        return output.logits
      mask = tensors[1][:, :, None].to(output.last_hidden_state.dtype)
      mean = (output.last_hidden_state * mask).sum(1) / mask.sum(1)
      return torch.nn.functional.normalize(mean, dim=1)

  auto = transformers.AutoModel
  if head == "classification":
    auto = transformers.AutoModelForSequenceClassification
  is_random = isinstance(source, transformers.PretrainedConfig)
  make = auto.from_config if is_random else auto.from_pretrained
  return Network(make(source, attn_implementation="sdpa")).eval()


def on_torch(source, head, dtype):
  """Returns a function from int64 ids, mask, segments [B, T] to the result.

  The network runs in eager mode with scaled-dot-product attention. `dtype` is
  "float32", "bfloat16" (autocast), or "onednn" (oneDNN in float32).
  """
  import torch
  from torch.utils import mkldnn

  torch.set_num_threads(len(os.sched_getaffinity(0)))
  module = network(source, head)
  if dtype == "onednn":
    module = mkldnn.to_mkldnn(module)
  is_bfloat16 = dtype == "bfloat16"

  def compute(*arrays):
    cast = torch.autocast("cpu", torch.bfloat16, enabled=is_bfloat16)
    with torch.inference_mode(), cast:
      return module(*map(torch.from_numpy, arrays)).float().numpy()

  return compute


def on_onnx_runtime(path, dtype):
  """Like on_torch for a .onnx file; ONNX Runtime optimizes the graph."""
  import onnxruntime

  del dtype  # The file determines the dtype.
  options = onnxruntime.SessionOptions()
  options.intra_op_num_threads = len(os.sched_getaffinity(0))
  session = onnxruntime.InferenceSession(str(path), options)
  return lambda *arrays: session.run(None, dict(zip(_NAMES, arrays)))[0]


def on_openvino(path, dtype):
  """Like on_torch for a .xml file; all CPU threads work on the same batch."""
  import openvino

  core = openvino.Core()
  options = {
    # Set float32 explicitly: some processors use bfloat16 by default.
    "INFERENCE_PRECISION_HINT": "bf16" if dtype == "bfloat16" else "f32",
    "INFERENCE_NUM_THREADS": len(os.sched_getaffinity(0)),
  }
  model = core.compile_model(core.read_model(path), "CPU", options)
  request = model.create_infer_request()

  def compute(*arrays):
    return request.infer(dict(zip(_NAMES, arrays)), share_inputs=True)[0]

  return compute


ON_FILES = {"OnnxRuntime": on_onnx_runtime, "OpenVino": on_openvino}


class Texts:
  """A peer's engine with a tokenizer, to compute results for texts."""

  def __init__(self, engine, folder, batch_size=None):
    """`batch_size` None means 32, or 64 if no text has more than 16 tokens."""
    self._engine, self._batch_size = engine, batch_size
    path = os.path.join(folder, "tokenizer.json")
    self._tokenizer = tokenizers.Tokenizer.from_file(path)
    self._tokenizer.no_padding()
    self._tokenizer.enable_truncation(_MAX_TOKENS)

  def compute(self, texts):
    """Returns the results [N, n] for a list of texts or of pairs of texts."""
    encoded = self._tokenizer.encode_batch(texts)
    lengths = np.array([len(encoding.ids) for encoding in encoded])
    # Sort texts by length, as all contenders do, and pad each batch.
    order = np.argsort(-lengths, kind="stable")
    size = self._batch_size or (64 if lengths.max() <= 16 else 32)
    results = [None] * len(texts)
    for start in range(0, len(texts), size):
      indices = order[start : start + size]
      arrays = self.arrays([encoded[index] for index in indices])
      for index, result in zip(indices, self._engine(*arrays)):
        results[index] = result
    return np.stack(results)

  def arrays(self, encoded):
    """Returns ids, mask, segments [B, T]; the first text must be longest."""
    for encoding in encoded:
      encoding.pad(len(encoded[0]))
    names = ("ids", "attention_mask", "type_ids")
    return [
      np.array([getattr(text, name) for text in encoded]) for name in names
    ]

  def samples(self, texts):
    """Returns a list with an engine's inputs for each text."""
    encoded = self._tokenizer.encode_batch(texts)
    return [dict(zip(_NAMES, self.arrays([text]))) for text in encoded]


def make(engine, dtype, source, head, path, samples=None):
  """Writes the .onnx or .xml file that an engine of ON_FILES loads.

  For `source` and `head` see `network`; `samples` is a function that returns
  batches for the calibration of int8.
  """
  with tempfile.TemporaryDirectory() as folder:
    graph = pathlib.Path(folder, "model.onnx")
    _export(network(source, head), graph)
    if engine == "OpenVino":
      _to_openvino(graph, path, samples() if dtype == "int8" else [])
    elif dtype == "int8":
      from onnxruntime import quantization

      signed = quantization.QuantType.QInt8
      quantization.quantize_dynamic(graph, path, weight_type=signed)
    else:
      shutil.move(graph, path)


def _to_openvino(graph, path, samples):
  """Converts a .onnx file to a .xml file, in int8 if there are samples."""
  import openvino

  model = openvino.Core().read_model(graph)
  if samples:
    import nncf

    kind, data = nncf.ModelType.TRANSFORMER, nncf.Dataset(samples)
    size = len(samples)
    model = nncf.quantize(model, data, model_type=kind, subset_size=size)
  openvino.save_model(model, path, compress_to_fp16=False)


def _export(module, path):
  """Writes torch's ONNX graph for any batch size and length."""
  import torch

  example = tuple(torch.ones([2, 8], dtype=torch.int64) for _ in _NAMES)
  axes = {name: {0: "batch", 1: "length"} for name in _NAMES}
  torch.onnx.export(
    module,
    example,
    str(path),
    input_names=list(_NAMES),
    output_names=["result"],
    dynamo=False,
    # From opset 20 on, GELU is one operation, which saves a tenth of the time.
    # The fusions for BERT in onnxruntime.transformers made the graph slower.
    opset_version=20,
    dynamic_axes={**axes, "result": {0: "batch"}},
  )


class Classifier:
  """transformers' two-label classifier in an engine, for step_speed.py."""

  def __init__(self, values, *, dtype, engine):
    import transformers

    # As in this project, GELU has the tanh form and is a single operation.
    values = {**values, "hidden_act": "gelu_pytorch_tanh", "num_labels": 2}
    config = transformers.BertConfig(**values)
    with tempfile.TemporaryDirectory() as folder:
      path = pathlib.Path(folder, "model.onnx")
      make("OnnxRuntime", "float32", config, "classification", path)
      self._engine = ON_FILES[engine](path, dtype)

  def predict(self, batch):
    """Computes the logits of a batch: ids, mask, segments [B, T], ..."""
    self._engine(*(array.astype(np.int64) for array in batch[:3]))
