"""A folder of export_saved_model.py --format=onnx or litert, asked for answers.

Its network runs without TensorFlow; texts become ids, and numbers answers, as
everywhere else.
"""

import os
from collections.abc import Callable

import tensorflow as tf
from tensorflow.core.framework import tensor_shape_pb2, types_pb2
from tensorflow.core.protobuf import meta_graph_pb2

import modeling
from checkpoints import model_folder, tokenizer_files
from common import errors, run_settings
from engines import networks
from serving import answers, export_options, saved_model
from variants import vocabularies

# What concerns answers and not the network.
_CAN_CHANGE = frozenset(
  "model_dir max_seq_length top_k doc_stride max_windows max_query_length "
  "max_answer_length n_best_size version_2_with_negative tag_words "
  "null_score_diff_threshold".split()
)


class ExportedNetwork:
  """A network with its tokenizer.

  Attributes:
    settings: run_settings.Settings of the export, `engine` among them.
    texts: names of the texts of an example.
    config, tokenizer: those of the model.
  """

  def __init__(self, folder: str, threads: int = 0):
    """Loads it; `threads` compute a batch, 0: one on each core.

    Raises:
      InputError: the engine's package is missing, or a file is missing or
        damaged.
    """
    paths = model_folder.find(folder)
    if "vocab_file" not in paths:
      tokenizer_files.require_vocabulary(folder)
    stored, self.texts = answers.read_settings(
      os.path.join(folder, answers.SETTINGS_FILE), paths["vocab_file"]
    )
    engine = networks.engine_of(folder)
    # What an export of before an option lacks has its default.
    names = (n for n in answers.STORED.split() if n in stored)
    self.settings = run_settings.Settings({
      **export_options.DEFAULTS, **stored.pick(" ".join(names)),
      **stored.pick("vocab_file labels"), "engine": engine,
    })
    self.config = modeling.BertConfig.from_json_file(paths["bert_config_file"])
    self.tokenizer = vocabularies.make_tokenizer(
      stored.vocab_file,
      **self.settings.pick("do_lower_case never_split"),
    )
    self._folder, self._loaded = folder, networks.load(engine, folder, threads)

  def check(self, settings: run_settings.Settings) -> None:
    """Raises InputError if settings are given that need another export."""
    self.config.check_sequence_length(settings.max_seq_length)
    for name in sorted(settings.given - _CAN_CHANGE):
      ours, theirs = self.settings.get(name), settings.get(name)
      if ours != theirs:
        raise errors.InputError(
          f"{self._folder} is an export with {name}={ours!r}; for "
          f"{name}={theirs!r} export the model again"
        )

  def answer(
    self, settings: run_settings.Settings, batch_size: int
  ) -> Callable[[list], list]:
    """Returns the function of texts that answers.make returns."""
    network = answers.of_engine(self._loaded, settings, self.tokenizer)
    return answers.make(settings, self.tokenizer, network, batch_size)


class ServedNetwork(saved_model.LoadedModel):
  """The same as serve.py takes a model; it has `serving_default` alone."""

  def __init__(self, folder: str, found: ExportedNetwork, batch_size: int):
    """Takes what `find` gives."""
    self.folder, self.version = folder, 1
    self.head, self.texts = found.settings.head, found.texts
    self.mask = found.tokenizer.specials.mask
    self._answer = found.answer(found.settings, batch_size)
    specs = {n: tf.TensorSpec([None], tf.string, n) for n in self.texts}
    self.specs = {"serving_default": specs}

  def _definitions(self):
    texts = meta_graph_pb2.TensorInfo(dtype=types_pb2.DT_STRING)
    texts.tensor_shape.dim.append(tensor_shape_pb2.TensorShapeProto.Dim(size=-1))
    return {"serving_default": meta_graph_pb2.SignatureDef(
      inputs=dict.fromkeys(self.texts, texts),
      method_name=tf.saved_model.PREDICT_METHOD_NAME,
    )}


def find(folder: str | None, threads: int = 0) -> ExportedNetwork | None:
  """Returns what a folder exports; None: it has no network's file."""
  if folder and networks.engine_of(folder):
    return ExportedNetwork(folder, threads)
  return None


def load(
  folder: str, batch_size: int, threads: int
) -> saved_model.LoadedModel:
  """Returns the model of any export, for serve.py; InputError if it is none.

  Args:
    threads: of an engine; TensorFlow has its own setting.
  """
  found = find(folder, threads)
  if found:
    return ServedNetwork(folder, found, batch_size)
  return saved_model.LoadedModel(folder, batch_size)
