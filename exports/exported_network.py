"""Turns texts into answers with an export in the format onnx or litert.

The network runs without TensorFlow. As for every other network, `answers`
converts texts to ids, and the network's outputs to answers.
"""

import os

from answering import answers, export_options
from checkpoints import model_files, sentence_prompts
from common import errors, run_settings
from engines import network_file, networks
from variants import vocabularies, vocabulary_files

# Settings that may differ from the export's: they do not affect the network.
_CAN_CHANGE = frozenset(
  "model_dir max_seq_length prompt prompt_name top_k doc_stride max_windows "
  "max_query_length max_answer_length n_best_size version_2_with_negative "
  "tag_words null_score_diff_threshold".split()
)


class ExportedNetwork:
  """An exported network with its tokenizer.

  Attributes:
    settings: run_settings.Settings of the export, including `engine`.
    texts: names of an example's texts.
    config, tokenizer: the model's configuration and tokenizer.
    prompts: the model's prompts for vectors.
  """

  def __init__(self, folder: str, threads: int = 0):
    """Loads an export; `threads` threads run a batch, 0 means one per core.

    Raises InputError: the engine's package is missing, or a file is missing or
    damaged.
    """
    files = model_files.ModelFiles(folder)
    vocabulary = files.vocabulary
    if vocabulary is None:
      vocabulary_files.refuse_missing(folder)
    stored, self.texts = answers.read_settings(
      os.path.join(folder, network_file.SETTINGS), files.paths["vocab_file"]
    )
    engine = networks.engine_of(folder)
    assert engine  # The caller has checked that the folder is an export.
    self.settings = stored.replace(engine=engine)
    self.config, self.prompts = files.config, sentence_prompts.read(folder)
    self.tokenizer = vocabularies.make_tokenizer(
      vocabulary, **self.settings.pick("do_lower_case never_split")
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
    options = networks.options_of(settings)
    return networks.of_engine(self._loaded, options, num_words)

  def head(
    self, settings: run_settings.Settings, batch_size: int
  ) -> answers.Head:
    """Returns the head; raises InputError if a setting does not fit."""
    run_settings.refuse_ignored(settings, export_options.RULES)
    self.check(settings)
    given = settings.pick(settings.given & {"prompt", "prompt_name"})
    if given:
      prompt = self.prompts.chosen(
        given.get("prompt"), given.get("prompt_name")
      )
      settings = settings.replace(prompt=prompt)
    network = self.network(settings)
    cut = answers.counter_of(settings)
    answer = answers.make(
      settings, self.tokenizer, network, batch_size, cut=cut
    )
    return answers.Head(settings, self.texts, answer, network, cut)


def find(folder: str | None, threads: int = 0) -> ExportedNetwork | None:
  """Loads an onnx or litert export; returns None for any other folder."""
  if folder and networks.engine_of(folder):
    return ExportedNetwork(folder, threads)
  return None


def load(folder: str, batch_size: int, threads: int) -> answers.Served:
  """Loads an export of any format for serve.py.

  `threads` threads run a batch; 0 means one per core. Raises InputError: the
  folder is not an export, or cannot be loaded.
  """
  network = find(folder, threads)
  if network:
    head = network.head(network.settings, batch_size)
    return answers.Served(
      folder,
      head.settings,
      head.texts,
      network.tokenizer,
      head.network,
      batch_size,
      prompts=network.prompts,
    )
  with errors.needs_tensorflow():
    from common import lean_tensorflow  # noqa: F401
    from exports import saved_model

  return saved_model.load(folder, batch_size, threads)
