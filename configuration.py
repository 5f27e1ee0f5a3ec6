"""Model configurations: hyperparameters, shapes of variables, memory needed.

This module converts between two JSON formats: the original's bert_config.json
and Hugging Face's config.json. They share most keys, but not the meaning of
hidden_act: Hugging Face's "gelu" is the exact function with erf, which this
project calls "gelu_erf". The original's "gelu" is the approximation with tanh,
which Hugging Face calls "gelu_new". Confusing the two changes every hidden
state by about 1e-3 and raises no error.
"""

import copy
import dataclasses
import json
import math
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from absl import logging

from common import errors, json_files, memory, model_formats

_COUNTS = (
  "vocab_size hidden_size num_hidden_layers num_attention_heads "
  "intermediate_size max_position_embeddings type_vocab_size"
).split()
_SOURCE = "the model configuration"
# The names that layers.get_activation knows.
ACTIVATIONS = ("gelu", "gelu_erf", "linear", "relu", "silu", "swish", "tanh")


# Unlike the original: objects are compared and hashed by their fields.
@dataclasses.dataclass(unsafe_hash=True)
class BertConfig:
  """Hyperparameters of a model, as in `bert_config.json`.

  As in the original: the constructor does not check the values. `from_dict` and
  `BertModel` check them.

  Attributes:
    vocab_size: rows of the word embedding table, V.
    hidden_size: width of the hidden states, H.
    num_hidden_layers: number of encoder layers.
    num_attention_heads: attention heads in each layer, N; must divide H.
    intermediate_size: inner width of the feed-forward network, I.
    hidden_act: a name in `ACTIVATIONS`, or a function.
    hidden_dropout_prob: share of hidden units dropped in training.
    attention_probs_dropout_prob: share of attention probabilities dropped.
    max_position_embeddings: length of the longest sequence, in tokens.
    type_vocab_size: number of segments. As in the original: the default is 16,
      although every released configuration has 2.
    initializer_range: standard deviation of the initial weights, before their
      normal distribution is truncated at two standard deviations.
  """

  vocab_size: int
  hidden_size: int = 768
  num_hidden_layers: int = 12
  num_attention_heads: int = 12  # N
  intermediate_size: int = 3072  # I
  hidden_act: str = "gelu"
  hidden_dropout_prob: float = 0.1
  attention_probs_dropout_prob: float = 0.1
  max_position_embeddings: int = 512
  type_vocab_size: int = 16
  initializer_range: float = 0.02
  # Added to the variance in layer norms. It is a class variable, because the
  # original's file lacks this key; a variant's file may have it.
  layer_norm_eps: ClassVar[float] = model_formats.EPSILON

  if TYPE_CHECKING:

    def __getattr__(self, name: str) -> Any: ...  # A variant's field.

  def check(self) -> None:
    """Raises InputError for an invalid field, with its value and the range."""
    for name in _COUNTS:
      self.check_number(name, int, low=1)
    for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
      self.check_number(name, (int, float), low=0, below=1)
    self.check_number("initializer_range", (int, float), low=0)
    self.check_number("layer_norm_eps", (int, float), low=0)
    if self.hidden_size % self.num_attention_heads:
      raise errors.InputError(
        f"hidden_size {self.hidden_size} is not a multiple of "
        f"num_attention_heads {self.num_attention_heads}; change either"
      )
    # Without this check, an unknown name would fail only at the first batch.
    check_activation(self.hidden_act)

  def check_number(self, name: str, types, *, low, below=math.inf) -> None:
    """Raises InputError unless the type fits and low <= value < below."""
    value = getattr(self, name, None)  # A variant's field may be missing.
    # A bool is an int in Python: `true` in the JSON file must not pass as 1.
    fits = isinstance(value, types) and not isinstance(value, bool)
    if not fits or not low <= value < below:
      expected = "an integer" if types is int else "a number"
      limit = f" and less than {below}" if below < math.inf else ""
      raise errors.InputError(
        f"{name} is {value!r} in {_SOURCE}; expected {expected} of at least "
        f"{low}{limit}"
      )

  @classmethod
  def from_dict(cls, json_object: dict) -> "BertConfig":
    """Makes a configuration; the keys show the format of `json_object`.

    In the original's format, only `vocab_size` is required, and unknown keys
    (released files have some, such as `directionality`) become attributes that
    `to_dict` includes. Raises InputError: vocab_size is missing, a key or value
    is invalid, or the model is neither BERT nor a variant.
    """
    if is_huggingface(json_object):
      json_object = from_huggingface(json_object)
    of_a_task(json_object)  # Checks the types of the task's entries.
    known = {field.name for field in dataclasses.fields(cls)}
    fields = {k: v for k, v in json_object.items() if k in known}
    # `check` refuses a missing vocab_size.
    config = cls(**{"vocab_size": None, **fields})
    for key in json_object.keys() - known:
      # The key would hide a method such as to_dict.
      if callable(getattr(cls, key, None)):
        raise errors.InputError(
          f"{_SOURCE} has a key {key!r}, a name reserved for a method; remove "
          "the key"
        )
      setattr(config, key, json_object[key])
    config.check()
    return config

  @classmethod
  def from_json_file(cls, json_file) -> "BertConfig":
    """Reads a file of either format; every InputError names the file."""
    json_object = read(os.fspath(json_file))
    with errors.placed(json_file):
      return cls.from_dict(json_object)

  def to_dict(self) -> dict:
    """Returns all fields, including the unknown keys of the file."""
    return dict(vars(self))

  def to_json_string(self) -> str:
    """Returns JSON with sorted keys, two-space indent and a final newline."""
    return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"

  def label_names(self) -> list[str]:
    """Returns the label names of a trained head, or [] without one.

    They are the values of `id2label`, as in Hugging Face's configurations.
    Raises InputError: the labels are not numbered from 0.
    """
    return _label_names(self.to_dict().get("id2label") or {})

  def check_vocabulary(
    self, num_tokens: int, source: str = "the vocabulary"
  ) -> None:
    """Raises InputError if `num_tokens` ids do not fit the embedding table.

    Fewer ids only cause a warning, because some tables are padded.
    """
    if num_tokens > self.vocab_size:
      raise errors.InputError(
        f"{source} has {num_tokens} tokens but {_SOURCE} says vocab_size "
        f"{self.vocab_size}; use the vocabulary that belongs to the model"
      )
    if num_tokens < self.vocab_size:
      logging.warning(
        "%s has %d tokens, fewer than the vocab_size %d of %s: this is fine if "
        "vocab_size was rounded up on purpose; otherwise check that the "
        "vocabulary fits the model",
        source,
        num_tokens,
        self.vocab_size,
        _SOURCE,
      )

  def check_pairs(self, segment_b: int) -> None:
    """Raises InputError if the model has no embedding for this segment."""
    if segment_b >= self.type_vocab_size:
      raise errors.InputError(
        f"two texts need {segment_b + 1} segments, but {_SOURCE} says "
        f"type_vocab_size {self.type_vocab_size}; use a model for text pairs"
      )

  def check_sequence_length(self, length: int) -> None:
    """Raises InputError if `length` exceeds the position embeddings."""
    if length > self.max_position_embeddings:
      raise errors.InputError(
        f"sequence length {length} is more than the model's "
        f"max_position_embeddings {self.max_position_embeddings}; shorten the "
        "sequences (--max_seq_length) or use a model with more positions"
      )

  def num_parameters(self, shapes: Callable | None = None) -> int:
    """Returns the parameter count for `shapes`, by default bert_shapes."""
    # With a mistyped num_hidden_layers, a table of all layers could be huge.
    one_layer = copy.copy(self)
    one_layer.num_hidden_layers = 1
    table = (shapes or bert_shapes)(one_layer)
    sizes = {name: math.prod(shape) for name, shape in table.items()}
    in_layer = sum(s for name, s in sizes.items() if "/layer_0/" in name)
    return sum(sizes.values()) + (self.num_hidden_layers - 1) * in_layer

  def check_memory(self, shapes: Callable | None = None) -> None:
    """Raises InputError if this machine cannot hold the weights of `shapes`.

    Without this check, a mistyped number would cause an allocation error that
    does not name it, or the system would kill the process.
    """
    present, needed = memory.total_bytes(), 4 * self.num_parameters(shapes)
    # This counts only weights; training needs several times more memory.
    if present is not None and needed > present:
      # The largest number most likely has a digit too many.
      largest = max(_COUNTS, key=lambda name: getattr(self, name))
      raise errors.InputError(
        f"a model of this configuration needs {_gigabytes(needed)} of memory "
        f"for its weights, and this machine has {_gigabytes(present)}; check "
        f"the numbers in {_SOURCE}, such as {largest} {getattr(self, largest)}"
      )


