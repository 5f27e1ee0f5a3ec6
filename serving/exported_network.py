"""Answers texts with an export in the format onnx or litert.

The network runs without TensorFlow. `answers` turns texts into ids and numbers
into answers, as for every other network.
"""

import os
from collections.abc import Callable, Sequence

import configuration
import tokenization
from checkpoints import model_folder, tokenizer_files
from common import errors, run_settings
from engines import network_file, networks
from serving import answers, export_options, rest
from variants import vocabularies

# The settings that can differ from the export's, as the network ignores them.
_CAN_CHANGE = frozenset(
  "model_dir max_seq_length top_k doc_stride max_windows max_query_length "
  "max_answer_length n_best_size version_2_with_negative tag_words "
  "null_score_diff_threshold".split()
)


class ExportedNetwork:
  """An exported network with its tokenizer.

  Attributes:
    settings: run_settings.Settings of the export, including `engine`.
    texts: names of an example's texts.
    config, tokenizer: the model's configuration and tokenizer.
  """

  def __init__(self, folder: str, threads: int = 0):
    """Loads an export; `threads` compute a batch, 0 means one per core.

    Raises:
      InputError: the engine's package is missing, or a file is missing or
        damaged.
    """
    paths = model_folder.find(folder)
    if "vocab_file" not in paths:
      tokenizer_files.require_vocabulary(folder)
    stored, self.texts = answers.read_settings(
      os.path.join(folder, network_file.SETTINGS), paths["vocab_file"]
    )
    engine = networks.engine_of(folder)
    assert engine  # `find` has checked it.
    self.settings = stored.replace(engine=engine)
    self.config = configuration.BertConfig.from_json_file(
      paths["bert_config_file"]
    )
    self.tokenizer = vocabularies.make_tokenizer(
      stored.vocab_file,
      **self.settings.pick("do_lower_case never_split"),
    )
    self._folder, self._loaded = folder, networks.load(engine, folder, threads)

  def check(self, settings: run_settings.Settings) -> None:
    """Raises InputError if a given setting requires a new export."""
    self.config.check_sequence_length(settings.max_seq_length)
    for name in sorted(settings.given - _CAN_CHANGE):
      exported, requested = self.settings.get(name), settings.get(name)
      if exported != requested:
        raise errors.InputError(
          f"{self._folder} is an export with {name}={exported!r}; for "
          f"{name}={requested!r} export the model again"
        )

  def network(self, settings: run_settings.Settings) -> answers.Network:
    """Returns the Network that computes the export's outputs."""
    num_words = len(vocabularies.lines(self.tokenizer))
    return networks.of_engine(self._loaded, settings, num_words)

  def head(
    self, settings: run_settings.Settings, batch_size: int
  ) -> answers.Head:
    """Returns the head of the export; raises InputError like `check`."""
    run_settings.refuse_ignored(settings, export_options.RULES)
    self.check(settings)
    network = self.network(settings)
    answer = answers.make(settings, self.tokenizer, network, batch_size)
    return answers.Head(settings, self.texts, answer)


class Servable:
  """A model for serve.py; its signature `serving_default` takes texts.

  Attributes:
    folder: the model's path.
    version: the folder's name if it is a number, else 1.
    specs: {signature: {input: rest.InputSpec}}.
    head, texts: the head and the names of an example's texts; None and () for
      a SavedModel of another program.
    mask: the token that marks a word to fill in.
  """

  folder: str
  version = 1
  specs: dict[str, dict[str, rest.InputSpec]]
  head: str | None = None
  texts: Sequence[str] = ()
  mask = tokenization.BERTS.mask
  _answer: Callable | None = None

  def check(self, signature: str, rows: list) -> None:
    """Raises InputError if one of the rows (see `run`) has an empty text."""
    if self._answer and signature == "serving_default":
      answers.check(self.head, self._texts_of(rows))

  def _texts_of(self, rows):
    return [
      tuple(row[name].decode("utf-8", "ignore") for name in self.texts)
      for row in rows
    ]

  def run(self, signature: str, rows: list) -> list:
    """Returns the answer to each row: {output: JSON value}.

    Args:
      signature: a key of `specs`.
      rows: list of {input: bytes or array}; all rows have the same shapes.
    """
    if self._answer and signature == "serving_default":
      return self._answer(self._texts_of(rows))
    return self.graph(signature, rows)

  def graph(self, signature: str, rows: list) -> list:
    """Returns the graph's outputs for each row; see `run`."""
    raise NotImplementedError

  def metadata(self) -> dict:
    """Returns {signature: its description in TensorFlow Serving's form}."""
    raise NotImplementedError


class ServedHead(Servable):
  """A model for serve.py that has one head and only `serving_default`."""

  def __init__(
    self, folder: str, head: answers.Head,
    tokenizer: tokenization.FullTokenizer,
  ):
    """Takes the model's folder, its head and its tokenizer."""
    self.folder, self.head = folder, head.settings.head
    self.texts, self._answer = head.texts, head.answer
    self.mask = tokenizer.specials.mask
    self.specs = {"serving_default": dict.fromkeys(self.texts, rest.TEXTS)}

  def metadata(self) -> dict:
    shape = {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}
    texts = {"dtype": "DT_STRING", "tensor_shape": shape}
    return {"serving_default": {
      "inputs": dict.fromkeys(self.texts, texts), "outputs": {},
      "method_name": "tensorflow/serving/predict", "defaults": {},
    }}


def find(folder: str | None, threads: int = 0) -> ExportedNetwork | None:
  """Returns the network of a folder, or None if it has no network file."""
  if folder and networks.engine_of(folder):
    return ExportedNetwork(folder, threads)
  return None


def load(folder: str, batch_size: int, threads: int) -> Servable:
  """Returns the model in any export, for serve.py.

  `threads` compute a batch; 0 means one per core. Raises InputError: the folder
  is not an export.
  """
  network = find(folder, threads)
  if network:
    head = network.head(network.settings, batch_size)
    return ServedHead(folder, head, network.tokenizer)
  with errors.needs_tensorflow():
    from common import lean_tensorflow  # noqa: F401
    from serving import saved_model

  return saved_model.LoadedModel(folder, batch_size, threads)
