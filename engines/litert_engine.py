"""Runs the network of a LiteRT folder without TensorFlow."""

import threading
from concurrent import futures

import numpy as np
import numpy.typing as npt

from common import errors, process_pool
from engines import network_file

with errors.needs_extra("litert"):
  from ai_edge_litert import interpreter

# Outputs for tokens that have only two axes.
_SPANS = ("start_logits", "end_logits")


class LiteRTEngine:
  """Maps ids to arrays, like onnx_engine.OnnxEngine.

  Attributes:
    outputs: names of the arrays that `run` returns.
    lengths: lengths of the file's signatures, ascending.
  """

  def __init__(self, path: str, threads: int = 0):
    """Loads a model.

    Args:
      path: path of a folder with model.tflite, or of such a file.
      threads: how many threads compute one text together, or several texts in
        parallel; 0 means one for each core.

    Raises:
      InputError: the file is missing, damaged, or from another project.
    """
    path = network_file.model_path(path, "litert")
    self._threads = threads or process_pool.default_processes()
    try:
      with open(path, "rb") as stream:
        # Workers load the model later, when the file may be gone.
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
    # An interpreter has only one set of intermediate results, so this one needs
    # a lock, and each worker has a separate interpreter.
    self._lock = threading.Lock()
    self._workers = futures.ThreadPoolExecutor(self._threads)
    self._of_worker = threading.local()

  def _open(self, threads):
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

    Each text is computed alone, with the shortest signature that fits all. If
    there are several texts, each thread computes some of them, which takes half
    the time of sharing each text among all threads.

    Args:
      outputs: names of the outputs to return; None means all.

    Raises:
      InputError: no signature is as long as T.
    """
    feed = network_file.feed(
      self._inputs, np.int32, input_ids, input_mask, segment_ids
    )
    length = feed["input_ids"].shape[1]
    fitting = [n for n in self.lengths if n >= length]
    if not fitting:
      raise errors.InputError(
        f"a sequence has {length} tokens; the longest that this LiteRT model "
        f"takes has {self.lengths[-1]}: export it with larger --lengths"
      )
    # No token attends to the padding: its mask is 0.
    padding = [(0, 0), (0, fitting[0] - length)]
    feed = {name: np.pad(rows, padding) for name, rows in feed.items()}
    name = network_file.signature_name(fitting[0])
    count = len(feed["input_ids"])
    parts = min(self._threads, count)
    rows: list = [None] * count

    def work(part):
      if not hasattr(self._of_worker, "interpreter"):
        self._of_worker.interpreter = self._open(1)
      return _computed(self._of_worker.interpreter, name, feed, part, parts)

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


def _computed(loaded, name, feed, first=0, step=1):
  """Returns the outputs of every `step`-th text, from the `first` one on."""
  compute = loaded.get_signature_runner(name)
  return [
    compute(**{n: ids[[row]] for n, ids in feed.items()})
    for row in range(first, len(feed["input_ids"]), step)
  ]


def _without_padding(name, rows, length):
  """Joins B arrays [1, ...] and cuts outputs for tokens to `length`."""
  joined = np.concatenate(rows)
  is_of_tokens = joined.ndim == 3 or name in _SPANS
  return joined[:, :length] if is_of_tokens else joined
