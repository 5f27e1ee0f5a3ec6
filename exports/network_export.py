"""Writes a trained network as a folder for ONNX Runtime or LiteRT.

With int8 matrices, it reports how much the outputs differ from float32 outputs.
"""

import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import configuration
import named_weights
from answering import answers, models
from common import errors, run_settings
from engines import network_file, networks
from exports import export_folder, litert_model
from features import text_batches
from text import input_sequences
from variants import registry

COMPARED_TEXTS = [
  "The keeper lit the lamp.",
  "Is the last ferry still running on Sundays in winter?",
  "It was no good film: the story is thin, and its actors seem tired of it.",
  "Prices rose by 3.4 % in May, the bank said, more than in any month since "
  "2008, and bread became as dear as it had been after the bad harvest.",
]


def with_lengths(
  settings: run_settings.Settings, config: configuration.BertConfig
) -> run_settings.Settings:
  """Returns settings with integer `lengths`; max_seq_length is the last one.

  Only --format=litert has lengths; other settings stay unchanged. Raises
  InputError: the lengths are invalid or exceed the model's positions.
  """
  if settings.format != "litert":
    return settings
  most = settings.max_seq_length
  powers = (2**n for n in range(4, most.bit_length()))
  values = settings.lengths or [*(n for n in powers if n < most), most]
  lengths = litert_model.parse_lengths(values, config.max_position_embeddings)
  return settings.replace(lengths=lengths, max_seq_length=lengths[-1])


def write(model: models.ServedModel, texts: list) -> None:
  """Writes the folder --export_dir; an error leaves no incomplete folder.

  Args:
    model: model with its weights and the settings of export_saved_model.py.
    texts: see `compare`.

  Raises:
    InputError: see `write_file`, `compare` and export_folder.write.
  """
  settings = model.settings

  def write_model(path: str) -> None:
    write_file(path, model, settings)
    if settings.quantize != "none":
      engine = networks.load(settings.format, path)
      print(f"8 bits: {compare(model, engine, settings, texts)}.")
      if not settings.calibration_file:
        print(
          "The texts are built-in sentences. To compare with your own texts, "
          "pass a file with one per line: --calibration_file=texts.txt"
        )
    settings_file = os.path.join(os.path.dirname(path), network_file.SETTINGS)
    answers.write_settings(
      settings_file, settings, model.text_inputs, model.prompts
    )

  export_folder.write(
    write_model, model.config, settings, pooling=model.pooling
  )


def write_file(
  path: str, model: models.ServedModel, settings: run_settings.Settings
) -> None:
  """Writes only the network's file.

  Args:
    model: model with its weights.
    settings: head, format, lengths and quantize, as in export_saved_model.py.

  Raises:
    InputError: a package is missing, or the format cannot express the network.
  """
  if settings.format == "litert":
    _write_litert(path, model, settings)
    return
  # Imported here because their packages belong to an extra.
  from exports import onnx_graph, quantization

  weights = {named_weights.variable_name(v): v.numpy() for v in model.variables}
  pooling = model.pooling or onnx_graph.MEAN
  graph = onnx_graph.make(settings.head, weights, model.config, pooling=pooling)
  onnx_graph.write(path, graph)
  if settings.quantize == "int8":
    quantization.quantize(path)


def _write_litert(
  path: str, model: models.ServedModel, settings: run_settings.Settings
) -> None:
  inputs = dict(network_file.INPUTS)
  # DistilBERT and ModernBERT have no segments.
  if "bert/embeddings/token_type_embeddings" not in registry.shapes(
    model.config
  ):
    del inputs["token_type_ids"]
  litert_model.check_size(settings.lengths, model.variables)

  def compute(**batch: Any) -> dict:
    return model.exported(**{inputs[n]: value for n, value in batch.items()})

  is_int8 = settings.quantize == "int8"
  litert_model.write(
    path, model, compute, [*inputs], settings.lengths, is_int8=is_int8
  )


def compare(
  model: models.ServedModel,
  engine: Any,
  settings: run_settings.Settings,
  texts: list,
) -> str:
  """Returns a sentence about the difference between int8 and float32 outputs.

  Args:
    engine: the result of networks.load for the file of `write_file`.
    settings: max_seq_length and max_quantization_difference.
    texts: tuples with as many str as the model takes.

  Raises:
    InputError: the difference exceeds max_quantization_difference.
  """
  encode = text_batches.make_encoder(model.tokenizer, settings.max_seq_length)
  sequences = [encode(*text) for text in texts]
  batches = [
    input_sequences.pad_batch([ids], [segments]) for ids, segments in sequences
  ]
  reference = models.network_of(model.exported, models.ServedModel.id_inputs)
  distances = differences(reference, engine.run, batches)
  summary = (
    f"the outputs of {len(texts)} texts differ from those of float32 by "
    f"at most {distances.max():.3f} of their typical norm, "
    f"{distances.mean():.3f} on average"
  )
  # `not <=` also refuses NaN.
  if not distances.max() <= settings.max_quantization_difference:
    raise errors.InputError(
      f"--quantize=int8: {summary}; pass --quantize=none, or if this "
      "difference is acceptable, pass a larger --max_quantization_difference "
      "to export_saved_model.py"
    )
  return summary


def differences(
  compute: Callable, other: Callable, batches: Iterable[dict]
) -> np.ndarray:
  """Returns the distances [rows] between the outputs of two functions.

  A row is the embedding of a text, or the logits of a text or of a token. The
  distances are divided by the root mean square norm of the rows of `compute`.

  Args:
    compute, other: functions of integers [B, T], named as in the batches, that
      return {name: array}, such as `run` of an engine.
    batches: input_ids, input_mask and segment_ids, without padding.
  """
  norms, distances = [], []
  for batch in batches:
    expected, computed = compute(**batch), other(**batch)
    for name, rows in expected.items():
      # The embedding depends on the hidden states, so comparing it is enough.
      if name != "last_hidden_state":
        rows = rows.reshape(-1, rows.shape[-1])
        norms.append(np.linalg.norm(rows, axis=1))
        other_rows = computed[name].reshape(rows.shape)
        distances.append(np.linalg.norm(other_rows - rows, axis=1))
  typical = np.sqrt(np.mean(np.square(np.concatenate(norms))))
  return np.concatenate(distances) / typical
