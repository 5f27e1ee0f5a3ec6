"""An ONNX model with weights of 8 bits, and how far its answers move.

Matrices have one scale for each column: with one for all of MiniLM-L6's
vectors, their least cosine to those of float32 is 0.94, not 0.99. They are
unsigned, since products of signed ones overflow on processors without VNNI.
States become 8 bits as they are computed (dynamic quantization); softmax, layer
norm and the last product of a head stay float32.
"""

import logging
import os
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from common import errors
from engines import onnx_engine, onnx_graph

with errors.needs_extra("onnx"):
  import onnx
  from onnx import numpy_helper
  from onnxruntime import quantization


class Difference(NamedTuple):
  """Of rows of outputs, as shares of the typical length of a row.

  A row is a text's vector or logits, or those of one of its tokens.
  """

  largest: float
  mean: float


def quantize(path: str, batches: Iterable[tuple]) -> Difference:
  """Replaces a model's file by one of 8 bits.

  Args:
    batches: arguments of OnnxEngine.run, without padding: the texts to compare
      both with.
  """
  smaller = f"{path}.int8"
  model = onnx.load(path)
  _transpose_word_table(model)
  # For its warning alone: that of which it would warn is done.
  model.metadata_props.add(
    key="onnx.quant.pre_process", value="onnxruntime.quant"
  )
  data = os.path.join(os.path.dirname(path), onnx_graph.DATA_FILE)
  # It says of each state that it has no scale yet.
  logging.disable(logging.INFO)
  try:
    quantization.quantize_dynamic(
      model, smaller, per_channel=True,
      weight_type=quantization.QuantType.QUInt8,
      # Not the products of states with states.
      op_types_to_quantize=["MatMul", "Gather"],
      extra_options={"MatMulConstBOnly": True},
    )
  finally:
    logging.disable(logging.NOTSET)
  found = difference(path, smaller, batches)
  os.replace(smaller, path)
  if os.path.exists(data):
    os.remove(data)
  return found


def _transpose_word_table(model):
  """Puts the transposed table into the file, if there is a product with it.

  Only a product with what is in the file itself is quantized.
  """
  tables = {tensor.name: tensor for tensor in model.graph.initializer}
  for node in model.graph.node:
    if node.op_type == "Transpose" and node.input[0].startswith("bert/"):
      value = numpy_helper.to_array(tables[node.input[0]]).T
      value = np.ascontiguousarray(value)
      model.graph.initializer.append(
        numpy_helper.from_array(value, node.output[0])
      )
      model.graph.node.remove(node)
      return


def difference(path: str, other: str, batches: Iterable[tuple]) -> Difference:
  """Compares what two models compute."""
  first, second = (onnx_engine.OnnxEngine(name) for name in (path, other))
  # The states are in the vector, the last one.
  names = [n for n in first.outputs if n != "last_hidden_state"]
  lengths, errors_found = [], []
  for batch in batches:
    expected, found = (
      engine.run(*batch, outputs=names) for engine in (first, second)
    )
    for name, rows in expected.items():
      width = rows.shape[-1]
      rows, others = rows.reshape(-1, width), found[name].reshape(-1, width)
      lengths.append(np.linalg.norm(rows, axis=1))
      errors_found.append(np.linalg.norm(others - rows, axis=1))
  typical = np.sqrt(np.mean(np.square(np.concatenate(lengths))))
  shares = np.concatenate(errors_found) / typical
  return Difference(float(shares.max()), float(shares.mean()))
