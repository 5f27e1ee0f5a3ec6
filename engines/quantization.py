"""An ONNX model with weights of 8 bits.

Matrices have one scale for each column: with one for all of MiniLM-L6's
vectors, their least cosine to those of float32 is 0.94, not 0.99. They use 7 of
the 8 bits: sums of products overflow without VNNI otherwise, and unsigned ones,
which do not, take 1.6 times as long with VNNI.
States become 8 bits as they are computed (dynamic quantization); softmax, layer
norm and the last product of a head stay float32.
"""

import logging
import os

import numpy as np

from common import errors
from engines import onnx_graph

with errors.needs_extra("onnx"):
  import onnx
  from onnx import numpy_helper
  from onnxruntime import quantization


def quantize(path: str) -> None:
  """Replaces a model's file by one of 8 bits."""
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
      model, smaller, per_channel=True, reduce_range=True,
      weight_type=quantization.QuantType.QInt8,
      # Not the products of states with states.
      op_types_to_quantize=["MatMul", "Gather"],
      extra_options={"MatMulConstBOnly": True},
    )
  finally:
    logging.disable(logging.NOTSET)
  os.replace(smaller, path)
  if os.path.exists(data):
    os.remove(data)


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
