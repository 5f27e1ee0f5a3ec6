"""Loads a head's network with the engine of its file format.

Another engine needs a class like OnnxEngine, its branch of `load` here, its
file in network_file.FILES, its writer in serving/network_export.py, its name in
common/flag_values.py, and an extra.
Letters: B sequences, T tokens, P masks, K fillings, V vocabulary.
"""

import os
from collections.abc import Callable

import numpy as np

from common import run_settings
from engines import network_file

# {head: its outputs}, where they are not only "logits"
_OUTPUTS = {
  "embedding": ["sentence_embedding"],
  "span": ["start_logits", "end_logits"],
}


def engine_of(folder: str) -> str | None:
  """Returns the engine for an export's folder; None for another folder.

  Other programs write networks without our settings, often next to weights.
  """
  if os.path.exists(os.path.join(folder, network_file.SETTINGS)):
    for engine, name in network_file.FILES.items():
      if os.path.exists(os.path.join(folder, name)):
        return engine
  return None


def load(engine: str, path: str, threads: int = 0):
  """Returns the loaded engine, such as an OnnxEngine, for a file or folder.

  Raises:
    InputError: the engine's package is missing, or the file cannot be read.
  """
  # The engines are imported late: their packages belong to extras.
  if engine == "litert":
    from engines import litert_engine

    return litert_engine.LiteRTEngine(path, threads)
  from engines import onnx_engine

  return onnx_engine.OnnxEngine(path, threads)


def of_engine(
  loaded, settings: run_settings.Settings, num_words: int
) -> Callable[..., dict[str, np.ndarray]]:
  """Returns a serving.answers.Network.

  Args:
    loaded: the result of `load`.
    settings: `head`, and for masked_lm `top_k`, for sparse `sparse_pooling`
      and `sparse_activation`.
    num_words: size of the vocabulary; the model's table may have more rows.
  """
  head = settings.head

  def network(masked_lm_positions=None, **batch):
    arrays = loaded.run(**batch, outputs=_OUTPUTS.get(head, ["logits"]))
    if head == "embedding":
      return {"embedding": arrays["sentence_embedding"]}
    if head == "tagging":
      return {"probabilities": np.exp(_log_softmax(arrays["logits"]))}
    if head == "next_sentence":
      return {"log_probabilities": _log_softmax(arrays["logits"])}
    if head == "masked_lm":
      places = np.asarray(masked_lm_positions)[..., np.newaxis]  # [B, P, 1]
      logits = np.take_along_axis(arrays["logits"], places, 1)  # [B, P, V]
      values = np.exp(_log_softmax(logits[..., :num_words]))
      return _fillings(values, settings.top_k)
    if head == "sparse":
      return {
        "embedding": _word_weights(
          arrays["logits"], batch["input_mask"], settings
        )
      }
    return arrays

  return network


def _log_softmax(logits):
  below = logits - logits.max(-1, keepdims=True)
  return below - np.log(np.exp(below).sum(-1, keepdims=True))


def _word_weights(logits, input_mask, settings):
  """Returns [B, V] of [B, T, V], as heads.word_weights."""
  weights = logits * np.asarray(input_mask)[..., np.newaxis]
  if settings.sparse_pooling == "max":
    weights = weights.max(1, keepdims=True)
  weights = np.log1p(np.maximum(weights, 0, dtype=np.float32))
  if settings.sparse_activation == "log1p_relu":
    weights = np.log1p(weights)
  return weights.sum(1)


def _fillings(probabilities, count):
  """Returns `fillings` and `probabilities` [B, P, K], the best first."""
  # The first of equal values wins, as in tf.math.top_k.
  best = np.argsort(-probabilities, kind="stable")[..., :count]
  return {
    "fillings": best,
    "probabilities": np.take_along_axis(probabilities, best, -1),
  }
