"""Determines the files, tokenizer and input settings of a command's model.

Functions take the command's run_settings.Settings and do not read flags.
"""

import os
from collections.abc import Iterable

from absl import logging

import configuration
import tokenization
from checkpoints import model_folder, tokenizer_files
from common import errors, file_io, json_files, run_settings
from variants import vocabularies

Settings = run_settings.Settings


def resolve(settings: Settings) -> Settings:
  """Returns a script's settings, completed from its model's files.

  --model_dir sets the path flags that are not given. --do_lower_case and
  --never_split, if not given, are read from the vocabulary's folder. If
  --max_seq_length is not given, its default is capped at the model's number of
  positions. Raises InputError: a file is missing, damaged or not supported.
  """
  path = settings.get("bert_config_file")
  if settings.get("model_dir"):
    paths = model_folder.find(settings.model_dir)
    settings = _with_model_dir(settings, paths)
    path = path or paths["bert_config_file"]
  if "vocab_file" in settings and "do_lower_case" in settings:
    settings = tokenizer_files.with_known_case(settings)
  default = settings.get("max_seq_length")
  if not path or default is None or "max_seq_length" in settings.given:
    return settings
  positions = json_files.field(
    configuration.read(path), "max_position_embeddings", int, path, 512
  )
  # Unlike the original: the default is at most the number of positions.
  return settings.replace(max_seq_length=min(default, positions))


def _with_model_dir(settings, paths):
  """Returns settings with the paths of --model_dir."""
  vocab_file = settings.get("vocab_file") or paths.get("vocab_file")
  # A script with --do_lower_case reads text, so it needs a vocabulary.
  if "do_lower_case" in settings and not vocab_file:
    tokenizer_files.refuse_missing_vocabulary(settings.model_dir)
  return settings.replace(
    **{
      name: path
      for name, path in paths.items()
      if name in settings and name not in settings.given
    }
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
  changes, differences = {}, []
  for name, text in trained.items():
    try:
      # Use the flag's parser, because a user may have edited the file.
      value = settings.parse(name, text)
      value = tuple(value) if isinstance(value, list) else value
    except (TypeError, ValueError) as error:
      raise errors.InputError(
        f"{source}: --{name} does not accept the value {text!r:.40}: {error}"
      ) from error
    if name not in settings.given:
      changes[name] = value
    elif getattr(settings, name) != value:
      differences.append(
        f"--{name}={getattr(settings, name)} (trained with {value})"
      )
  if differences:
    logging.warning(
      "the input differs from training: %s", ", ".join(differences)
    )
  return settings.replace(**changes)


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
