"""Combines the user's settings with a trained model's.

A model folder stores the input settings of the training (see model_folder) and
the task (problem_type). With these settings, the model gives the same answers
as in the script that trained it. Settings that the user gives override them.
"""

import os

import configuration
from answering import export_options
from checkpoints import (
  model_folder,
  model_settings,
  sentence_folder,
  trained_head,
)
from common import errors, run_settings
from squad import null_threshold


def find_model(
  settings: run_settings.Settings,
) -> tuple[run_settings.Settings, configuration.BertConfig]:
  """Returns settings that name a model's files, and its configuration.

  Raises InputError: the model or its weights are missing.
  """
  settings = model_settings.resolve(settings)
  if not settings.init_checkpoint:
    raise errors.InputError(
      "pass --init_checkpoint or --model_dir, which name the model's weights"
    )
  path = settings.bert_config_file
  return settings, configuration.BertConfig.from_json_file(path)


def with_trained(
  settings: run_settings.Settings, config: configuration.BertConfig
) -> run_settings.Settings:
  """Returns settings with the input settings that a model stores.

  It skips stored settings that the head does not use. Raises InputError: a
  stored value is invalid.
  """
  trained = model_folder.input_settings(config.to_dict())
  if settings.head in ("embedding", "sparse"):
    folder = os.path.dirname(settings.bert_config_file)
    if settings.head == "sparse":
      rules = sentence_folder.read_sparse(folder)
    else:
      rules = sentence_folder.read(folder, settings.given)
    trained = {**rules, **trained}
  is_reranker = config.to_dict().get("problem_type") in configuration.RERANKERS
  if trained.get("text_b_column") or is_reranker:
    trained.setdefault("text_pairs", True)
  # With "auto", run_squad.py found a threshold and stored it with the weights.
  if trained.get("null_score_diff_threshold") == "auto":
    del trained["null_score_diff_threshold"]
  known = {
    name: trained[name]
    for name, option in export_options.BY_NAME.items()
    if trained.get(name) is not None
    and (not option.heads or settings.head in option.heads.split())
  }
  return model_settings.restore_input_settings(
    settings, known, settings.bert_config_file
  )


def resolve(
  settings: run_settings.Settings, config: configuration.BertConfig
) -> run_settings.Settings:
  """Returns the complete settings of an export, including the model's.

  `labels` is [] if the head has no label names. Raises InputError: a flag would
  have no effect, the weights lack the head, the problem_type is not supported,
  labels are missing, or a setting stored with the model is invalid.
  """
  trained_head.require(settings.head, settings)
  # Defaults of the head's script. The model's settings override them below.
  length, stride = (384, 128) if settings.head == "span" else (128, 0)
  length = min(length, config.max_position_embeddings)
  changes: dict = {"max_seq_length": length, "doc_stride": stride}
  changes = {n: v for n, v in changes.items() if n not in settings.given}
  if settings.head == "classification" and not settings.output_activation:
    changes["output_activation"] = _activation(config)
  settings = with_trained(settings.replace(**changes), config)
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
