"""The sizes of a model: its configuration, its variables, its memory."""

import copy
import dataclasses
import json
import math
import os
from collections.abc import Callable

import layers
from common import config_formats, errors

_CONTAINER_LIMIT = "/sys/fs/cgroup/memory.max"
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")
_COUNTS = (
  "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
  "intermediate_size", "max_position_embeddings", "type_vocab_size",
)


# Unlike the original: compared by its fields, and hashed by them.
@dataclasses.dataclass(unsafe_hash=True)
class BertConfig:
  """Sizes of a model, as in `bert_config.json`.

  As in the original: not checked until it is read from a file or a model is
  made of it.

  Attributes:
    vocab_size: rows of the word embedding table, V.
    hidden_size: width of the hidden states, H.
    num_hidden_layers: encoder layers.
    num_attention_heads: heads in every layer, N; divides H.
    intermediate_size: width between the two products of the feed-forward, I.
    hidden_act: a name known to `layers.get_activation`, or a function.
    hidden_dropout_prob: share of hidden units dropped in training.
    attention_probs_dropout_prob: the same for attention probabilities.
    max_position_embeddings: longest sequence.
    type_vocab_size: segments. As in the original: 16 unless given, although
      every released configuration says 2.
    initializer_range: standard deviation of the initial weights, before the
      normal is truncated at two of them.
  """

  vocab_size: int | None
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

  def check(self):
    """Raises InputError, which names the field, its value and the range."""
    for name in _COUNTS:
      config_formats.check_field(self, name, int, low=1)
    for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
      config_formats.check_field(self, name, (int, float), low=0, below=1)
    config_formats.check_field(self, "initializer_range", (int, float), low=0)
    if self.hidden_size % self.num_attention_heads:
      raise errors.InputError(
        f"hidden_size {self.hidden_size} cannot be divided among "
        f"{self.num_attention_heads} attention heads; make it a multiple of "
        "num_attention_heads"
      )
    # For its error alone: an unknown name fails here, not in the first batch.
    layers.get_activation(self.hidden_act)

  @classmethod
  def from_dict(cls, json_object: dict) -> "BertConfig":
    """Makes a configuration from a dict with at least `vocab_size`.

    It may be of the original's format or of Hugging Face's, told by its keys:
    see `config_formats`. Keys that this class does not know (released files
    carry some, such as `directionality`) become attributes and are written
    back by `to_dict`.

    Raises:
      InputError: no vocab_size, a value that cannot be used, or another kind
        of model than BERT.
    """
    if config_formats.is_huggingface(json_object):
      json_object = config_formats.from_huggingface(json_object)
    if json_object.get("vocab_size") is None:
      raise errors.InputError(
        "the model configuration has no vocab_size; add the number of lines "
        "of the vocabulary file"
      )
    config_formats.of_a_task(json_object)
    known = {field.name for field in dataclasses.fields(cls)}
    config = cls(**{k: v for k, v in json_object.items() if k in known})
    for key in json_object.keys() - known:
      if hasattr(cls, key):  # Such as to_dict, which it would hide.
        raise errors.InputError(
          f"the model configuration has a key {key!r}, which has a meaning "
          "of its own in this program; remove it"
        )
      setattr(config, key, json_object[key])
    config.check()
    return config

  @classmethod
  def from_json_file(cls, json_file) -> "BertConfig":
    """Reads a file of either format; InputError names it in every fault."""
    json_object = config_formats.read(os.fspath(json_file))
    try:
      # Any fault gets the file's name, wherever in the reading it was found.
      return cls.from_dict(json_object)
    except errors.InputError as error:
      raise errors.InputError(f"{json_file}: {error}") from error

  def to_dict(self) -> dict:
    """Returns every field, unknown keys of the file included."""
    return dict(vars(self))

  def to_json_string(self) -> str:
    """Returns JSON with sorted keys, two spaces of indent, a last newline."""
    return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"

  def label_names(self) -> list[str]:
    """Returns the names of a trained head's labels, [] if there are none.

    They are in `id2label`, as in Hugging Face's configurations.

    Raises:
      InputError: they are not numbered from 0 on.
    """
    return config_formats.label_names(self.to_dict().get("id2label") or {})

  def check_vocabulary(self, num_tokens, source="the vocabulary"):
    """Raises InputError if `num_tokens` ids do not fit the embedding table."""
    config_formats.check_vocabulary(num_tokens, self.vocab_size, source)

  def check_sequence_length(self, length: int) -> None:
    """Raises InputError if sequences of `length` have no position rows."""
    if length > self.max_position_embeddings:
      raise errors.InputError(
        f"sequence length {length} is more than the model's "
        f"max_position_embeddings {self.max_position_embeddings}; shorten the "
        "sequences (--max_seq_length) or take a model made for longer ones"
      )

  def num_parameters(self, shapes: Callable | None = None) -> int:
    """Returns how many numbers an encoder of a table, bert_shapes, holds."""
    # By one layer: the list of all names could be too long to be made.
    one = copy.copy(self)
    one.num_hidden_layers = 1
    table = (shapes or bert_shapes)(one)
    sizes = {name: math.prod(shape) for name, shape in table.items()}
    in_layer = sum(s for name, s in sizes.items() if "/layer_0/" in name)
    return sum(sizes.values()) + (self.num_hidden_layers - 1) * in_layer

  def check_memory(self, shapes: Callable | None = None) -> None:
    """Raises InputError if this machine cannot hold the weights of `shapes`.

    Of a typing error in a number, TensorFlow or the system would say whatever
    it says of an impossible allocation, or kill the process.
    """
    present, needed = total_bytes(), 4 * self.num_parameters(shapes)
    # Weights alone; training needs several times as much.
    if present is not None and needed > present:
      # The number that most likely has a digit too many.
      largest = max(_COUNTS, key=lambda name: getattr(self, name))
      raise errors.InputError(
        f"a model of this configuration needs {describe(needed)} of memory for "
        f"its weights, and this machine has {describe(present)}; check the "
        f"numbers in the model configuration, such as {largest} "
        f"{getattr(self, largest)}"
      )


