"""The whole network: configuration, encoder and every head.

Every model variable of the project is made here, from tables of names and
shapes, and its name is the one in the released TF1 checkpoints. Tensor shapes
are written with these letters:

  B  batch                        T  sequence length (F from, T to in attention)
  H  width of the hidden states   N  attention heads
  D  width of one head, H / N     I  width of the intermediate layer
  V  vocabulary                   P  masked-LM predictions per sequence
  L  labels                       S  tokens of a batch that are computed
"""

import dataclasses
import json
import os
from typing import NamedTuple

import tensorflow as tf

import layers
from common import config_formats, errors, memory

# As in the original: new heads ignore initializer_range and drop 10 % of their
# input even where the configuration says hidden_dropout_prob 0.
_HEAD_STDDEV = 0.02
_HEAD_DROPOUT = 0.1


# Configuration


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
  def from_dict(cls, json_object):
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
  def from_json_file(cls, json_file):
    """Reads a file of either format; InputError names it in every fault."""
    json_object = config_formats.read(os.fspath(json_file))
    try:
      # Any fault gets the file's name, wherever in the reading it was found.
      return cls.from_dict(json_object)
    except errors.InputError as error:
      raise errors.InputError(f"{json_file}: {error}") from error

  def to_dict(self):
    """Returns every field, unknown keys of the file included."""
    return dict(vars(self))

  def to_json_string(self):
    """Returns JSON with sorted keys, two spaces of indent, a last newline."""
    return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"

  def label_names(self):
    """Returns the names of a trained head's labels, [] if there are none.

    They are in `id2label`, as in Hugging Face's configurations.

    Raises:
      InputError: they are not numbered from 0 on.
    """
    return config_formats.label_names(self.to_dict().get("id2label") or {})

  def check_vocabulary(self, num_tokens, source="the vocabulary"):
    """Raises InputError if `num_tokens` ids do not fit the embedding table."""
    config_formats.check_vocabulary(num_tokens, self.vocab_size, source)

  def check_sequence_length(self, length):
    """Raises InputError if sequences of `length` have no position rows."""
    if length > self.max_position_embeddings:
      raise errors.InputError(
        f"sequence length {length} is more than the model's "
        f"max_position_embeddings {self.max_position_embeddings}; shorten the "
        "sequences (--max_seq_length) or take a model made for longer ones"
      )

  def num_parameters(self, shapes=None):
    """Returns how many numbers an encoder of a table, bert_shapes, holds."""
    return memory.count_parameters(self, shapes or bert_shapes)

  def check_memory(self, shapes=None):
    """Raises InputError if this machine cannot hold the weights of `shapes`."""
    # The error names the number that most likely has a digit too many.
    largest = max(_COUNTS, key=lambda name: getattr(self, name))
    memory.check_parameters(
      self.num_parameters(shapes), f"{largest} {getattr(self, largest)}"
    )


_COUNTS = (
  "vocab_size",
  "hidden_size",
  "num_hidden_layers",
  "num_attention_heads",
  "intermediate_size",
  "max_position_embeddings",
  "type_vocab_size",
)


# The table of variables


def bert_shapes(config, scope="bert"):
  """Returns {name: shape} of a `BertModel`, in the order of the checkpoints."""
  width = config.hidden_size
  shapes = {
    # First of all: BertModel.word_embeddings takes it by its place.
    "embeddings/word_embeddings": (config.vocab_size, width),
    "embeddings/token_type_embeddings": (config.type_vocab_size, width),
    "embeddings/position_embeddings": (config.max_position_embeddings, width),
    **_norm_shapes("embeddings/LayerNorm", width),
  }
  for layer in range(config.num_hidden_layers):
    for name, shape in _layer_shapes(width, config.intermediate_size).items():
      shapes[f"encoder/layer_{layer}/{name}"] = shape
  shapes.update(_dense_shapes("pooler/dense", width, width))
  return {f"{scope}/{name}": shape for name, shape in shapes.items()}