# Formats

# Hugging Face's config.json often has one of these weight files next to it.
_WEIGHTS = ("model.safetensors", "pytorch_model.bin", "tf_model.h5")
# Keys for a fine-tuned model's task; only this project has the last two.
_TASK_KEYS = {
  "id2label": dict[str, str],
  "problem_type": str,
  "input_settings": dict,
  "classifier_input": dict,
}


class Problem(NamedTuple):
  """The head, task and --output_activation of a `problem_type`.

  `task_kind` is one of classification.data.KINDS. transformers knows the
  problem types that have an activation, except RERANKERS.
  """

  head: str
  task_kind: str
  activation: str | None = None


PROBLEMS = {
  "single_label_classification": Problem("classification", "single", "softmax"),
  "multi_label_classification": Problem(
    "classification", "multi_label", "sigmoid"
  ),
  "ranking": Problem("classification", "ranking", "relevance"),
  "ranking_logit": Problem("classification", "ranking_logit", "linear"),
  # Must follow "ranking_logit": in KIND_OF_ACTIVATION the last "linear" wins.
  "regression": Problem("classification", "regression", "linear"),
  "multiple_choice": Problem("classification", "choice"),
  "similarity": Problem("embedding", "similarity"),
  "retrieval": Problem("embedding", "retrieval"),
}
PROBLEM_OF_KIND = {entry.task_kind: name for name, entry in PROBLEMS.items()}
KIND_OF_ACTIVATION = {
  entry.activation: entry.task_kind
  for entry in PROBLEMS.values()
  if entry.activation
}
# {problem_type of a reranker: torch class that turns logits into scores}
RERANKERS = {"ranking": "Sigmoid", "ranking_logit": "Identity"}
# Newer versions of sentence-transformers write the torch class to this file.
_RERANKER_FILE = "config_sentence_transformers.json"
# {end of a class name in transformers: head}
_CLASS_HEADS = {
  "ForSequenceClassification": "classification",
  "ForMultipleChoice": "classification",
  "ForTokenClassification": "tagging",
}
# Hugging Face's name of an activation -> our name
_ACTIVATIONS = {
  "gelu": "gelu_erf",
  "gelu_python": "gelu_erf",
  "gelu_new": "gelu",
  "gelu_fast": "gelu",
  "gelu_pytorch_tanh": "gelu",
}
# Our name -> Hugging Face's; other activations have the same name.
THEIR_ACTIVATIONS = {"gelu": "gelu_new", "gelu_erf": "gelu"}


