"""A network of a LiteRT folder, run by LiteRT in place of TensorFlow."""

import threading

import numpy as np
import numpy.typing as npt

from common import errors, process_pool
from engines import export_folder, litert_model

with errors.needs_extra("litert"):
  from ai_edge_litert import interpreter

# Those of tokens that have no third axis.
_SPANS = ("start_logits", "end_logits")


class LiteRTEngine:
  """Ids in, arrays out; as onnx_engine.OnnxEngine.

  Attributes:
    outputs: names of what `run` returns.
    lengths: of the file's signatures, ascending.
  """

  def __init__(self, path: str, threads: int = 0):
    """Loads a model.

    Args:
      path: of a folder with model.tflite, or of such a file.
      threads: how many work on one text; 0: one on each core.

    Raises:
      InputError: there is no such file, or it is damaged or not of this
        project.
    """
    path = export_folder.model_path(path, "litert")
    try:
      self._interpreter = interpreter.Interpreter(
        model_path=path, num_threads=threads or process_pool.default_processes()
      )
      signatures = self._interpreter.get_signature_list()
      self.lengths = litert_model.lengths_of(signatures)
    except ValueError as error:
      raise errors.InputError(
        f"{path} cannot be read by LiteRT ({error}); export it again"
      ) from error
    signature = signatures[litert_model.signature_name(self.lengths[0])]
    self.outputs, self._inputs = signature["outputs"], signature["inputs"]
    # An interpreter has one set of intermediate results.
    self._lock = threading.Lock()

  def run(
    self, input_ids: npt.ArrayLike, input_mask: npt.ArrayLike,
    segment_ids: npt.ArrayLike, *, outputs: list[str] | None = None,
  ) -> dict[str, np.ndarray]:
    """Returns {name: float32 array} of integers [B, T].

    Texts are computed one by one, by the shortest signature that holds them.

    Args:
      outputs: names of those that are needed; None: all.

    Raises:
      InputError: no signature is as long as T.
    """
    feed = export_folder.feed(
      self._inputs, np.int32, input_ids, input_mask, segment_ids
    )
    length = feed["input_ids"].shape[1]
    fitting = [n for n in self.lengths if n >= length]
    if not fitting:
      raise errors.InputError(
        f"a sequence of {length} tokens; the longest that this LiteRT model "
        f"takes has {self.lengths[-1]}: export it with larger --lengths"
      )
    # Not seen by any token: its mask is 0.
    padding = [(0, 0), (0, fitting[0] - length)]
    feed = {name: np.pad(rows, padding) for name, rows in feed.items()}
    name = litert_model.signature_name(fitting[0])
    with self._lock:
      compute = self._interpreter.get_signature_runner(name)
      found = [
        compute(**{n: rows[[row]] for n, rows in feed.items()})
        for row in range(len(feed["input_ids"]))
      ]
    return {
      name: _without_padding(name, [row[name] for row in found], length)
      for name in outputs or self.outputs
    }


def _without_padding(name, rows, length):
  """Returns one array of B of them, [1, ...], of `length` tokens."""
  joined = np.concatenate(rows)
  is_of_tokens = joined.ndim == 3 or name in _SPANS
  return joined[:, :length] if is_of_tokens else joined