def masked_lm_shapes(config, width=None):
  """Returns {name: shape} of a `MaskedLMHead` without its table [V, width]."""
  width = width or config.hidden_size
  return {
    **_dense_shapes(
      "cls/predictions/transform/dense", config.hidden_size, width
    ),
    **_norm_shapes("cls/predictions/transform/LayerNorm", width),
    "cls/predictions/output_bias": (config.vocab_size,),
  }


def output_shapes(config, prefix, num_outputs):
  """Returns {name: shape} of one last product, stored as [outputs, H]."""
  return {
    f"{prefix}output_weights": (num_outputs, config.hidden_size),
    f"{prefix}output_bias": (num_outputs,),
  }


def _layer_shapes(width, intermediate_size):
  return {
    **_dense_shapes("attention/self/query", width, width),
    **_dense_shapes("attention/self/key", width, width),
    **_dense_shapes("attention/self/value", width, width),
    **_dense_shapes("attention/output/dense", width, width),
    **_norm_shapes("attention/output/LayerNorm", width),
    **_dense_shapes("intermediate/dense", width, intermediate_size),
    **_dense_shapes("output/dense", intermediate_size, width),
    **_norm_shapes("output/LayerNorm", width),
  }


def _dense_shapes(name, inputs, outputs):
  return {f"{name}/kernel": (inputs, outputs), f"{name}/bias": (outputs,)}


def _norm_shapes(name, width):
  return {f"{name}/beta": (width,), f"{name}/gamma": (width,)}


class Weights(tf.Module):
  """A module whose variables are made from a table of names and shapes."""

  def __init__(self, shapes, *, stddev, seed, storage_dtype=tf.float32):
    super().__init__()
    self._names = tuple(shapes)
    self._weights = tuple(
      # Vectors (biases, layer norms) are small, and are added in float32.
      _make_variable(
        name, shape, stddev=stddev, seed=seed,
        dtype=storage_dtype if len(shape) > 1 else tf.float32,
      )
      for name, shape in shapes.items()
    )

  def _under(self, prefix):
    """Returns {rest of the name: variable} of the names below `prefix`."""
    return {
      name.removeprefix(prefix): weight
      for name, weight in zip(self._names, self._weights)
      if name.startswith(prefix)
    }


def _make_variable(name, shape, *, stddev, seed, dtype):
  # On the CPU, so that a seed means the same weights whatever the accelerator.
  with tf.device("CPU:0"):
    initial = _initial_value(name, shape, stddev=stddev, seed=seed)
    initial = tf.cast(initial, dtype)  # Drawn in float32 for any dtype.
  # The empty scope, so that no scope of the caller becomes part of the name.
  with tf.name_scope(""):
    return tf.Variable(initial, name=name)


def _initial_value(name, shape, *, stddev, seed):
  """Returns float32 initial weights, a function of (seed, name) alone.

  As in the original: the normal is cut at two standard deviations and not
  rescaled, so stddev 0.02 really gives 0.0176.
  """
  if name.endswith("/gamma"):
    return tf.ones(shape)  # Layer norm starts as the identity.
  if name.endswith(("bias", "/beta")):
    return tf.zeros(shape)
  seeds = tf.constant([seed, layers.name_number(name)], tf.int64)
  return tf.random.stateless_truncated_normal(
    shape, seed=seeds, stddev=stddev, alg="philox"
  )


# The encoder


class BertOutput(NamedTuple):
  """What `BertModel` computes; all tensors in the model's compute_dtype.

  Attributes:
    embedding_output: [B, T, H], the input of the first layer.
    all_encoder_layers: tuple of [B, T, H], one for every layer; with
      `positions` the last is [B, P, H].
    sequence_output: the last of them.
    pooled_output: [B, H], a dense tanh layer on its first token.
    attention_probs: tuple of [B, N, F, T] before dropout, or None.
  """

  embedding_output: tf.Tensor
  all_encoder_layers: tuple
  sequence_output: tf.Tensor
  pooled_output: tf.Tensor
  attention_probs: tuple | None


def first_positions(ids):
  """Returns zeros [B, 1], the position of [CLS], for integers [B, ...]."""
  return tf.zeros([tf.shape(ids)[0], 1], tf.int32)


