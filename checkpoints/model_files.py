"""The files of a command's model, and which of them decides a setting.

A model folder has these files, among others:

  bert_model.ckpt.index, .data-00000-of-00001   weights, in TF1 layout
  bert_config.json or config.json               the model configuration
  vocab.txt or tokenizer.json                   the vocabulary, if known
  tokenizer_config.json                         the tokenizer's settings

A script's `main` makes one ModelFiles, and hands it on. TensorFlow is imported
only for the weights.
"""

import functools
import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from absl import logging

import configuration
import tokenization
from checkpoints import (
  hub_cache,
  hub_folder,
  model_folder,
  sentence_folder,
  sentence_prompts,
)
from common import (
  errors,
  file_io,
  flag_values,
  json_files,
  model_formats,
  run_settings,
)
from variants import vocabularies, vocabulary_files

if TYPE_CHECKING:
  from checkpoints import weight_names

Settings = run_settings.Settings

# The flags that name the files.
PATHS = ("model_dir", "bert_config_file", "vocab_file", "init_checkpoint")


class _Head(NamedTuple):
  """A head's use (a verb), its script, and one of its variables."""

  use: str
  script: str
  variable: str


_HEADS = {
  "classification": _Head("classify", "run_classifier.py", "output_weights"),
  "tagging": _Head("tag words", "run_ner.py", "output_weights"),
  "span": _Head("answer questions", "run_squad.py", "cls/squad/output_weights"),
  "masked_lm": _Head(
    "fill in [MASK]", "run_pretraining.py", "cls/predictions/output_bias"
  ),
  "next_sentence": _Head(
    "tell whether a text follows",
    "run_pretraining.py",
    "cls/seq_relationship/output_weights",
  ),
}