# The table of variables


def bert_shapes(config: BertConfig, scope: str = "bert") -> dict[str, tuple]:
  """Returns {name: shape} of a `BertModel`, in the order of the checkpoints."""
  width = config.hidden_size
  shapes = {
    # First of all: BertModel.word_embeddings takes it by its place.
    "embeddings/word_embeddings": (config.vocab_size, width),
    "embeddings/token_type_embeddings": (config.type_vocab_size, width),
    "embeddings/position_embeddings": (config.max_position_embeddings, width),
    **layers.norm_shapes("embeddings/LayerNorm", width),
  }
  for layer in range(config.num_hidden_layers):
    for name, shape in _layer_shapes(width, config.intermediate_size).items():
      shapes[f"encoder/layer_{layer}/{name}"] = shape
  shapes.update(layers.dense_shapes("pooler/dense", width, width))
  return {f"{scope}/{name}": shape for name, shape in shapes.items()}


def _layer_shapes(width, intermediate_size):
  return {
    **layers.dense_shapes("attention/self/query", width, width),
    **layers.dense_shapes("attention/self/key", width, width),
    **layers.dense_shapes("attention/self/value", width, width),
    **layers.dense_shapes("attention/output/dense", width, width),
    **layers.norm_shapes("attention/output/LayerNorm", width),
    **layers.dense_shapes("intermediate/dense", width, intermediate_size),
    **layers.dense_shapes("output/dense", intermediate_size, width),
    **layers.norm_shapes("output/LayerNorm", width),
  }


# Memory


def total_bytes() -> int | None:
  """Returns the bytes of memory that this process may use; None if unknown.

  The memory of the machine, or the limit of the container or of the process
  (ulimit -v) if that is less.
  """
  try:
    import resource  # Not on every system, nor is what follows.

    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
  except (ImportError, AttributeError, OSError, ValueError):
    return None
  if limit != resource.RLIM_INFINITY:
    total = min(total, limit)
  try:
    with open(_CONTAINER_LIMIT, encoding="ascii") as stream:
      container = stream.read().strip()
  except OSError:
    return total
  # "max" is no limit.
  return min(total, int(container)) if container.isdecimal() else total


def describe(size: int) -> str:
  """Returns a number of bytes in words: 1536 -> "1.5 kB"."""
  size = min(size, 10**300)  # What a float can hold.
  power = min((len(str(size)) - 1) // 3, len(_UNITS) - 1)
  return f"{size / 1000**power:.3g} {_UNITS[power]}"