class BertModel(Weights):
  """Bidirectional Transformer encoder (arXiv 1810.04805).

  The folder `variants` has its relatives, one small subclass each.
  """

  shapes = staticmethod(bert_shapes)

  def __init__(
    self,
    config,
    *,
    seed=12345,
    compute_dtype=tf.float32,
    storage_dtype=tf.float32,
    use_one_hot_embeddings=False,
    recompute_activations=False,
    skip_padding=False,
    scope="bert",
  ):
    """Makes the variables, under the names of the released checkpoints.

    Args:
      config: BertConfig.
      seed: integer; the initial weights are a function of it and of the name
        of the variable.
      compute_dtype: type of the matrix products and hidden states. Soft-max
        and layer norm stay float32.
      storage_dtype: type of the variables that are matrices; another than
        float32 saves memory where nothing is trained. Vectors stay float32.
      use_one_hot_embeddings: look words up by a matrix product (TPU), not by
        a gather.
      recompute_activations: keep only the input of every layer for the
        gradient and compute the rest again: less memory, a third more time.
      skip_padding: leave padding out of all but attention. No number of a
        token changes, states of padding are 0, and shapes depend on the
        number of tokens, which XLA cannot compile.
      scope: first part of every name. Unlike the original: a second model is
        not renamed to "bert_1" by itself.

    Raises:
      InputError: the configuration cannot be used, or this machine cannot hold
        the weights.
    """
    config.check()
    # Before the first variable: TensorFlow's own error would name no number.
    config.check_memory(self.shapes)
    super().__init__(
      self.shapes(config, scope), stddev=config.initializer_range, seed=seed,
      storage_dtype=storage_dtype,
    )
    self.config = config
    self._scope = scope
    self.compute_dtype = tf.as_dtype(compute_dtype)
    self._use_one_hot_embeddings = use_one_hot_embeddings
    self._recompute_activations = recompute_activations
    self._skip_padding = skip_padding

  @property
  def word_embeddings(self):
    """The variable [V, H], of the storage_dtype."""
    return self._weights[0]

  def encode(self, batch, dropout_seed=None, *, positions=None):
    """Encodes a batch of records; in training if there is a dropout_seed.

    Args:
      batch: dict of input_ids, input_mask and segment_ids, integers [B, T].
      dropout_seed: integers [2], or None.
      positions: as of a call.

    Returns:
      BertOutput.
    """
    return self(
      batch["input_ids"], batch["input_mask"], batch["segment_ids"],
      training=dropout_seed is not None, dropout_seed=dropout_seed,
      positions=positions,
    )

  def __call__(
    self,
    input_ids,
    input_mask=None,
    token_type_ids=None,
    training=False,
    *,
    dropout_seed=None,
    position_ids=None,
    positions=None,
    return_attention=False,
  ):
    """Encodes sequences.

    Args:
      input_ids: integers [B, T].
      input_mask: [B, T], 1 for a token and 0 for padding, or [B, F, T] where
        every token has its own row (several texts packed into one sequence);
        None means all ones.
      token_type_ids: integers [B, T]; None means all zeros.
      training: whether to drop units.
      dropout_seed: integers [2]; all dropout of this call is a function of
        it. None with training=True draws one from TensorFlow's generator.
      position_ids: integers [B, T]; None means 0, 1, 2, ...
      positions: integers [B, P], the tokens whose last states are needed, 0
        ([CLS]) first where the pooled output is: the last layer computes no
        others. None for the whole sequence.
      return_attention: whether to return the attention probabilities.

    Returns:
      BertOutput.

    Raises:
      InputError: a static shape that is not [B, T], or longer than
        max_position_embeddings.
    """
    input_ids = self._checked_ids(input_ids)  # [B, T]
    seed = layers.training_seed(training, dropout_seed)
    # Which positions are computed: all, or only tokens.
    rows = self._rows(input_ids, input_mask)
    # [S, H]: only these rows are computed until `restore` pads them again.
    x = self._embed(rows, input_ids, token_type_ids, position_ids, seed)
    bias = layers.attention_bias(input_mask)  # [B, 1, F or 1, T]
    states, all_probs = [rows.restore(x)], []  # [B, T, H]
    run_layer = layers.layer_function(
      self.config, recompute=self._recompute_activations,
      return_attention=return_attention,
      share_trace=self._skip_padding or not training,
    )
    depth = self.config.num_hidden_layers
    for number, streams in enumerate(layers.layer_streams(seed, depth)):
      # Every other layer's output is attended to as a whole by the next one.
      needed = positions if number == depth - 1 else None
      x, probs = run_layer(
        x, self._layer_weights(number), rows=rows, bias=bias,
        streams=streams, positions=needed,  # [S, H] and [B, N, F, T]
      )
      if needed is not None:
        rows = layers.PaddedRows(*layers.sizes(needed))  # x is [B P, H] now.
      states.append(rows.restore(x))
      all_probs.append(probs)
    return BertOutput(
      embedding_output=states[0],
      all_encoder_layers=tuple(states[1:]),
      sequence_output=states[-1],
      pooled_output=self.pool(states[-1][:, 0]),
      attention_probs=tuple(all_probs) if return_attention else None,
    )

  def _checked_ids(self, input_ids):
    input_ids = tf.convert_to_tensor(input_ids)
    if input_ids.shape.rank != 2:
      raise errors.InputError(
        f"input_ids have shape {input_ids.shape}; expected [batch, sequence]"
      )
    if input_ids.shape[1] is not None:
      self.config.check_sequence_length(input_ids.shape[1])
    return input_ids

  def _rows(self, input_ids, input_mask):
    """Returns what of the batch is computed, a PaddedRows or a TokenRows."""
    # Texts that are packed into one sequence (a mask for each of its tokens)
    # leave little padding.
    if self._skip_padding and input_mask is not None:
      mask = tf.convert_to_tensor(input_mask)
      if mask.shape.rank == 2:
        return layers.TokenRows.of_mask(mask, self.config.num_attention_heads)
    return layers.PaddedRows(*layers.sizes(input_ids))

  def _embed(self, rows, input_ids, token_type_ids, position_ids, seed):
    """Returns [S, H]: word + segment + position, normalized, dropped."""
    weights = self._under(f"{self._scope}/embeddings/")
    # Embeddings are summed in float32. The table of words is not cast whole.
    words = rows.take(input_ids)  # [S]
    if self._use_one_hot_embeddings:
      summed = layers.one_hot_lookup(words, weights["word_embeddings"])
    else:
      # From the float32 variable itself: its gradient then stays a list of
      # rows, one per token, and the optimizer takes the norm of that list.
      # From its value: after a tf.gather of the variable, TensorFlow copies
      # the whole table at every read and every update.
      words_table = tf.convert_to_tensor(weights["word_embeddings"])
      summed = tf.gather(words_table, words)  # [S, H]
      summed = tf.cast(summed, tf.float32)
    if token_type_ids is None:
      token_type_ids = tf.zeros_like(input_ids)
    segments = rows.take(tf.convert_to_tensor(token_type_ids))  # [S]
    summed = self._add_segments(summed, segments)
    table = tf.cast(weights["position_embeddings"], tf.float32)
    if position_ids is None:
      summed = rows.add_by_position(summed, table)
    else:
      position_ids = tf.convert_to_tensor(position_ids)
      summed += layers.dense_lookup(table, rows.take(position_ids))
    x = layers.layer_norm(summed, weights, "LayerNorm")  # [S, H]
    x = layers.dropout(x, self.config.hidden_dropout_prob, seed, "embeddings")
    return tf.cast(x, self.compute_dtype)

  def _add_segments(self, summed, segments):
    """Returns float32 [S, H] of the sum so far and the segments [S]."""
    table = self._under(f"{self._scope}/embeddings/")["token_type_embeddings"]
    # As in the original: a segment out of range gets a zero row.
    return summed + layers.one_hot_lookup(segments, tf.cast(table, tf.float32))

  def _layer_weights(self, number):
    """Returns {name: variable} of a layer, for layers.transformer_layer."""
    return self._under(f"{self._scope}/encoder/layer_{number}/")

  def pool(self, first_states):
    """Returns the pooled output [B, H] of the first tokens' states [B, H]."""
    weights = self._under(f"{self._scope}/pooler/")
    first_states = tf.cast(first_states, self.compute_dtype)
    return layers.dense(first_states, weights, "dense", tf.tanh)


