"""Combines the user's settings with a trained model's.

A model folder stores the input settings of the training (see model_folder) and
the task (problem_type). With these settings, the model gives the same answers
as in the script that trained it. Settings that the user gives override them.
"""

from typing import Any

import configuration
from answering import export_options
from checkpoints import model_files
from common import errors, flag_values, run_settings
from squad import null_threshold


def find_model(
  settings: run_settings.Settings,
) -> tuple[run_settings.Settings, model_files.ModelFiles]:
  """Returns settings that name a model's files, and the files.

  Raises InputError: the model or its weights are missing.
  """
  files = model_files.ModelFiles.of(settings)
  settings = files.complete(settings)
  if not files.checkpoint:
    raise errors.InputError(
      "pass --init_checkpoint or --model_dir, which name the model's weights"
    )
  return settings, files


def with_trained(
  settings: run_settings.Settings, files: model_files.ModelFiles
) -> run_settings.Settings:
  """Returns settings with the input settings that a model's folder states.

  It skips settings that the head does not use. Raises InputError: a stored
  value is invalid.
  """
  trained, head = files.trained, settings.head
  is_reranker = files.values.get("problem_type") in configuration.RERANKERS
  names = export_options.names_of(head)
  if "text_pairs" in names and (trained.get("text_b_column") or is_reranker):
    settings = settings.filled({"text_pairs": True})
  # With "auto", run_squad.py found a threshold and stored it with the weights.
  left_out = [n for n, value in trained.items() if value in (None, "auto")]
  names = [name for name in names if name not in left_out]
  return files.complete(settings, names, head=head)


def resolve(
  settings: run_settings.Settings, files: model_files.ModelFiles
) -> run_settings.Settings:
  """Returns the complete settings of an export, including the model's.

  `labels` is [] if the head has no label names. Raises InputError: a flag would
  have no effect, the weights lack the head, the problem_type is not supported,
  labels are missing, or a setting stored with the model is invalid.
  """
  files.require(settings.head)
  config = files.config
  # Defaults of the head's script. The model's settings override them below.
  defaults: dict[str, Any] = {
    "max_seq_length": flag_values.default_length(settings.head),
    "doc_stride": 128 if settings.head == "span" else 0,
  }
  if settings.head == "classification" and not settings.output_activation:
    defaults["output_activation"] = _activation(config)
  settings = with_trained(settings.filled(defaults), files)
  run_settings.refuse_ignored(settings, export_options.RULES)
  threshold = settings.null_score_diff_threshold
  if settings.version_2_with_negative and threshold is None:
    # Neither a flag nor a setting of the training gives the threshold.
    threshold = null_threshold.of_checkpoint(settings.init_checkpoint)
  labels = _labels(settings, config)
  return settings.replace(null_score_diff_threshold=threshold, labels=labels)


def _activation(config: configuration.BertConfig) -> str:
  """Returns the --output_activation that a trained classifier needs."""
  problem = config.to_dict().get("problem_type")
  if problem is None:
    return "softmax"
  entry = configuration.PROBLEMS.get(problem)
  if not (entry and entry.activation):
    known = ", ".join(
      name for name, each in configuration.PROBLEMS.items() if each.activation
    )
    raise errors.InputError(
      f"problem_type in --bert_config_file is {problem!r}, which cannot be "
      f"exported; expected one of {known}"
    )
  return entry.activation


def _labels(
  settings: run_settings.Settings, config: configuration.BertConfig
) -> list[str]:
  """Returns the labels in the flags, or else in the model's configuration."""
  labels = list(settings.labels)
  if settings.head == "tagging" or (
    settings.head == "classification"
    and settings.output_activation not in ("linear", "relevance")
  ):
    labels = labels or config.label_names()
    if not labels:
      raise errors.InputError(
        f"--head={settings.head} needs the names of the labels in the order of "
        "training: pass --labels or a configuration with id2label"
      )
  return labels
