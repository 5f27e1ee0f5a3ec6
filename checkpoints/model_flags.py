"""Defines the flags that name a model and its tokenizer. No TensorFlow."""

from checkpoints import model_options
from common import command, file_io, flags


def _check_model_files() -> None:
  # Imported here, because --help does not need it.
  from checkpoints import hub_cache, model_files, model_folder
  from engines import networks

  for name in flags.that_name_models():
    if value := flags.FLAGS[name].value:
      value = hub_cache.resolve(value, flags.FLAGS.download)
      flags.FLAGS[name].value = value
  folder = flags.FLAGS.model_dir
  # An export is read once, later: no TensorFlow delays that.
  is_export = folder and networks.engine_of(folder)
  if folder and not (is_export or file_io.is_remote(folder)):
    model_files.ModelFiles(folder)
  for name in ("init_checkpoint", "input"):
    path = name in flags.FLAGS and (flags.FLAGS[name].value or folder)
    if path and not file_io.is_remote(path):
      model_folder.weights_file(path)


def define(*, head: str = "", required: bool = True) -> None:
  """Defines the flags of a model and its tokenizer; see the two functions."""
  define_model_flags(head=head, required=required)
  define_tokenizer_flags(required=required)


def define_model_flags(*, head: str = "", required: bool = True) -> None:
  """Defines the flags for the model and its initial weights.

  `head` is the head of a script that has one; see flag_values.default_length.
  """
  flags.define_options(model_options.of_model(head))
  _define_download_flag()
  if required:
    require_or_model_dir("bert_config_file")


def define_model_dir_flag(replaced: str, *, has_model: bool = False) -> None:
  """Defines --model_dir; `replaced` names the flags that it sets.

  `has_model`: whether the script requires a flag that names a model.
  """
  flags.define_options([model_options.of_folder(replaced)])
  _define_download_flag(has_model)


def _define_download_flag(has_model: bool = False) -> None:
  flags.define_options([model_options.DOWNLOAD])
  if not has_model:
    flags.require_model("download")
  command.check_early(_check_model_files)


def require_or_model_dir(name: str) -> None:
  """Requires a flag, unless --model_dir replaces it."""
  flags.register_multi_flags_validator(
    [name, "model_dir"],
    lambda values: values[name] or values["model_dir"],
    f"Flag --{name} or --model_dir must have a value.",
  )


def define_tokenizer_flags(*, required: bool = True) -> None:
  """Defines the flags of the tokenizer."""
  flags.define_options(model_options.TOKENIZER)
  if required:
    require_or_model_dir("vocab_file")
