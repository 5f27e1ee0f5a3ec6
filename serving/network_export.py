"""A trained network as a folder for another program: ONNX or LiteRT.

Of one with matrices of 8 bits it says how far its outputs are from float32.
"""

import configuration
import layers
from common import errors, run_settings
from engines import difference, export_folder, litert_model
from features import text_batches
from serving import answers, models
from variants import registry


def with_lengths(
  settings: run_settings.Settings, config: configuration.BertConfig
) -> run_settings.Settings:
  """Returns settings with --lengths as numbers, the last the longest text's.

  Raises:
    InputError: they are none that the model can have.
  """
  most = settings.max_seq_length
  powers = (2**n for n in range(4, most.bit_length()))
  values = settings.lengths or [*(n for n in powers if n < most), most]
  lengths = litert_model.parse_lengths(values, config.max_position_embeddings)
  return settings.replace(lengths=lengths, max_seq_length=lengths[-1])


def write(model: models.ServedModel, texts: list) -> None:
  """Writes --export_dir, whole or not at all.

  Args:
    model: with its weights, and the settings of export_saved_model.py.
    texts: tuples of as many str as the model takes, to compare the outputs of.

  Raises:
    InputError: a package is missing, the format cannot express the network, 8
      bits change it too much, or the folder cannot be written.
  """
  settings = model.settings
  write_file, engine = _FORMATS[settings.format](model)

  def write_model(path):
    write_file(path)
    if settings.quantize == "int8":
      _check(model, engine(path), texts)

  export_folder.write(
    settings.export_dir, write_model, model.config, settings,
    pooling=model.pooling,
  )


def _onnx(model):
  """Returns a function that writes a file, and the class that runs it."""
  # Imported here, as below: they need packages that only an extra has.
  from engines import onnx_engine, onnx_graph, quantization

  settings = model.settings
  weights = {layers.variable_name(v): v.numpy() for v in model.variables}
  graph = onnx_graph.make(
    settings.head, weights, model.config,
    pooling=model.pooling or onnx_graph.MEAN,
  )

  def write_file(path):
    onnx_graph.write(path, graph)
    if settings.quantize == "int8":
      quantization.quantize(path)

  return write_file, onnx_engine.OnnxEngine


def _litert(model):
  from engines import litert_engine

  settings, inputs = model.settings, dict(export_folder.INPUTS)
  if registry.name_of(model.config) == "distilbert":
    del inputs["token_type_ids"]
  litert_model.check_size(settings.lengths, model.variables)

  def compute(**batch):
    return model.exported(**{inputs[n]: value for n, value in batch.items()})

  def write_file(path):
    litert_model.write(
      path, model, compute, inputs, settings.lengths,
      is_int8=settings.quantize == "int8",
    )

  return write_file, litert_engine.LiteRTEngine


_FORMATS = {"litert": _litert, "onnx": _onnx}


def _check(model, engine, texts):
  """Prints how far the outputs are from float32; refuses too far ones."""
  settings = model.settings
  encode = text_batches.make_encoder(model.tokenizer, settings.max_seq_length)
  batches = []
  for text in texts:
    ids, segments = encode(*text)
    batches.append({
      "input_ids": [ids], "input_mask": [[1] * len(ids)],
      "segment_ids": [segments],
    })
  ours = answers.on_tensors(models.compiled(
    model.exported, models.IDS, models.ServedModel.id_inputs
  ))
  found = difference.measure(ours, engine.run, batches)
  said = (
    f"the outputs of {len(texts)} texts differ from those of float32 by "
    f"{found.largest:.3f} of their usual length at most, {found.mean:.3f} on "
    "average"
  )
  # NaN is not below any limit.
  if not found.largest <= settings.max_quantization_difference:
    raise errors.InputError(
      f"--quantize=int8: {said}; pass a larger --max_quantization_difference "
      "if that will do, or --quantize=none"
    )
  print(f"8 bits: {said}.")