def is_huggingface(values: dict, path: str | None = None) -> bool:
  """Returns whether the values of a JSON file have Hugging Face's format.

  In files from 2019, no key shows the format. For these files, the file name in
  `path` and the weights next to the file decide.
  """
  keys = {"model_type", "architectures", "transformers_version"}
  if not keys.isdisjoint(values):
    return True
  if not path or os.path.basename(path) != "config.json":
    return False
  folder = os.path.dirname(path)
  return any(os.path.exists(os.path.join(folder, name)) for name in _WEIGHTS)


def read(path: str, folder: json_files.Folder | None = None) -> dict:
  """Reads a file of either format, as a dict for `BertConfig.from_dict`.

  `folder` has the files next to it. Raises InputError: the file is missing or
  invalid, or the model unsupported.
  """
  name = os.path.basename(path)
  folder = folder or json_files.Folder(os.path.dirname(path))
  values = folder.read(name, required=True)
  with errors.placed(path):
    if is_huggingface(values, path):
      newer = folder.read(_RERANKER_FILE)
      if "activation_fn" in newer:  # Older versions write it to config.json.
        values = {**values, "sentence_transformers": newer}
      return from_huggingface(values)
    _check_network(values)
  # The ALBERT authors' file does not name the variant.
  if {"embedding_size", "num_hidden_groups"} <= values.keys():
    return {"variant": "albert", **values}
  return values