class ModelFiles:
  """The files that --model_dir and the other PATHS name; each is read once.

  A property reads its file when it is first needed, and raises InputError if
  the file is missing, damaged or not supported. So a command that does not need
  a file ignores its faults.

  Attributes:
    paths: {name of a flag: path} of the files in --model_dir: bert_config_file,
      init_checkpoint and, if found, vocab_file; {} without --model_dir.
    config_file: the configuration; "" if unknown.
    checkpoint: the weights, see weight_files.open_reader; "" if unknown.
  """

  def __init__(
    self,
    model_dir: str | None = None,
    *,
    bert_config_file: str | None = None,
    vocab_file: str | None = None,
    init_checkpoint: str | None = None,
    output_dir: str | None = None,
  ):
    """Finds the files; a given path replaces the one in `model_dir`.

    `output_dir` is the folder of the command's run, whose weights come first.
    Raises InputError: `model_dir` is not a folder, or has no configuration, or
    its configuration or vocabulary is damaged.
    """
    self._folders: dict[str, json_files.Folder] = {}
    self._is_case_logged = False
    self._logged: set[str] = set()
    self.model_dir, self._output_dir = model_dir or "", output_dir or ""
    self._vocabulary: vocabulary_files.VocabularyFiles | None = None
    self.paths: dict[str, str] = {}
    if model_dir:
      self.paths = self._find(model_dir)
    self.config_file = bert_config_file or self.paths.get(
      "bert_config_file", ""
    )
    self.checkpoint = init_checkpoint or self.paths.get("init_checkpoint", "")
    if vocab_file and vocab_file != self.paths.get("vocab_file"):
      self._vocabulary = vocabulary_files.VocabularyFiles(
        vocab_file, self._folder_of(vocab_file)
      )

  @classmethod
  def of(cls, settings: Settings) -> "ModelFiles":
    """Returns the files that a command's settings name."""
    names = (*PATHS, "output_dir")
    return cls(**{name: settings.get(name) for name in names})

  @functools.cached_property
  def values(self) -> dict[str, Any]:
    """The entries of the configuration; see `configuration.read`."""
    folder = self._folder_of(self.config_file)
    return configuration.read(self.config_file, folder)

  @functools.cached_property
  def config(self) -> configuration.BertConfig:
    """The model configuration."""
    with errors.placed(self.config_file):
      return configuration.BertConfig.from_dict(self.values)

  @property
  def vocabulary(self) -> vocabulary_files.VocabularyFiles | None:
    """The vocabulary, or None."""
    return self._vocabulary

  @functools.cached_property
  def reader(self) -> "weight_names.Reader":
    """The weights of `checkpoint`."""
    # Imported here, because most uses of this module need no TensorFlow.
    from checkpoints import weight_files

    return weight_files.open_reader(self.checkpoint, self._folder_of)

  @functools.cached_property
  def positions(self) -> int:
    """The model's number of positions."""
    return json_files.field(
      self.values, "max_position_embeddings", int, self.config_file, 512
    )

  @functools.cached_property
  def trained(self) -> dict[str, Any]:
    """{name of a flag: value} that training stored; {} of another program."""
    return model_folder.input_settings(self._trained_values)

  @functools.cached_property
  def prompts(self) -> sentence_prompts.Prompts:
    """The prompts of a sentence-transformers folder."""
    return sentence_folder.read_prompts(self._folder_of(self.trained_file))

  @property
  def trained_file(self) -> str:
    """The configuration with the input settings of the trained weights.

    The final model of the run's own training comes first, because the run's
    checkpoints take precedence over --init_checkpoint. --bert_config_file may
    describe the model from which the training started.
    """
    if self._output_dir:
      folder = os.path.join(self._output_dir, "final_model")
      path = os.path.join(folder, model_folder.CONFIG_FILES[0])
      if file_io.exists(path):
        return path
    return self.config_file

  @property
  def length(self) -> int | None:
    """The longest sequence that a folder of another program can answer.

    It is the tokenizer's limit, at most the number of positions. None: neither
    the tokenizer's files nor the format of the configuration tells.
    """
    if self._vocabulary and (limit := self._vocabulary.max_length):
      return min(limit, self.positions)
    if configuration.is_huggingface(self._raw_values, self.config_file):
      return self.positions
    return None

  @functools.cached_property
  def heads(self) -> list[str]:
    """The heads in the weights, such as "span" and "masked_lm"."""
    names = self.reader.shapes
    present = [name for name, each in _HEADS.items() if each.variable in names]
    # Classification and tagging share a variable; the configuration decides.
    known = configuration.head_of(self._raw_values)
    if "tagging" in present and known:
      present = [known, *present[2:]]
    return present

  @property
  def head(self) -> str:
    """The head that the weights were trained for; "embedding" for an encoder.

    It is "sparse" if the folder's modules.json lists SpladePooling.
    """
    folder = self._folder_of(self.config_file)
    names, *_ = sentence_folder.read_modules(folder)
    if names[1:] == [sentence_folder.SPARSE]:
      return "sparse"
    return next(iter(self.heads), "embedding")

  def require(self, head: str) -> None:
    """Raises InputError if the weights lack a head, or cannot be read.

    The head "embedding" has no weights. Weights in --output_dir are not
    checked, because the same script wrote them.

    Args:
      head: one of flag_values.SERVING_HEADS.
    """
    if head == "embedding" or not self.checkpoint or self._has_run:
      return
    head = "masked_lm" if head == "sparse" else head
    if head in self.heads:
      return
    name = self.model_dir or self.checkpoint
    use, script, _ = _HEADS[head]
    names, *_ = sentence_folder.read_modules(self._folder_of(self.config_file))
    others = [n for n in names[1:] if n not in ("Pooling", "Normalize")]
    if not self.heads and others:
      raise errors.InputError(
        f"{name} computes its answers with the modules {', '.join(names[1:])} "
        f"of sentence-transformers, and {', '.join(others)} is not supported: "
        f"use sentence-transformers to {use} with this model"
      )
    if not self.heads:
      raise errors.InputError(
        f"{name} has no head to {use}: it is only an encoder; train the head "
        f"first ({script}), or pass a model with this head"
      )
    done = " and ".join(_HEADS[each].use for each in self.heads)
    labels = ", ".join((self._raw_values.get("id2label") or {}).values())
    raise errors.InputError(
      f"{name} was trained to {done}{f' ({labels:.200})' if labels else ''}, "
      f"not to {use}; pass a model for this task, or train this model for it "
      f"({script} --do_train)"
    )

  def complete(
    self, settings: Settings, stored: Iterable[str] = (), *, head: str = ""
  ) -> Settings:
    """Returns settings completed from files; the only place of precedence.

    In this order, and the first that says something counts: the user; what
    training stored; for vectors, the files of sentence-transformers; the length
    that a folder of another program states; the flag's default. A default
    length is capped at the model's positions.

    Args:
      stored: the names of settings that the command takes from the model. A
        command that trains takes no length, except for vectors: like
        sentence-transformers, it takes theirs.
      head: one of flag_values.SERVING_HEADS, or "" if the head is unknown.

    Raises:
      InputError: a file is missing, damaged or not supported, or a flag does
        not accept its value from a file.
    """
    settings, names = settings.filled(self.paths), [*stored]
    reads_text = "vocab_file" in settings and "do_lower_case" in settings
    if reads_text:
      settings = self._with_text_rules(settings)
    if not self.config_file:
      return settings
    if default := settings.get("max_seq_length"):
      # Unlike the original: the default is at most the number of positions.
      length = min(default, self.positions)
      settings = settings.filled({"max_seq_length": length})
    vectors = self._vector_settings(settings, head)
    if "max_seq_length" in names and reads_text and not self.trained:
      settings = settings.filled(self._stated_length(settings, head))
    known = {n: self.trained[n] for n in names if n in self.trained}
    settings = self._restored(settings, {**vectors, **known})
    used = " ".join(f"--{name}={settings.get(name)}" for name in known)
    if known and used not in self._logged:
      logging.info("input settings from %s: %s", self.trained_file, used)
      self._logged.add(used)
    return settings

  def make_tokenizer(self, settings: Settings) -> tokenization.FullTokenizer:
    """Returns the tokenizer for the model and the tokenizer flags.

    Raises InputError: the vocabulary is damaged or does not fit the model, or
    --do_lower_case contradicts the name of --init_checkpoint.
    """
    # As in the original: released models are recognized by their folder's name.
    tokenization.validate_case_matches_checkpoint(
      settings.do_lower_case, settings.get("init_checkpoint")
    )
    tokenizer = vocabularies.make_tokenizer(
      self._vocabulary or settings.vocab_file,
      do_lower_case=settings.do_lower_case,
      never_split=settings.get("never_split", ()),
    )
    self.config.check_vocabulary(len(tokenizer.vocab), settings.vocab_file)
    self._check_padding(tokenizer)
    return tokenizer

  def _check_padding(self, tokenizer: tokenization.FullTokenizer) -> None:
    """Raises InputError if RoBERTa's padding is a token that texts have.

    RoBERTa gives such a token no position, and each token has one here.
    """
    if self.values.get("variant") not in model_formats.ROBERTA_TYPES:
      return
    number = json_files.field(
      self.values, "pad_token_id", int, self.config_file, -1
    )
    token = tokenizer.inv_vocab.get(number, "")
    in_texts = (tokenizer.unk_token, *tokenizer.specials[:3])
    if token in in_texts or token and tokenizer.tokenize(token) == [token]:
      raise errors.InputError(
        f"{tokenizer.vocab_file}: the id {number} is {token!r}, but it is "
        f"pad_token_id in {self.config_file}, and models of this kind give "
        "padding no position; use the vocabulary whose padding has this id"
      )

  @property
  def _raw_values(self) -> dict[str, Any]:
    """The entries of the configuration as they are in the file."""
    folder = self._folder_of(self.config_file)
    return folder.read(os.path.basename(self.config_file), required=True)

  @property
  def _trained_values(self) -> dict[str, Any]:
    path = self.trained_file
    if path == self.config_file:
      return self.values
    return configuration.read(path, self._folder_of(path))

  @functools.cached_property
  def _has_run(self) -> bool:
    """Whether --output_dir has checkpoints of a run."""
    return bool(self._output_dir) and any(
      re.match(r"model\.ckpt-\d+\.index$", name)
      for name in file_io.names_in(self._output_dir)
    )

  def _folder_of(self, path: str) -> json_files.Folder:
    """Returns the folder of a file, with the files that were read."""
    folder = os.path.dirname(path)
    return self._folders.setdefault(folder, json_files.Folder(folder))

  def _find(self, model_dir: str) -> dict[str, str]:
    """Finds the files of --model_dir; returns `paths`."""
    model_dir = hub_cache.resolve(model_dir)
    if not file_io.is_folder(model_dir):
      raise errors.InputError(
        f"--model_dir={model_dir}: no such folder, nor a model of this name in "
        f"the hub's cache ({hub_cache.folder()}); pass --download for a model "
        "of the hub, or see python download.py --list"
      )
    if hub_folder.is_one(model_dir):
      # TensorFlow takes seconds to import.
      from checkpoints import weight_files

      paths = self._find(weight_files.open_reader(model_dir).folder)
      return {**paths, "init_checkpoint": model_dir}
    folder = self._folder_of(os.path.join(model_dir, ""))
    names = [n for n in model_folder.CONFIG_FILES if n in folder.names]
    if not names:
      model_folder.refuse_missing_config(model_dir, folder.names)
    path, *others = [os.path.join(model_dir, name) for name in names]
    # Hugging Face's weights come first, and config.json belongs to them.
    if others and not folder.names.isdisjoint(model_folder.WEIGHTS):
      path = _of_the_weights(path, others[0], folder)
    paths = {"bert_config_file": path, "init_checkpoint": model_dir}
    variant = configuration.read(path, folder).get("variant", "bert")
    self._vocabulary = vocabulary_files.of_folder(folder, variant)
    if self._vocabulary:
      name = os.path.basename(self._vocabulary.path)
      paths["vocab_file"] = os.path.join(model_dir, name)
    return paths

  def _with_text_rules(self, settings: Settings) -> Settings:
    """Returns settings with do_lower_case and never_split of the vocabulary.

    Unlike the original: without these flags, the files next to the vocabulary
    decide.
    """
    if not settings.vocab_file:
      # A script with --do_lower_case reads text, so it needs a vocabulary.
      if self.model_dir:
        vocabulary_files.refuse_missing(self.model_dir)
      return settings
    files = self._vocabulary
    assert files  # settings.vocab_file names it.
    if not files.is_list and "do_lower_case" in settings.given:
      raise errors.InputError(
        f"{files.path} itself says whether text is lower-cased: leave out "
        "--do_lower_case"
      )
    stored = files.settings
    if not self._is_case_logged:
      _log_case(settings, files)
    self._is_case_logged = True
    return settings.filled(stored)

  def _vector_settings(self, settings: Settings, head: str) -> dict[str, Any]:
    """Returns the settings of vectors in sentence-transformers' files."""
    folder = self._folder_of(self.trained_file)
    if head == "sparse":
      values = sentence_folder.read_sparse(folder)
    elif head == "embedding":
      values = sentence_folder.read(folder, settings.given)
    else:
      return {}
    given = settings.get("prompt") if "prompt" in settings.given else None
    prompt = self.prompts.chosen(given, settings.get("prompt_name"))
    if "prompt" in settings:
      return {**values, "prompt": prompt}
    if prompt:
      sentence = (
        f"{self.prompts.place}: each text gets the prompt {prompt!r}, which "
        "only extract_features.py, Python, exports and serve.py add"
      )
      if "pooling" not in settings.given:
        raise errors.InputError(
          f"{sentence}: pass --pooling to train without it, or write it into "
          "your texts and pass --pooling"
        )
      errors.warn_once(f"{sentence}: the texts stay as they are")
    elif names := [name for name, text in self.prompts.by_name.items() if text]:
      errors.warn_once(
        f"{self.prompts.place}: its prompts ({', '.join(names)}) are not added "
        "to texts here, and a trained model does not store them; write the one "
        "that you need into your texts"
      )
    return {**values, "prompt": prompt}

  def _stated_length(self, settings: Settings, head: str) -> dict[str, int]:
    """Returns the length for a model that another program trained."""
    length = self.length
    if length is None or self._has_run:
      return {}
    if head != "span":
      return {"max_seq_length": length}
    # Windows cover a long text, so a shorter length loses nothing; transformers
    # has the original's default, too.
    length = min(length, flag_values.default_length(head))
    query = min(settings.max_query_length, length // 2)
    return {"max_seq_length": length, "max_query_length": query}

  def _restored(
    self, settings: Settings, trained: Mapping[str, Any]
  ) -> Settings:
    """Returns settings with `trained` values; warns of those that differ."""
    values = {
      name: _parsed(settings, name, raw, self.trained_file)
      for name, raw in trained.items()
      if name in settings
    }
    differences = [
      f"--{name}={settings.get(name)} (trained with {value})"
      for name, value in values.items()
      if name in settings.given and settings.get(name) != value
    ]
    if differences:
      logging.warning(
        "the input differs from training: %s", ", ".join(differences)
      )
    return settings.filled(values)


def _of_the_weights(path: str, other: str, folder: json_files.Folder) -> str:
  """Returns the configuration of Hugging Face's weights; warns if they differ.

  `other` is their config.json, and `path` the bert_config.json next to it.
  """
  values = configuration.read(path, folder)
  others = configuration.read(other, folder)
  both = values.keys() & others.keys()
  differing = sorted(key for key in both if values[key] != others[key])
  if not differing:
    return path
  errors.warn_once(
    f"{path} is ignored, because its {', '.join(differing)} differs from "
    f"{os.path.basename(other)}, which belongs to the folder's weights"
  )
  return other


def _log_case(
  settings: Settings, files: vocabulary_files.VocabularyFiles
) -> None:
  """Logs where do_lower_case comes from if that may surprise."""
  is_given = "do_lower_case" in settings.given
  lowers, known = settings.do_lower_case, files.do_lower_case
  source = f"{vocabulary_files.CONFIG} or {vocabulary_files.TOKENIZER_FILE}"
  if known is None:
    # No file says whether the model is cased, so look for capitals. A missing
    # vocabulary is reported later, when it is loaded.
    is_likely = lowers and not is_given and file_io.exists(files.path)
    if is_likely and files.has_capitals:
      logging.warning(
        "%s has tokens with capital letters, which lower-cased text never "
        "matches: pass --do_lower_case=false if the model is cased",
        files.path,
      )
  elif known != lowers and is_given:
    logging.warning(
      "--do_lower_case=%s was given, but the %s next to --vocab_file says %s",
      lowers,
      source,
      known,
    )
  elif known != lowers:
    logging.info(
      "do_lower_case is %s, from the %s next to --vocab_file", known, source
    )


def _parsed(settings: Settings, name: str, raw: Any, source: str) -> Any:
  """Returns the value of an entry of `source`, parsed like the flag."""
  try:
    # Use the flag's parser, because a user may have edited the file.
    value = settings.parse(name, raw)
  except (TypeError, ValueError) as error:
    raise errors.InputError(
      f"{source}: --{name} does not accept the value {raw!r:.40}: {error}"
    ) from error
  return tuple(value) if isinstance(value, list) else value
