"""A network of a LiteRT folder, run by LiteRT in place of TensorFlow."""

import threading
from concurrent import futures

import numpy as np
import numpy.typing as npt

from common import errors, process_pool
from engines import network_file

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
      threads: how many work on one text, or each on texts of its own; 0: one
        on each core.

    Raises:
      InputError: there is no such file, or it is damaged or not of this
        project.
    """
    path = network_file.model_path(path, "litert")
    self._threads = threads or process_pool.default_processes()
    try:
      with open(path, "rb") as stream:
        # Workers open it again, when the file may be gone.
        self._content = stream.read()
      self._interpreter = self._open(self._threads)
      signatures = self._interpreter.get_signature_list()
      self.lengths = network_file.lengths_of(signatures)
    # Of damaged files it raises several kinds.
    except Exception as error:
      raise errors.InputError(
        f"{path} cannot be read by LiteRT ({error}); export it again"
      ) from error
    signature = signatures[network_file.signature_name(self.lengths[0])]
    self.outputs, self._inputs = signature["outputs"], signature["inputs"]
    network_file.check_inputs(path, self._inputs)
    # An interpreter has one set of intermediate results: this one a lock, and
    # each worker one of its own.
    self._lock = threading.Lock()
    self._workers = futures.ThreadPoolExecutor(self._threads)
    self._of_worker = threading.local()

  def _open(self, threads):
    return interpreter.Interpreter(
      model_content=self._content, num_threads=threads
    )

  def run(
    self, input_ids: npt.ArrayLike, input_mask: npt.ArrayLike,
    segment_ids: npt.ArrayLike, *, outputs: list[str] | None = None,
  ) -> dict[str, np.ndarray]:
    """Returns {name: float32 array} of integers [B, T].

    Each text is computed alone, by the shortest signature that holds all: a
    single one by all threads, several by one each, which takes half the time.

    Args:
      outputs: names of those that are needed; None: all.

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
        f"a sequence of {length} tokens; the longest that this LiteRT model "
        f"takes has {self.lengths[-1]}: export it with larger --lengths"
      )
    # Not seen by any token: its mask is 0.
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
      for part, found in enumerate(self._workers.map(work, range(parts))):
        rows[part::parts] = found
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
  """Returns one array of B of them, [1, ...], of `length` tokens."""
  joined = np.concatenate(rows)
  is_of_tokens = joined.ndim == 3 or name in _SPANS
  return joined[:, :length] if is_of_tokens else joined