def _check_network(values: dict, known_values: dict | None = None) -> None:
  """Raises InputError if a key needs a network that is not implemented."""
  for key, known in (known_values or model_formats.OTHER_NETWORKS).items():
    if values.get(key, known) != known:
      raise errors.InputError(
        f"{key} is {values[key]!r}, which is not supported; expected a model "
        f"with {known!r}"
      )


def from_huggingface(values: dict) -> dict:
  """Converts a config.json to the values of a bert_config.json.

  The result keeps the keys that describe a fine-tuned model's task, such as
  "id2label", a dict from a number (as a string) to a name. Raises InputError: a
  value has the wrong type, or the model is neither BERT nor a variant of it.
  """
  variant = json_files.field(values, "model_type", str, _SOURCE, "bert")
  if variant == "ernie" and not values.get("use_task_id"):
    variant = "bert"  # Without a task embedding, ERNIE has BERT's network.
  if variant not in model_formats.FORMATS:
    raise errors.InputError(
      f"model_type is {variant!r}; only the types "
      + ", ".join(map(repr, sorted(model_formats.FORMATS)))
      + " can be read"
    )
  model_format = model_formats.FORMATS[variant]
  _check_network(values, model_format.other_networks)
  huggingface_names = {
    n: model_format.names.get(n, n)
    for n in (*model_formats.SHARED, *model_format.others)
  }
  config = {
    **model_format.defaults,
    **{name: values[n] for name, n in huggingface_names.items() if n in values},
  }
  if rows_before := _rows_before(config, variant):
    rows = json_files.field(config, "max_position_embeddings", int, _SOURCE)
    config["max_position_embeddings"] = rows - rows_before
  is_roberta = variant in model_formats.ROBERTA_TYPES
  epsilon = config.get("layer_norm_eps")
  if not is_roberta and epsilon == model_formats.EPSILON:
    del config["layer_norm_eps"]
  # BERT's file has no `variant`, like the original's.
  if variant != "bert":
    config["variant"] = variant
  # `check` handles unknown names and values that are not strings.
  for key in ("hidden_act", *model_format.activations):
    if isinstance(name := config.get(key), str):
      config[key] = _ACTIVATIONS.get(name, name)
  if variant == "electra" and config["hidden_act"] != "gelu_erf":
    # transformers' generator always uses the exact GELU; the authors' does not.
    config["masked_lm_act"] = "gelu_erf"
  return {**config, **_with_defaults(values)}


def _with_defaults(values: dict) -> dict:
  """Returns of_a_task(values) plus the defaults that transformers omits."""
  task, head = of_a_task(values), head_of(values)
  if head:
    count = json_files.field(values, "num_labels", int, _SOURCE, 2)
    task.setdefault("id2label", {str(n): f"LABEL_{n}" for n in range(count)})
  if "ForMultipleChoice" in str(values.get("architectures")):
    task.setdefault("problem_type", "multiple_choice")
  if head == "classification" and len(task["id2label"]) == 1:
    # The score is the logit unless a key names a reranker's activation.
    task.setdefault("problem_type", "regression")
    task.update(_reranker(values))
  return task


