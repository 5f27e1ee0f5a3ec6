"""The two formats of a model's configuration, both dicts of JSON.

The original's bert_config.json, which this project writes too, and Hugging
Face's config.json. They share most names, but not the meaning of hidden_act:
Hugging Face's "gelu" is the exact function, made with erf, which this project
calls "gelu_erf"; the original's "gelu" is the approximation made with tanh,
which Hugging Face calls "gelu_new". Reading one as the other moves every
hidden state by about 1e-3, without any error: so this module recognizes both.
"""

import math
import os
from typing import NamedTuple

from absl import logging

from common import errors, json_files

# Next to a config.json of Hugging Face.
_WEIGHTS = ("model.safetensors", "pytorch_model.bin", "tf_model.h5")


class _Kind(NamedTuple):
  """How transformers writes the configuration of one kind of model.

  Attributes:
    defaults: our name of a key -> what transformers takes where it is absent.
    built_in: their name -> the value that this project's model has built in;
      other ones cannot be read.
    names: our name -> theirs, where the two differ; None where they have none.
  """

  defaults: dict
  built_in: dict
  names: dict = {}


_BERT = _Kind(
  defaults={
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "initializer_range": 0.02,
  },
  built_in={
    "layer_norm_eps": 1e-12,
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
  },
)
# By model_type, which is also the name of a variant (see the folder).
_KINDS = {
  "bert": _BERT,
  "distilbert": _Kind(
    defaults={**_BERT.defaults, "num_hidden_layers": 6},
    built_in={},
    names={
      "hidden_size": "dim",
      "num_hidden_layers": "n_layers",
      "num_attention_heads": "n_heads",
      "intermediate_size": "hidden_dim",
      "hidden_act": "activation",
      "hidden_dropout_prob": "dropout",
      "attention_probs_dropout_prob": "attention_dropout",
      "type_vocab_size": None,
    },
  ),
  "albert": _Kind(
    defaults={
      **_BERT.defaults,
      "vocab_size": 30000,
      "embedding_size": 128,
      "hidden_size": 4096,
      "num_hidden_groups": 1,
      "num_attention_heads": 64,
      "intermediate_size": 16384,
      "hidden_act": "gelu_new",
      "hidden_dropout_prob": 0,
      "attention_probs_dropout_prob": 0,
    },
    built_in={
      "layer_norm_eps": 1e-12,
      "position_embedding_type": "absolute",
      "inner_group_num": 1,
    },
  ),
}
# What a fine-tuned model says of its task; the last two are this project's.
_OF_A_TASK = {
  "id2label": dict[str, str], "problem_type": str, "input_settings": dict,
  "classifier_input": dict,
}
# Those that transformers takes.
_PROBLEM_TYPES = (
  "regression",
  "single_label_classification",
  "multi_label_classification",
)
# Hugging Face's name of an activation -> ours
_ACTIVATIONS = {
  "gelu": "gelu_erf",
  "gelu_python": "gelu_erf",
  "gelu_new": "gelu",
  "gelu_fast": "gelu",
  "gelu_pytorch_tanh": "gelu",
}


def is_huggingface(values, path=None):
  """Whether the values of a JSON file are a Hugging Face configuration.

  Args:
    values: dict.
    path: the file, where it is known. Files of 2019 have no key that says so,
      but their name and the weights next to them do.
  """
  keys = {"model_type", "architectures", "transformers_version"}
  if not keys.isdisjoint(values):
    return True
  if not path or os.path.basename(path) != "config.json":
    return False
  folder = os.path.dirname(path)
  return any(os.path.exists(os.path.join(folder, name)) for name in _WEIGHTS)


def read(path):
  """Reads a configuration of either format.

  Returns:
    dict as in a bert_config.json, for `BertConfig.from_dict`.

  Raises:
    InputError: there is no such file, or it is of another kind of model.
  """
  values = json_files.read(path)
  if is_huggingface(values, path):
    return from_huggingface(values, path)
  return values


