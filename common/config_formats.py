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
# What both formats say of a model, under our names.
_SHARED = (
  "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
  "intermediate_size", "hidden_act", "hidden_dropout_prob",
  "attention_probs_dropout_prob", "max_position_embeddings", "type_vocab_size",
  "initializer_range",
)


class _Kind(NamedTuple):
  """How transformers writes the configuration of one kind of model.

  Attributes:
    defaults: our name of a key -> what transformers takes where it is absent,
      if it is not what modeling.BertConfig takes.
    built_in: their name -> the value that this project's model has built in;
      other ones cannot be read.
    names: our name -> theirs, where the two differ; None where they have none.
    others: names of what only this kind has.
  """

  defaults: dict
  built_in: dict = {}
  names: dict = {}
  others: tuple[str, ...] = ()


_BERT = {"vocab_size": 30522, "type_vocab_size": 2, "hidden_act": "gelu"}
_NO_OTHERS = {"layer_norm_eps": 1e-12, "position_embedding_type": "absolute"}
# By model_type, which is also the name of a variant (see the folder).
_KINDS = {
  "bert": _Kind(
    defaults=_BERT,
    built_in={**_NO_OTHERS, "is_decoder": False, "add_cross_attention": False},
  ),
  "distilbert": _Kind(
    defaults={**_BERT, "num_hidden_layers": 6},
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
      "vocab_size": 30000,
      "embedding_size": 128,
      "hidden_size": 4096,
      "num_hidden_groups": 1,
      "num_attention_heads": 64,
      "intermediate_size": 16384,
      "hidden_act": "gelu_new",
      "hidden_dropout_prob": 0,
      "attention_probs_dropout_prob": 0,
      "type_vocab_size": 2,
    },
    built_in={**_NO_OTHERS, "inner_group_num": 1},
    others=("embedding_size", "num_hidden_groups"),
  ),
}
# What a fine-tuned model says of its task; the last two are this project's.
_OF_A_TASK = {
  "id2label": dict[str, str], "problem_type": str, "input_settings": dict,
  "classifier_input": dict,
}
# Those that transformers takes.
_PROBLEM_TYPES = (
  "regression", "single_label_classification", "multi_label_classification",
)
# Hugging Face's name of an activation -> ours
_ACTIVATIONS = {
  "gelu": "gelu_erf",
  "gelu_python": "gelu_erf",
  "gelu_new": "gelu",
  "gelu_fast": "gelu",
  "gelu_pytorch_tanh": "gelu",
}


def is_huggingface(values: dict, path: str | None = None) -> bool:
  """Whether the values of a JSON file are a Hugging Face configuration.

  Args:
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


def read(path: str) -> dict:
  """Reads a configuration of either format.

  Returns:
    As in a bert_config.json, for `BertConfig.from_dict`.

  Raises:
    InputError: there is no such file, or it is of another kind of model.
  """
  values = json_files.read(path)
  if is_huggingface(values, path):
    return from_huggingface(values, path)
  return values


def from_huggingface(values: dict, path: str | None = None) -> dict:
  """Turns a config.json into the values of a bert_config.json.

  What a fine-tuned model says of its task is kept, such as "id2label" from a
  number in digits to a name.

  Args:
    path: its name, for errors; None where the caller adds it.

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
  theirs = {n: kind.names.get(n, n) for n in (*_SHARED, *kind.others)}
  config = {
    **kind.defaults,
    **{ours: values[n] for ours, n in theirs.items() if n in values},
  }
  # BERT's own file stays as the original writes it.
  if variant != "bert":
    config["variant"] = variant
  # Anything else is refused later, as an unknown activation is.
  name = config["hidden_act"]
  if isinstance(name, str):
    config["hidden_act"] = _ACTIVATIONS.get(name, name)
  return {**config, **of_a_task(values, source)}


def of_a_task(
  values: dict, source: str = "the model configuration"
) -> dict:
  """Returns what a configuration of either format says of a trained task.

  Raises:
    InputError: an entry is of another type.
  """
  found = {
    name: json_files.field(values, name, kind, source, None)
    for name, kind in _OF_A_TASK.items()
  }
  return {name: value for name, value in found.items() if value}


def to_huggingface(config: dict, architecture: str) -> dict:
  """Returns a config.json from the values of a bert_config.json.

  Args:
    architecture: name of a class of transformers.
  """
  variant = config.get("variant", "bert")
  kind = _KINDS[variant]
  values = {
    kind.names.get(name, name): config[name]
    for name in (*_SHARED, *kind.others)
    if name in config
  }
  # What they have no name for.
  values.pop(None, None)
  act = kind.names.get("hidden_act", "hidden_act")
  values[act] = {"gelu": "gelu_new", "gelu_erf": "gelu"}.get(
    config["hidden_act"], config["hidden_act"]
  )
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


def label_names(by_number: dict[str, str]) -> list[str]:
  """Returns the names of labels, of {number in digits: name}.

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


def check_vocabulary(num_tokens: int, vocab_size: int, source: str) -> None:
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