def _reranker(values) -> dict:
  """Returns the problem_type entry of a cross-encoder; {} for other models."""
  section = values.get("sentence_transformers")
  activation = (
    section.get("activation_fn") if isinstance(section, dict) else None
  ) or values.get("sbert_ce_default_activation_function")
  if not activation:
    return {}
  name = str(activation).split(".")[-1]
  if name not in RERANKERS.values():
    errors.warn_once(
      f"{_SOURCE} has {activation} as sentence-transformers' activation of "
      "scores, which is not supported; the scores will be the logits"
    )
  is_sigmoid = name == RERANKERS["ranking"]
  return {"problem_type": "ranking" if is_sigmoid else "ranking_logit"}


def head_of(values: dict) -> str | None:
  """Returns the head that a configuration names, or None if it names no head.

  Weights cannot tell "classification" from "tagging": their names are the same.
  """
  classes = values.get("architectures")
  for name in classes if isinstance(classes, list) else ():
    for ending, head in _CLASS_HEADS.items():
      if str(name).endswith(ending):
        return head
  # Only taggers have a scheme. Their problem_type may come from a classifier.
  if "scheme" in (values.get("input_settings") or ()):
    return "tagging"
  problem = PROBLEMS.get(str(values.get("problem_type")))
  return problem.head if problem else None


def _rows_before(config: dict, variant: str) -> int:
  """Returns how many rows of the position table precede position 0."""
  if variant not in model_formats.ROBERTA_TYPES:
    return 0
  return json_files.field(config, "pad_token_id", int, _SOURCE, -1) + 1


def of_a_task(values: dict) -> dict:
  """Returns the entries of a configuration that describe its task.

  Both formats share them. Raises InputError: an entry has the wrong type.
  """
  entries = {
    name: json_files.field(values, name, entry_type, _SOURCE, None)
    for name, entry_type in _TASK_KEYS.items()
  }
  return {name: value for name, value in entries.items() if value}


def masked_lm_act(config: BertConfig) -> str | Callable:
  """Returns the activation of the masked-LM head.

  In transformers it is the exact GELU for RoBERTa's relatives and for ELECTRA's
  generator, whatever the encoder's activation is.
  """
  values = config.to_dict()
  if values.get("variant") in model_formats.ROBERTA_TYPES:
    return "gelu_erf"
  return values.get("masked_lm_act", config.hidden_act)


def has_transform(config: BertConfig) -> bool:
  """Returns whether the masked-LM head has its own transform."""
  known = model_formats.FORMATS.get(config.to_dict().get("variant", "bert"))
  return known is None or known.has_transform


def only_here(config: BertConfig) -> str:
  """Returns the variant's name if transformers has no class for it, or ""."""
  if names := tops(config):
    return f"a model with {' and '.join(names)} on top"
  variant = config.to_dict().get("variant", "bert")
  return "" if variant in model_formats.FORMATS else variant


def tops(config: BertConfig) -> list[str]:
  """Returns the names of the encoder's tops (files in variants/tops)."""
  end, values = "_on_top", config.to_dict()
  return [n.removesuffix(end) for n in values if n.endswith(end) and values[n]]


def check_huggingface(config: BertConfig) -> None:
  """Raises InputError for a model that transformers has no class for."""
  if variant := only_here(config):
    raise errors.InputError(
      f"transformers has no class for {variant}: write the model in this "
      "project's own formats (--to=tf1, --to=tf2, SavedModel)"
    )