def from_huggingface(values, path=None):
  """Turns a config.json into the values of a bert_config.json.

  Args:
    values: dict of config.json.
    path: its name, for errors; None where the caller adds it.

  Returns:
    dict. What a fine-tuned model says of its task is kept, such as "id2label"
    from a number in digits to a name.

  Raises:
    InputError: a kind of model that is neither BERT nor a variant of it.
  """
  source = path or "the model configuration"
  variant = json_files.field(values, "model_type", str, source, "bert")
  place = f"{path}: " if path else ""
  if variant not in _KINDS:
    raise errors.InputError(
      f"{place}model_type is {variant!r}; only models of "
      + ", ".join(map(repr, sorted(_KINDS))) + " can be read"
    )
  kind = _KINDS[variant]
  for key, expected in kind.built_in.items():
    if values.get(key, expected) != expected:
      raise errors.InputError(
        f"{place}{key} is {values[key]!r}; only models with {expected!r} can "
        "be read"
      )
  config = {
    key: values.get(kind.names.get(key, key), default)
    for key, default in kind.defaults.items()
  }
  # BERT's own file stays as the original writes it.
  if variant != "bert":
    config["variant"] = variant
  # Anything else is refused later, as an unknown activation is.
  name = config["hidden_act"]
  if isinstance(name, str):
    config["hidden_act"] = _ACTIVATIONS.get(name, name)
  return {**config, **of_a_task(values, source)}


def of_a_task(values, source="the model configuration"):
  """Returns what a configuration of either format says of a trained task.

  Raises:
    InputError: an entry is of another type.
  """
  found = {
    name: json_files.field(values, name, kind, source, None)
    for name, kind in _OF_A_TASK.items()
  }
  return {name: value for name, value in found.items() if value}


def to_huggingface(config, architecture):
  """Turns the values of a bert_config.json into those of a config.json.

  Args:
    config: dict of a bert_config.json.
    architecture: name of a class of transformers.
  """
  ours = {"gelu": "gelu_new", "gelu_erf": "gelu"}
  variant = config.get("variant", "bert")
  kind = _KINDS[variant]
  values = {
    kind.names.get(key, key): ours.get(config[key], config[key])
    if key == "hidden_act" else config[key]
    for key in kind.defaults
  }
  # What they have no name for.
  values.pop(None, None)
  values |= of_a_task(config)
  names = label_names(values.get("id2label", {}))
  if names:
    values["label2id"] = {name: number for number, name in enumerate(names)}
  if values.get("problem_type") not in _PROBLEM_TYPES:
    values.pop("problem_type", None)
  return {
    **values,
    "architectures": [architecture],
    "model_type": variant,
    **{k: v for k, v in kind.built_in.items() if k == "layer_norm_eps"},
    # [PAD] and <pad> are the first of the released vocabularies.
    "pad_token_id": 0,
  }


def check_field(config, name, types, *, low, below=math.inf):
  """Checks a number of a configuration.

  Args:
    config: object with the attribute `name`.
    name: of the field.
    types: type or tuple of types.
    low, below: the range; `below` is not in it.

  Raises:
    InputError: the value has another type or is out of range.
  """
  value = getattr(config, name)
  # A bool is an int in Python: `true` in the JSON file must not pass as 1.
  fits = isinstance(value, types) and not isinstance(value, bool)
  if not fits or not low <= value < below:
    kind = "an integer" if types is int else "a number"
    limit = f" and less than {below}" if below < math.inf else ""
    raise errors.InputError(
      f"{name} is {value!r} in the model configuration; expected {kind} of at "
      f"least {low}{limit}"
    )


def label_names(by_number):
  """Returns the names of labels, a list, of {number in digits: name}.

  Raises:
    InputError: they are not numbered from 0 on.
  """
  try:
    return [by_number[str(number)] for number in range(len(by_number))]
  except KeyError as error:
    raise errors.InputError(
      f"id2label in the model's configuration has no {error}; number the "
      "labels from 0 on"
    ) from error


def check_vocabulary(num_tokens, vocab_size, source):
  """Checks the size of a vocabulary against that of the embedding table.

  Args:
    num_tokens: tokens of the vocabulary.
    vocab_size: of the model configuration.
    source: what the vocabulary is called in messages.

  Raises:
    InputError: there are more tokens than rows. Fewer of them are a warning,
      because tables may be padded to a round size.
  """
  if num_tokens > vocab_size:
    raise errors.InputError(
      f"{source} has {num_tokens} tokens but the model configuration says "
      f"vocab_size {vocab_size}; use the vocabulary that belongs to the model"
    )
  if num_tokens < vocab_size:
    logging.warning(
      "%s has %d tokens, fewer than the vocab_size %d of the model "
      "configuration: fine where that is a round number on purpose, else check "
      "that it is the vocabulary of this model",
      source, num_tokens, vocab_size,
    )
