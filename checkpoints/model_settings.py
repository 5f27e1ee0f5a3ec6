"""Determines the files, tokenizer and input settings of a command's model.

Functions take the command's run_settings.Settings and do not read flags.
"""

import os
from collections.abc import Iterable
from typing import Any

from absl import logging

import configuration
import tokenization
from checkpoints import model_folder
from common import errors, file_io, json_files, run_settings
from variants import vocabularies, vocabulary_files

Settings = run_settings.Settings


def resolve(settings: Settings) -> Settings:
  """Returns a script's settings, completed from its model's files.

  --model_dir sets the path flags that are not given. --do_lower_case and
  --never_split, if not given, are read from the vocabulary's folder. If
  --max_seq_length is not given, its default is capped at the model's number of
  positions. Raises InputError: a file is missing, damaged or not supported.
  """
  folder = settings.get("model_dir")
  paths = model_folder.find(folder) if folder else {}
  settings = settings.filled(paths)
  if "vocab_file" in settings and "do_lower_case" in settings:
    # A script with --do_lower_case reads text, so it needs a vocabulary.
    if folder and not settings.vocab_file:
      vocabulary_files.refuse_missing(folder)
    settings = with_text_settings(settings)
  path = settings.get("bert_config_file") or paths.get("bert_config_file")
  default = settings.get("max_seq_length")
  if not path or default is None or "max_seq_length" in settings.given:
    return settings
  positions = json_files.field(
    configuration.read(path), "max_position_embeddings", int, path, 512
  )
  # Unlike the original: the default is at most the number of positions.
  return settings.filled({"max_seq_length": min(default, positions)})


def with_text_settings(settings: Settings) -> Settings:
  """Returns settings with the do_lower_case and never_split of --vocab_file.

  Unlike the original: without these flags, the files next to the vocabulary
  decide. Raises InputError: a file is damaged or belongs to another tokenizer,
  or --do_lower_case is given for a tokenizer.json.
  """
  if not settings.vocab_file:
    return settings
  files = vocabulary_files.VocabularyFiles(settings.vocab_file)
  if not files.is_list and "do_lower_case" in settings.given:
    raise errors.InputError(
      f"{files.path} itself says whether text is lower-cased: leave out "
      "--do_lower_case"
    )
  stored = files.settings
  _log_case(settings, files)
  return settings.filled(stored)


def _log_case(settings: Settings, files: vocabulary_files.VocabularyFiles):
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


def trained_model_file(settings: Settings) -> str:
  """Returns the bert_config.json with the input settings of trained weights.

  The final model of the run's own training comes first, because the run's
  checkpoints take precedence over --init_checkpoint. --bert_config_file may
  describe the model from which the training started.
  """
  if settings.get("output_dir"):
    path = os.path.join(settings.output_dir, "final_model", "bert_config.json")
    if file_io.exists(path):
      return path
  return settings.bert_config_file


def restore_input_settings(
  settings: Settings, trained: dict, source: str
) -> Settings:
  """Returns settings with the input settings of the training.

  An explicit flag overrides the training's value, with a warning if they
  differ. `trained` is {name of a setting: value} from the file `source`. Raises
  InputError: a flag does not accept its value from the file.
  """
  values = {
    name: _parsed(settings, name, value, source)
    for name, value in trained.items()
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


def restore_trained(settings: Settings, names: Iterable[str]) -> Settings:
  """Returns settings with the input settings `names` of the model's folder.

  Only models of this project store input settings. For errors see
  `restore_input_settings`.
  """
  source = trained_model_file(settings)
  trained = model_folder.input_settings(configuration.read(source))
  known = {name: trained[name] for name in names if name in trained}
  settings = restore_input_settings(settings, known, source)
  if known:
    used = " ".join(f"--{name}={settings.get(name)}" for name in known)
    logging.info("input settings from %s: %s", source, used)
  return settings


def make_tokenizer(
  settings: Settings, config: configuration.BertConfig
) -> tokenization.FullTokenizer:
  """Returns the tokenizer for a model and the tokenizer flags.

  Raises InputError: the vocabulary is damaged or does not fit the model, or
  --do_lower_case contradicts the name of --init_checkpoint.
  """
  # As in the original: released models are recognized by their folder's name.
  tokenization.validate_case_matches_checkpoint(
    settings.do_lower_case, settings.init_checkpoint
  )
  tokenizer = vocabularies.make_tokenizer(
    settings.vocab_file,
    do_lower_case=settings.do_lower_case,
    never_split=settings.get("never_split", ()),
  )
  config.check_vocabulary(len(tokenizer.vocab), settings.vocab_file)
  return tokenizer