def to_huggingface(config: dict, architecture: str) -> dict:
  """Converts our values to a config.json for a class of transformers."""
  variant = config.get("variant", "bert")
  model_format = model_formats.FORMATS[variant]
  config = {**config}
  for key in {"hidden_act", *model_format.activations} & config.keys():
    config[key] = THEIR_ACTIVATIONS.get(config[key], config[key])
  values = {
    model_format.names.get(name, name): config[name]
    for name in (*model_formats.SHARED, *model_format.others)
    if name in config
  }
  # The key None stands for names that transformers lacks.
  values.pop(None, None)
  if rows_before := _rows_before(values, variant):
    values["max_position_embeddings"] += rows_before
  values |= of_a_task(config)
  name = values.get("problem_type", "")
  if name == "regression" or name in RERANKERS:
    # Without names, transformers assumes two labels.
    values.setdefault("id2label", {"0": "LABEL_0"})
  names = _label_names(values.get("id2label", {}))
  if names:
    values["label2id"] = {name: number for number, name in enumerate(names)}
  if name in RERANKERS:
    activation = f"torch.nn.{RERANKERS[name]}"
    values["sentence_transformers"] = {"activation_fn": activation}
  if name in RERANKERS or not (name in PROBLEMS and PROBLEMS[name].activation):
    values.pop("problem_type", None)
  if "layer_norm_eps" in model_format.others:
    key = model_format.names.get("layer_norm_eps") or "layer_norm_eps"
    values.setdefault(key, model_formats.EPSILON)
  return {
    # The id of [PAD] in BERT's released vocabularies and of <pad> in ALBERT's.
    "pad_token_id": 0,
    **values,
    "architectures": [architecture],
    "model_type": variant,
  }


def _label_names(by_number) -> list:
  """Returns the names of {number as a string: name}, ordered by number."""
  try:
    return [by_number[str(number)] for number in range(len(by_number))]
  except KeyError as error:
    raise errors.InputError(
      f"id2label in {_SOURCE} has no {error}; number the labels from 0"
    ) from error


def check_activation(activation) -> None:
  """Raises InputError unless the value is a name in ACTIVATIONS or a function.

  None and "" mean linear; case does not matter.
  """
  name = str(activation or "linear").lower()
  if not callable(activation) and name not in ACTIVATIONS:
    raise unknown_activation(activation)


def unknown_activation(activation) -> errors.InputError:
  """Returns the error for a value that `check_activation` refuses."""
  return errors.InputError(
    f"unknown activation {activation!r}; known: " + ", ".join(ACTIVATIONS)
  )


# The table of variables


def bert_shapes(config: BertConfig, scope: str = "bert") -> dict[str, tuple]:
  """Returns {name: shape} of a `BertModel`, in the order of the original."""
  width, inner_width = config.hidden_size, config.intermediate_size
  shapes: dict[str, tuple] = {
    # Must come first: BertModel.word_embeddings returns the first variable.
    "embeddings/word_embeddings": (config.vocab_size, width),
    "embeddings/token_type_embeddings": (config.type_vocab_size, width),
    "embeddings/position_embeddings": (config.max_position_embeddings, width),
    **norm_shapes("embeddings/LayerNorm", width),
  }
  for number in range(config.num_hidden_layers):
    layer = f"encoder/layer_{number}"
    for name in ("self/query", "self/key", "self/value", "output/dense"):
      shapes |= dense_shapes(f"{layer}/attention/{name}", width, width)
    shapes |= {
      **norm_shapes(f"{layer}/attention/output/LayerNorm", width),
      **dense_shapes(f"{layer}/intermediate/dense", width, inner_width),
      **dense_shapes(f"{layer}/output/dense", inner_width, width),
      **norm_shapes(f"{layer}/output/LayerNorm", width),
    }
  shapes |= dense_shapes("pooler/dense", width, width)
  return {f"{scope}/{name}": shape for name, shape in shapes.items()}


def dense_shapes(name: str, inputs: int, outputs: int) -> dict[str, tuple]:
  """Returns {name: shape} of layers.dense's weights."""
  return {f"{name}/kernel": (inputs, outputs), f"{name}/bias": (outputs,)}


def norm_shapes(name: str, width: int) -> dict[str, tuple]:
  """Returns {name: shape} of layers.layer_norm's weights."""
  return {f"{name}/beta": (width,), f"{name}/gamma": (width,)}


def _gigabytes(size) -> str:
  # The minimum keeps the number within the range of a float.
  return f"{min(size, 10**300) / 10**9:.3g} GB"
