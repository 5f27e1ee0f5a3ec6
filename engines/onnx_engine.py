"""Runs the network of an ONNX folder without TensorFlow."""

import numpy as np
import numpy.typing as npt

from common import errors, process_pool
from engines import network_file

with errors.needs_extra("onnx"):
  import onnxruntime


class OnnxEngine:
  """Maps token ids to output arrays with ONNX Runtime.

  Attributes:
    outputs: names of the arrays that `run` returns.
  """

  def __init__(self, path: str, threads: int = 0):
    """Loads a model.

    Args:
      path: path of an .onnx file, or of a folder with model.onnx.
      threads: number of threads for a batch; 0 means one thread per core.

    Raises:
      InputError: the file is missing, damaged, or from another project.
    """
    path = network_file.model_path(path, "onnx")
    options = onnxruntime.SessionOptions()
    # ONNX Runtime's default also counts cores that this process may not use.
    options.intra_op_num_threads = threads or process_pool.default_processes()
    options.log_severity_level = 3  # Log only errors.
    try:
      self._session = onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"]
      )
    # ONNX Runtime's exceptions have no common base class.
    except Exception as error:
      raise errors.InputError(
        f"{path} cannot be read by ONNX Runtime ({error}); export it again"
      ) from error
    self.outputs = [output.name for output in self._session.get_outputs()]
    self._inputs = [value.name for value in self._session.get_inputs()]
    network_file.check_inputs(path, self._inputs)

  def run(
    self,
    input_ids: npt.ArrayLike,
    input_mask: npt.ArrayLike,
    segment_ids: npt.ArrayLike,
    *,
    outputs: list[str] | None = None,
  ) -> dict[str, np.ndarray]:
    """Returns {name: float32 array} for integers [B, T].

    Args:
      outputs: names of the outputs to return; None means all.
    """
    feed = network_file.feed(
      self._inputs, np.int64, input_ids, input_mask, segment_ids
    )
    names = outputs or self.outputs
    return dict(zip(names, self._session.run(names, feed)))