# Heads. Their logits are float32 whatever the encoder computes in.


class MaskedLMHead(Weights):
  """Predicts the words at some positions, with the embedding table."""

  def __init__(self, config, word_embeddings, *, seed=12345):
    """Makes the variables.

    Args:
      config: BertConfig.
      word_embeddings: [V, E], shared with the encoder; E is H in BERT.
      seed: integer, for the initial weights.
    """
    shapes = masked_lm_shapes(config, word_embeddings.shape[1])
    super().__init__(shapes, stddev=config.initializer_range, seed=seed)
    self._activation = layers.get_activation(config.hidden_act)
    # In a function, so that the table is not also one of this head's
    # variables: the encoder's and the head's lists can be joined.
    self._table = lambda: word_embeddings

  def __call__(self, sequence_output, masked_lm_positions=None):
    """Returns logits [B, P, V].

    Args:
      sequence_output: [B, T, H].
      masked_lm_positions: integers [B, P], indices into the sequence; None
        where sequence_output [B, P, H] holds these tokens alone.
    """
    weights = self._under("cls/predictions/")
    x = sequence_output
    if masked_lm_positions is not None:
      # Before the product with V columns, most of this head's time: only the
      # masked tokens go through it.
      x = tf.gather(x, masked_lm_positions, batch_dims=1)  # [B, P, H]
    x = layers.dense(x, weights, "transform/dense", self._activation)
    x = layers.layer_norm(x, weights, "transform/LayerNorm")  # [B, P, E]
    return layers.output_logits(x, self._table(), weights["output_bias"])


