"""Runs the network of a LiteRT folder without TensorFlow."""

import threading
from concurrent import futures

import numpy as np
import numpy.typing as npt

from common import errors, process_pool
from engines import network_file

with errors.needs_extra("litert"):
  from ai_edge_litert import interpreter

# Per-token outputs with only two axes, [B, T].
_SPANS = ("start_logits", "end_logits")


class LiteRTEngine:
  """Maps token ids to output arrays, like onnx_engine.OnnxEngine.

  Attributes:
    outputs: names of the arrays that `run` returns.
    lengths: sequence lengths of the file's signatures, ascending.
  """

  def __init__(self, path: str, threads: int = 0):
    """Loads a model.

    Args:
      path: path of a .tflite file, or of a folder with model.tflite.
      threads: number of threads; 0 means one per core.

    Raises:
      InputError: the file is missing, damaged, or from another project.
    """
    path = network_file.model_path(path, "litert")
    self._threads = threads or process_pool.default_processes()
    try:
      with open(path, "rb") as stream:
        # Workers load the model later, when the file may no longer exist.
        self._content = stream.read()
      self._interpreter = self._open(self._threads)
      signatures = self._interpreter.get_signature_list()
      self.lengths = network_file.lengths_of(signatures)
    # LiteRT raises several exception types for damaged files.
    except Exception as error:
      raise errors.InputError(
        f"{path} cannot be read by LiteRT ({error}); export it again"
      ) from error
    signature = signatures[network_file.signature_name(self.lengths[0])]
    self.outputs, self._inputs = signature["outputs"], signature["inputs"]
    network_file.check_inputs(path, self._inputs)
    # An interpreter is not thread-safe: it has one buffer for intermediate
    # results. So this one has a lock, and each worker has its own interpreter.
    self._lock = threading.Lock()
    self._workers = futures.ThreadPoolExecutor(self._threads)
    self._thread_local = threading.local()

  def _open(self, threads: int) -> interpreter.Interpreter:
    return interpreter.Interpreter(
      model_content=self._content, num_threads=threads
    )

  def run(
    self,
    input_ids: npt.ArrayLike,
    input_mask: npt.ArrayLike,
    segment_ids: npt.ArrayLike,
    *,
    outputs: list[str] | None = None,
  ) -> dict[str, np.ndarray]:
    """Returns {name: float32 array} for integers [B, T].

    The engine computes each text separately, with the shortest signature that
    fits all texts. A single text uses all threads. Several texts are divided
    among the threads, which takes half the time of using all threads per text.

    Args:
      outputs: names of the outputs to return; None means all.

    Raises:
      InputError: T exceeds the length of the longest signature.
    """
    feed = network_file.feed(
      self._inputs, np.int32, input_ids, input_mask, segment_ids
    )
    length = feed["input_ids"].shape[1]
    fitting = [n for n in self.lengths if n >= length]
    if not fitting:
      raise errors.InputError(
        f"a sequence has {length} tokens, but this LiteRT model takes at most "
        f"{self.lengths[-1]}; export it again with larger --lengths"
      )
    # np.pad also pads the mask with 0, so no token attends to the padding.
    padding = [(0, 0), (0, fitting[0] - length)]
    feed = {name: np.pad(ids, padding) for name, ids in feed.items()}
    name = network_file.signature_name(fitting[0])
    count = len(feed["input_ids"])
    parts = min(self._threads, count)
    rows: list = [None] * count

    def work(part: int) -> list[dict]:
      if not hasattr(self._thread_local, "interpreter"):
        self._thread_local.interpreter = self._open(1)
      return _computed(self._thread_local.interpreter, name, feed, part, parts)

    if parts > 1:
      for part, computed in enumerate(self._workers.map(work, range(parts))):
        rows[part::parts] = computed
    else:
      with self._lock:
        rows = _computed(self._interpreter, name, feed)
    return {
      name: _without_padding(name, [row[name] for row in rows], length)
      for name in outputs or self.outputs
    }


def _computed(
  loaded: interpreter.Interpreter,
  name: str,
  feed: dict[str, np.ndarray],
  first: int = 0,
  step: int = 1,
) -> list:
  """Returns the outputs of every `step`-th text, starting with text `first`."""
  compute = loaded.get_signature_runner(name)
  return [
    compute(**{n: ids[[row]] for n, ids in feed.items()})
    for row in range(first, len(feed["input_ids"]), step)
  ]


def _without_padding(
  name: str, rows: list[np.ndarray], length: int
) -> np.ndarray:
  """Concatenates B arrays [1, ...]; cuts per-token outputs to `length`."""
  joined = np.concatenate(rows)
  is_per_token = joined.ndim == 3 or name in _SPANS
  return joined[:, :length] if is_per_token else joined
