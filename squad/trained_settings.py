"""How the input of a trained model was made: stored with it, and used again."""

from absl import logging

import modeling
from checkpoints import model_folder, model_settings
from common import config_formats, run_settings

# The case of the text is in the folder's tokenizer_config.json, and the
# threshold of "no answer" in its null_threshold.json.
NAMES = (
  "max_seq_length", "doc_stride", "max_query_length", "max_answer_length",
  "n_best_size", "pad_to_max_length", "version_2_with_negative",
)


def with_settings(
  config: modeling.BertConfig, settings: run_settings.Settings
) -> modeling.BertConfig:
  """Returns a configuration that says how the model's input was made."""
  values = {name: settings.get(name) for name in NAMES}
  return model_folder.with_input_settings(config, values)


def restore(settings: run_settings.Settings) -> run_settings.Settings:
  """Returns settings that make the input of a trained model as in training.

  Unlike the original: it answered with the lengths of the flags, whatever the
  model had been trained with. A flag that is given counts, with a warning
  where it differs. Training takes its flags as they are.

  Raises:
    InputError: what is stored cannot be read.
  """
  if settings.do_train or settings.evaluate_only:
    return settings
  for source in model_settings.trained_model_files(settings):
    stored = model_folder.input_settings(config_formats.read(source))
    # A classifier's folder has some of the names, but no questions.
    if "max_query_length" in stored:
      known = {name: stored[name] for name in NAMES if name in stored}
      # Flags that are given stay, with a warning.
      restored = model_settings.restore_input_settings(settings, known, source)
      used = [f"--{name}={restored.get(name)}" for name in known]
      logging.info("by %s: %s", source, " ".join(used))
      return restored
  return settings