class _OutputHead(Weights):
  """Dropout where asked for, then one small product in float32."""

  def __init__(self, config, num_outputs, *, prefix="", stddev, seed):
    shapes = output_shapes(config, prefix, num_outputs)
    super().__init__(shapes, stddev=stddev, seed=seed)

  def _logits(self, x, seed=None):
    x = layers.dropout(tf.cast(x, tf.float32), _HEAD_DROPOUT, seed, "head")
    return layers.output_logits(x, *self._weights)


class NextSentenceHead(_OutputHead):
  """Tells whether segment B follows segment A (label 0) or is random (1)."""

  def __init__(self, config, *, seed=12345):
    super().__init__(
      config,
      2,
      prefix="cls/seq_relationship/",
      stddev=config.initializer_range,
      seed=seed,
    )

  def __call__(self, pooled_output):
    """Returns logits [B, 2] of the pooled output [B, H]."""
    return self._logits(pooled_output)


class ClassificationHead(_OutputHead):
  """Scores labels (or one number, for regression) of whole sequences."""

  def __init__(self, config, num_labels, *, seed=12345):
    super().__init__(config, num_labels, stddev=_HEAD_STDDEV, seed=seed)

  def __call__(self, pooled_output, training=False, *, dropout_seed=None):
    """Returns logits [B, L] of the pooled output [B, H].

    `dropout_seed` is the one given to `BertModel`.
    """
    return self._logits(
      pooled_output, layers.training_seed(training, dropout_seed)
    )


class TokenClassificationHead(_OutputHead):
  """Scores labels of every token."""

  def __init__(self, config, num_labels, *, seed=12345):
    super().__init__(config, num_labels, stddev=_HEAD_STDDEV, seed=seed)

  def __call__(self, sequence_output, training=False, *, dropout_seed=None):
    """Returns logits [B, T, L] of the sequence output [B, T, H].

    `dropout_seed` is the one given to `BertModel`.
    """
    return self._logits(
      sequence_output, layers.training_seed(training, dropout_seed)
    )


class SpanHead(_OutputHead):
  """Scores every token as the first and as the last of an answer."""

  def __init__(self, config, *, seed=12345):
    super().__init__(
      config, 2, prefix="cls/squad/", stddev=_HEAD_STDDEV, seed=seed
    )

  def __call__(self, sequence_output):
    """Returns start and end logits, [B, T] each, of [B, T, H]."""
    start, end = tf.unstack(self._logits(sequence_output), axis=-1)  # [B, T]
    return start, end
