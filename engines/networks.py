"""Loads a head's network with the engine of its file format.

To add an engine, write a class like OnnxEngine and a branch in `load`. Add the
name of its file to network_file.FILES, a writer to exports/network_export.py,
the engine's name to common/flag_values.py, and an extra to pyproject.toml.
Letters: B sequences, T tokens, P masks, K fillings, V vocabulary.
"""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from common import run_settings
from engines import network_file

# {head: the outputs that it needs}; all other heads need "logits".
_OUTPUTS = {
  "embedding": ["sentence_embedding"],
  "span": ["start_logits", "end_logits"],
}


def engine_of(folder: str) -> str | None:
  """Returns a folder's engine, or None if it is not an ONNX or LiteRT export.

  Other programs also write model.onnx, for example, but not the settings file.
  """
  if os.path.exists(os.path.join(folder, network_file.SETTINGS)):
    for engine, name in network_file.FILES.items():
      if os.path.exists(os.path.join(folder, name)):
        return engine
  return None


def load(engine: str, path: str, threads: int = 0) -> Any:
  """Loads a network's file or folder; returns an OnnxEngine or LiteRTEngine.

  Raises InputError: the engine's package or the file is missing or unusable.
  """
  # Imported here because the engines' packages belong to extras.
  if engine == "litert":
    from engines import litert_engine

    return litert_engine.LiteRTEngine(path, threads)
  from engines import onnx_engine

  return onnx_engine.OnnxEngine(path, threads)


class OutputOptions(NamedTuple):
  """A head's function of logits; the attributes are named like the flags."""

  head: str
  top_k: int = 0
  sparse_pooling: str = ""
  sparse_activation: str = ""


def options_of(settings: run_settings.Settings) -> OutputOptions:
  """Returns the OutputOptions in the settings of a script or an export."""
  values = {name: settings.get(name) for name in OutputOptions._fields}
  return OutputOptions(**values)


def of_engine(
  loaded: Any, options: OutputOptions, num_words: int
) -> Callable[..., dict[str, np.ndarray]]:
  """Returns the network of an engine as a answering.answers.Network.

  Args:
    loaded: the result of `load`.
    options: `top_k` is for masked_lm, the last two are for sparse.
    num_words: size of the vocabulary; the embedding table may have more rows.
  """
  head = options.head

  def network(
    masked_lm_positions: npt.ArrayLike | None = None, **batch: Any
  ) -> dict[str, np.ndarray]:
    arrays = loaded.run(**batch, outputs=_OUTPUTS.get(head, ["logits"]))
    if head == "embedding":
      return {"embedding": arrays["sentence_embedding"]}
    if head == "tagging":
      return {"probabilities": np.exp(_log_softmax(arrays["logits"]))}
    if head == "next_sentence":
      return {"log_probabilities": _log_softmax(arrays["logits"])}
    if head == "masked_lm":
      positions = np.asarray(masked_lm_positions)[..., np.newaxis]  # [B, P, 1]
      logits = np.take_along_axis(arrays["logits"], positions, 1)  # [B, P, V]
      probabilities = np.exp(_log_softmax(logits[..., :num_words]))
      return _fillings(probabilities, options.top_k)
    if head == "sparse":
      weights = _word_weights(arrays["logits"], batch["input_mask"], options)
      return {"embedding": weights}
    return arrays

  return network


def _log_softmax(logits: np.ndarray) -> np.ndarray:
  shifted = logits - logits.max(-1, keepdims=True)
  return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def _word_weights(
  logits: np.ndarray, input_mask: np.ndarray, options: OutputOptions
) -> np.ndarray:
  """Returns weights [B, V] for logits [B, T, V], as in sparse_vectors."""
  weights = logits * np.asarray(input_mask)[..., np.newaxis]
  if options.sparse_pooling == "max":
    weights = weights.max(1, keepdims=True)
  weights = np.log1p(np.maximum(weights, 0, dtype=np.float32))
  if options.sparse_activation == "log1p_relu":
    weights = np.log1p(weights)
  return weights.sum(1)


def _fillings(probabilities: np.ndarray, count: int) -> dict:
  """Returns `fillings` and `probabilities` [B, P, K], the likeliest first."""
  # A stable sort puts the lower of two tied ids first, like tf.math.top_k.
  best = np.argsort(-probabilities, kind="stable")[..., :count]
  return {
    "fillings": best,
    "probabilities": np.take_along_axis(probabilities, best, -1),
  }
