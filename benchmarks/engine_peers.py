"""Vectors of texts by torch, ONNX Runtime and OpenVINO, for engine_speed.py.

The mean of the last states, of length 1, of a model of Hugging Face's; the
graph is torch's own ONNX export, pooling included. int8 is what
sentence-transformers makes: ONNX Runtime's dynamic quantization with signed
weights, and OpenVINO's by NNCF, calibrated on 200 texts.
"""

import os
import random

import numpy as np
import tokenizers
import torch

MAX_TOKENS = 128
BATCH = 32
_NAMES = ("input_ids", "attention_mask", "token_type_ids")


class _Peer:
  """Sorts texts by length, as all programs here do, and pads each batch."""

  def __init__(self, folder):
    self._tokenizer = tokenizers.Tokenizer.from_file(
      os.path.join(folder, "tokenizer.json")
    )
    self._tokenizer.no_padding()
    self._tokenizer.enable_truncation(MAX_TOKENS)

  def embed(self, texts):
    """Returns unit vectors [N, H]."""
    encoded = self._tokenizer.encode_batch(texts)
    lengths = np.array([len(each.ids) for each in encoded])
    order = np.argsort(-lengths, kind="stable")
    size = max(BATCH, min(len(texts), 64) if lengths.max() <= 16 else 0)
    found = [None] * len(texts)
    for start in range(0, len(texts), size):
      rows = order[start : start + size]
      ids = np.zeros([len(rows), lengths[rows[0]]], np.int64)
      mask = np.zeros_like(ids)
      for place, row in enumerate(rows):
        ids[place, : lengths[row]] = encoded[row].ids
        mask[place, : lengths[row]] = 1
      vectors = self._vectors(ids, mask, np.zeros_like(ids))
      for row, vector in zip(rows, vectors):
        found[row] = vector
    return np.stack(found)


class _Pooled(torch.nn.Module):
  """The network with the mean of its states, and length 1."""

  def __init__(self, folder):
    import transformers

    super().__init__()
    self.network = transformers.AutoModel.from_pretrained(
      folder, attn_implementation="sdpa"
    )

  def forward(self, input_ids, attention_mask, token_type_ids):
    states = self.network(
      input_ids=input_ids, attention_mask=attention_mask,
      token_type_ids=token_type_ids,
    ).last_hidden_state
    mask = attention_mask[:, :, None].to(states.dtype)
    mean = (states * mask).sum(1) / mask.sum(1)
    return torch.nn.functional.normalize(mean, dim=1)


class Torch(_Peer):
  """Eager mode with scaled-dot-product attention; bfloat16 weights."""

  def __init__(self, folder, numbers, made):
    del made
    super().__init__(folder)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    self._model = _Pooled(folder).eval().to(getattr(torch, numbers))

  def _vectors(self, *arrays):
    with torch.inference_mode():
      found = self._model(*map(torch.from_numpy, arrays))
    return found.float().numpy()


def _onnx_file(folder, made):
  """Returns the path of torch's export, made once."""
  path = os.path.join(made, "model.onnx")
  if not os.path.exists(path):
    example = tuple(torch.ones([2, 8], dtype=torch.int64) for _ in _NAMES)
    axes = {name: {0: "batch", 1: "length"} for name in _NAMES}
    torch.onnx.export(
      _Pooled(folder).eval(), example, path, input_names=list(_NAMES),
      output_names=["embedding"], opset_version=17, dynamo=False,
      dynamic_axes={**axes, "embedding": {0: "batch"}},
    )
  return path


class OnnxRuntime(_Peer):
  """CPUExecutionProvider with all of its own optimizations."""

  def __init__(self, folder, numbers, made):
    import onnxruntime
    from onnxruntime import quantization

    super().__init__(folder)
    path = _onnx_file(folder, made)
    if numbers == "int8":
      smaller = os.path.join(made, "model_int8.onnx")
      if not os.path.exists(smaller):
        quantization.quantize_dynamic(
          path, smaller, weight_type=quantization.QuantType.QInt8
        )
      path = smaller
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    self._session = onnxruntime.InferenceSession(path, options)

  def _vectors(self, *arrays):
    return self._session.run(None, dict(zip(_NAMES, arrays)))[0]


class OpenVino(_Peer):
  """CPU plugin, latency hint."""

  def __init__(self, folder, numbers, made):
    import openvino

    super().__init__(folder)
    core = openvino.Core()
    model = core.read_model(_onnx_file(folder, made))
    options = {"INFERENCE_PRECISION_HINT": "f32"}
    if numbers == "bfloat16":
      options = {"INFERENCE_PRECISION_HINT": "bf16"}
    if numbers == "int8":
      model = self._quantized(core, model, folder, made)
    options["INFERENCE_NUM_THREADS"] = len(os.sched_getaffinity(0))
    self._model = core.compile_model(model, "CPU", options)
    self._request = self._model.create_infer_request()

  def _quantized(self, core, model, folder, made):
    import nncf

    import engine_speed

    path = os.path.join(made, "int8.xml")
    if os.path.exists(path):
      return core.read_model(path)
    rng, batches = random.Random(0), []
    for _ in range(200):
      texts = engine_speed.make_texts(folder, 1, rng.randint(8, MAX_TOKENS))
      ids = np.array([self._tokenizer.encode(texts[0]).ids], np.int64)
      batches.append(
        dict(zip(_NAMES, (ids, np.ones_like(ids), np.zeros_like(ids))))
      )
    model = nncf.quantize(
      model, nncf.Dataset(batches), model_type=nncf.ModelType.TRANSFORMER,
      subset_size=len(batches),
    )
    import openvino

    openvino.save_model(model, path)
    return model

  def _vectors(self, *arrays):
    found = self._request.infer(dict(zip(_NAMES, arrays)), share_inputs=True)
    return found[0]
