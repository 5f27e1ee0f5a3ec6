"""What is served or asked from Python, from settings and a trained model.

A model folder says how the model's input was made (see model_folder) and what
it was trained for (problem_type). Here the same is done, so that the model
answers as the script that trained it; a setting may say otherwise.
"""

import modeling
import tokenization
from checkpoints import model_folder, model_settings
from common import errors, file_io, run_settings
from serving import export_options, models
from squad import null_threshold

# Which flags of a trained model's script concern the export of each head.
_TRAINED = {
  "classification": (
    "max_seq_length", "doc_stride", "max_windows", "do_lower_case",
    "text_pairs",
  ),
  "embedding": (
    "max_seq_length", "pooling", "normalize", "do_lower_case", "text_pairs",
  ),
  "masked_lm": ("max_seq_length", "do_lower_case"),
  "span": (
    "max_seq_length", "doc_stride", "max_query_length", "max_answer_length",
    "n_best_size", "version_2_with_negative", "null_score_diff_threshold",
    "do_lower_case",
  ),
  "tagging": ("max_seq_length", "do_lower_case"),
}
# Where neither a flag nor the model says: the defaults of the head's script.
_DEFAULTS = {
  "max_seq_length": {"span": 384, None: 128},
  "doc_stride": {"span": 128, None: 0},
}
# What the configuration says of a classifier -> --output_activation.
_ACTIVATIONS = {
  None: "softmax",
  "single_label_classification": "softmax",
  "multi_label_classification": "sigmoid",
  "regression": "linear",
}


def trained_settings(head: str, config: modeling.BertConfig) -> dict:
  """Returns what a model says of its input, as far as its head is concerned.

  It is for model_settings.restore_input_settings.
  """
  trained = model_folder.input_settings(config.to_dict())
  if trained.get("text_b_column"):
    trained.setdefault("text_pairs", True)
  # auto: sought after training, and stored with the weights it belongs to.
  if trained.get("null_score_diff_threshold") == "auto":
    del trained["null_score_diff_threshold"]
  return {
    name: trained[name]
    for name in _TRAINED[head]
    if trained.get(name) is not None
  }


def resolve(
  settings: run_settings.Settings, config: modeling.BertConfig
) -> run_settings.Settings:
  """Returns the settings of an export, those that the model implies included.

  Raises:
    InputError: a flag would have no effect, the model was trained for what no
      head here answers, or the threshold stored with its weights is damaged.
  """
  settings = model_settings.restore_input_settings(
    with_defaults(settings, config),
    trained_settings(settings.head, config),
    settings.bert_config_file,
  )
  run_settings.refuse_ignored(settings, export_options.RULES)
  if settings.head == "span":
    settings = settings.replace(
      null_score_diff_threshold=_null_threshold(settings)
    )
  return settings


def with_defaults(
  settings: run_settings.Settings, config: modeling.BertConfig
) -> run_settings.Settings:
  """Returns settings with what the head and the configuration imply.

  Raises:
    InputError: the model was trained for what no head here answers.
  """
  head = settings.head
  changes = {
    # Before what the model says: that goes over defaults, not over flags.
    name: of_heads.get(head, of_heads[None])
    for name, of_heads in _DEFAULTS.items()
    if name not in settings.given
  }
  if head == "classification" and not settings.output_activation:
    changes["output_activation"] = _activation(config)
  return model_settings.with_fitting_length(
    settings.replace(**changes), config.max_position_embeddings
  )


def _activation(config):
  """Returns the --output_activation of a trained classifier."""
  problem = config.to_dict().get("problem_type")
  if problem not in _ACTIVATIONS:
    known = ", ".join(filter(None, _ACTIVATIONS))
    raise errors.InputError(
      f"problem_type in --bert_config_file is {problem!r}, which cannot be "
      f"exported; expected one of {known}"
    )
  return _ACTIVATIONS[problem]


def read_labels(
  settings: run_settings.Settings, config: modeling.BertConfig
) -> list[str]:
  """Returns the labels of the flags, or else of the model.

  Raises:
    InputError: the head needs labels and there are none.
  """
  labels = list(settings.labels)
  if settings.label_file:
    labels += [line for _, line in file_io.read_lines(settings.label_file)]
  wanted = settings.head == "tagging" or (
    settings.head == "classification" and settings.output_activation != "linear"
  )
  if wanted and not labels:
    labels = config.label_names()
  if wanted and not labels:
    raise errors.InputError(
      f"--head={settings.head} needs names for its labels, in the order of "
      "training: pass --labels or --label_file, or a --bert_config_file with "
      "id2label"
    )
  return labels


def _null_threshold(settings):
  """Returns the threshold of "no answer"; None where each has an answer."""
  given = settings.null_score_diff_threshold
  if not settings.version_2_with_negative or given is not None:
    return given
  # Last: a flag and the training's settings come before it.
  return null_threshold.of_checkpoint(settings.init_checkpoint)


def make_model(
  settings: run_settings.Settings,
  config: modeling.BertConfig,
  tokenizer: tokenization.FullTokenizer,
) -> models.ServedModel:
  """Returns the model of settings from `resolve`, without its weights.

  Raises:
    InputError: see `read_labels` and models.ServedModel.
  """
  labels = read_labels(settings, config)
  if settings.head == "masked_lm":
    labels = models.vocabulary_lines(tokenizer)
  return models.KINDS[settings.head](config, settings, labels)
