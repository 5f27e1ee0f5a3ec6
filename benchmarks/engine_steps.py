"""Inference in ONNX Runtime and OpenVINO, for step_speed.py."""

import pathlib
import tempfile

import numpy as np
import transformers

import engine_peers


class Classifier:
  """transformers' BertForSequenceClassification with two labels."""

  def __init__(self, values, *, dtype, engine):
    # Their name of the tanh form, which ours is, in one operation.
    config = transformers.BertConfig(
      **{**values, "hidden_act": "gelu_pytorch_tanh"}, num_labels=2
    )
    with tempfile.TemporaryDirectory() as folder:
      path = pathlib.Path(folder, "model.onnx")
      engine_peers.make(
        "OnnxRuntime", "float32", config, "classification", path
      )
      if engine == "OnnxRuntime":
        self._engine = engine_peers.OnnxRuntime(path)
      else:
        self._engine = engine_peers.OpenVino(path, dtype)

  def predict(self, batch):
    """Computes the logits of a batch, ids, mask, segments [B, T] first."""
    self._engine(*(array.astype(np.int64) for array in batch[:3]))

  def wait(self):
    """Returns at once: both compute before they return."""
