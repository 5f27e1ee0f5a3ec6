"""The model that a command names: its files, its tokenizer, its input.

Every function takes the run_settings.Settings of the command; none reads a
flag.
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
  """Returns the settings that a script works with, from its flags.

  --model_dir becomes the flags that it replaces. If --do_lower_case is not
  given, it is read from the vocabulary's folder. If --max_seq_length is not
  given, it is capped at the model's number of positions. Raises InputError:
  --model_dir holds no model.
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
  # Unlike the original: a model of fewer positions lowers the default.
  return settings.replace(max_seq_length=min(default, positions))


def _with_model_dir(settings, paths):
  """Returns settings with the paths of --model_dir."""
  vocab_file = settings.get("vocab_file") or paths.get("vocab_file")
  # A script with this flag reads text, so it needs a vocabulary.
  if "do_lower_case" in settings and not vocab_file:
    tokenizer_files.require_vocabulary(settings.model_dir)
  return settings.replace(
    **{
      name: path
      for name, path in paths.items()
      if name in settings and name not in settings.given
    }
  )


def trained_model_file(settings: Settings) -> str:
  """Returns the file that says how the input of trained weights was made.

  The model that a run's own training left comes first: its checkpoints count
  more than --init_checkpoint, and --bert_config_file may still describe the
  model that the training started from.
  """
  if settings.get("output_dir"):
    path = os.path.join(settings.output_dir, "final_model", "bert_config.json")
    if file_io.exists(path):
      return path
  return settings.bert_config_file


def restore_input_settings(
  settings: Settings, trained: dict, source: str
) -> Settings:
  """Returns settings that make the input as it was made in training.

  An explicit flag overrides the value of the training, with a warning where
  they differ. `trained` has values by names of settings, `source` is the file
  that says so. Raises InputError: the flag cannot have a value in the file.
  """
  changes, others = {}, []
  for name, text in trained.items():
    try:
      # By the flag's own parser: the file may be edited by hand.
      value = settings.parse(name, text)
      value = tuple(value) if isinstance(value, list) else value
    except (TypeError, ValueError) as error:
      raise errors.InputError(
        f"{source}: {name} is {text!r:.40}, which --{name} cannot be: {error}"
      ) from error
    if name not in settings.given:
      changes[name] = value
    elif getattr(settings, name) != value:
      others.append(
        f"--{name}={getattr(settings, name)} (trained with {value})"
      )
  if others:
    logging.warning("other input than in training: %s", ", ".join(others))
  return settings.replace(**changes)


def restore_trained(settings: Settings, names: Iterable[str]) -> Settings:
  """Returns settings, some of them overridden by the model's folder.

  Only a model of this project says how its input was made. Raises InputError:
  as of `restore_input_settings`.
  """
  source = trained_model_file(settings)
  trained = model_folder.input_settings(configuration.read(source))
  known = {name: trained[name] for name in names if name in trained}
  settings = restore_input_settings(settings, known, source)
  if known:
    used = " ".join(f"--{name}={settings.get(name)}" for name in known)
    logging.info("by %s: %s", source, used)
  return settings


def make_tokenizer(
  settings: Settings, config: configuration.BertConfig
) -> tokenization.FullTokenizer:
  """Returns the tokenizer of the tokenizer flags.

  Raises InputError: the vocabulary does not fit the model, or --do_lower_case
  not the name of --init_checkpoint.
  """
  # As in the original: by the name of a released folder.
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
