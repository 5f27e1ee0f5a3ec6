"""Creates a head's network for --engine: TensorFlow, ONNX Runtime or LiteRT.

ONNX Runtime and LiteRT load the network from a temporary file.
"""

import os
import tempfile
from collections.abc import Iterable
from typing import Any

import tensorflow as tf
from absl import logging

import configuration
import named_weights
import tokenization
from answering import answers, export_options, models
from common import run_settings
from engines import network_file, networks
from exports import network_export
from variants import vocabularies


def network(model: models.ServedModel, threads: int = 0) -> answers.Network:
  """Returns a model's network for the engine that its settings name.

  ONNX Runtime and LiteRT compute in `threads` threads; 0 means one per core.
  Raises InputError like network_export.write_file and compare.
  """
  settings = model.settings
  if settings.engine == "tensorflow":
    return models.network_of(model.from_ids, model.id_inputs)
  values = {
    **settings.pick("head quantize max_seq_length"),
    "format": settings.engine,
    "lengths": (),
    "max_quantization_difference": export_options.MOST_DIFFERENCE,
  }
  exported = network_export.with_lengths(
    run_settings.Settings(values), model.config
  )
  texts = [
    (text,) * len(model.text_inputs) for text in network_export.COMPARED_TEXTS
  ]
  with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, network_file.FILES[settings.engine])
    network_export.write_file(path, model, exported)
    loaded = networks.load(settings.engine, path, threads)
  if settings.quantize != "none":
    summary = network_export.compare(model, loaded, exported, texts)
    logging.info("8 bits: %s", summary)
  num_words = len(vocabularies.lines(model.tokenizer))
  return networks.of_engine(loaded, networks.options_of(settings), num_words)


def network_on_engine(
  variables: Iterable[tf.Variable],
  settings: run_settings.Settings,
  config: configuration.BertConfig,
  tokenizer: tokenization.FullTokenizer,
  **options: Any,
) -> answers.Network:
  """Returns a network with a script's weights, for its --engine.

  Args:
    settings: the script's settings, including `engine` and `quantize`.
    config: the configuration of the trained model.
    **options: export_options that the script has no flags for: head, labels...
  """
  names = (
    "engine quantize max_seq_length do_lower_case vocab_file never_split "
    "init_checkpoint"
  )
  settings = run_settings.Settings(
    {**export_options.DEFAULTS, **settings.pick(names), **options}
  )
  model = models.KINDS[settings.head](config, settings, tokenizer)
  values = {named_weights.variable_name(v): v for v in variables}
  for variable in model.variables:
    variable.assign(values[named_weights.variable_name(variable)])
  return network(model)
