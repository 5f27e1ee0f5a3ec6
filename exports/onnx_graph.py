"""Writes a network as an ONNX graph, node by node, from its variables.

The inputs are input_ids, attention_mask and (except for DistilBERT)
token_type_ids, int64 [B, T] with any B and T. Outputs have Hugging Face's
names and are float32:

  classification  logits [B, L]
  embedding       last_hidden_state [B, T, H], sentence_embedding [B, D]
  masked_lm       logits [B, T, V]
  next_sentence   logits [B, 2]
  span            start_logits and end_logits [B, T]
  sparse          logits [B, T, V]
  tagging         logits [B, T, L]

Weights keep their TF1 names and layouts. Letters are as in modeling.py, but in
an embedding's shape, D is its width.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import configuration
from checkpoints import sentence_pooling
from common import errors, extensions
from variants import albert, registry

with errors.needs_extra("onnx"):
  import onnx
  from onnx import TensorProto, helper, numpy_helper

DATA_FILE = "model.onnx_data"
MEAN = sentence_pooling.Pooling("mean")
# The first opset with Gelu, and the first file format version for that opset.
_OPSET, _IR_VERSION = 20, 9
# The size limit of a protocol buffer, minus some space for the nodes.
_MAX_FILE_BYTES = 2**31 - 2**24
# The constants in layers.attention_bias and tf.math.l2_normalize.
MASKED_SCORE, _LEAST_SQUARE = -10000.0, 1e-12
# The files in this package have the graphs of variants unlike BERT.
_GRAPHS = f"{__name__.rpartition('.')[0]}.graphs"
# {activation: ONNX operator and attributes}. silu is x * Sigmoid(x).
_ACTIVATIONS = {
  "gelu": ("Gelu", {"approximate": "tanh"}),
  "gelu_erf": ("Gelu", {"approximate": "none"}),
  "linear": ("Identity", {}),
  "relu": ("Relu", {}),
  "silu": ("Sigmoid", {}),
  "swish": ("Sigmoid", {}),
  "tanh": ("Tanh", {}),
}
_BATCH, _LENGTH = "batch_size", "sequence_length"


def make(
  head: str,
  weights: Mapping[str, np.ndarray],
  config: configuration.BertConfig,
  *,
  pooling: sentence_pooling.Pooling = MEAN,
) -> onnx.ModelProto:
  """Returns the ONNX model of the encoder with a head.

  Args:
    head: one of flag_values.SERVING_HEADS.
    weights: {TF1 name: array}; unused weights are ignored.
    pooling: how the head "embedding" pools. The graph omits layers above the
      highest pooled layer; last_hidden_state is that layer's output.

  Raises:
    InputError: a weight is missing, or the variant or the activation is not
      supported.
  """
  depth = config.num_hidden_layers
  if head == "embedding" and pooling[0] != "pooled":
    depth = 1 + max(layer % depth for each in pooling[1] for layer in each)
  network = _network_class(config)(weights, config, depth)
  if head == "embedding":
    network.add_embedding(*pooling)
  elif head in ("masked_lm", "sparse"):
    network.add_word_logits()
  elif head == "span":
    network.add_span_logits()
  elif head == "next_sentence":
    network.add_label_logits("cls/seq_relationship/")
  else:
    network.add_label_logits(of_tokens=head == "tagging")
  return network.model()


def write(
  path: str, model: onnx.ModelProto, most_bytes: int = _MAX_FILE_BYTES
) -> None:
  """Writes the model; weights go to DATA_FILE if they exceed `most_bytes`."""
  size = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
  onnx.save_model(
    model, path, save_as_external_data=size > most_bytes, location=DATA_FILE
  )
  onnx.checker.check_model(path, full_check=True)


def _network_class(config: configuration.BertConfig) -> type["Network"]:
  """Returns the class that writes the graph of a configuration's variant."""
  name = registry.name_of(config)
  if name not in extensions.names(_GRAPHS):
    return Network
  return extensions.load(_GRAPHS, name).Network


class _Graph:
  """Collects nodes, weights and outputs; methods return names of tensors."""

  def __init__(self, weights: Mapping[str, np.ndarray]):
    self._weights = weights
    self._nodes: list[onnx.NodeProto] = []
    self._tensors: dict[str, Any] = {}
    self._outputs: list[onnx.ValueInfoProto] = []
    self._inputs = ["input_ids", "attention_mask"]

  def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
    """Adds a node and returns the name of its output."""
    name = f"{operator}_{len(self._nodes)}"
    node = helper.make_node(operator, inputs, [name], name, **attributes)
    self._nodes.append(node)
    return name

  def add_output(self, name: str, tensor: str, shape: Sequence) -> None:
    self._nodes.append(helper.make_node("Identity", [tensor], [name], name))
    info = helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    self._outputs.append(info)

  def weight(self, name: str) -> str:
    """Adds a weight to the graph and returns its name."""
    if name not in self._weights:
      raise errors.InputError(
        f"the weights have no {name}, which this head needs; train the "
        "head first, or export another --head"
      )
    return self._tensor(name, np.asarray(self._weights[name], np.float32))

  def constant(self, value: Any, dtype: Any = np.int64) -> str:
    """Adds a constant, from a number or a list, and returns its name."""
    return self._tensor(f"{dtype.__name__}_{value}", np.asarray(value, dtype))

  def number(self, value: float) -> str:
    return self.constant(value, np.float32)

  def _tensor(self, name: str, value: np.ndarray) -> str:
    if name not in self._tensors:
      self._tensors[name] = numpy_helper.from_array(value, name)
    return name

  def model(self) -> onnx.ModelProto:
    """Returns the graph as a model with int64 inputs [B, T]."""
    shape = [_BATCH, _LENGTH]
    inputs = [
      helper.make_tensor_value_info(name, TensorProto.INT64, shape)
      for name in self._inputs
    ]
    tensors = list(self._tensors.values())
    graph = helper.make_graph(
      self._nodes, "bert", inputs, self._outputs, tensors
    )
    return helper.make_model(
      graph,
      opset_imports=[helper.make_opsetid("", _OPSET)],
      ir_version=_IR_VERSION,
      producer_name="bert-tf2",
    )


class Network(_Graph):
  """The graph of modeling.py's encoder; `states` names each layer's output."""

  def __init__(
    self,
    weights: Mapping[str, np.ndarray],
    config: configuration.BertConfig,
    depth: int,
  ):
    """Adds the embeddings and the `depth` lowest layers."""
    super().__init__(weights)
    self._config, self._variant = config, registry.name_of(config)
    self._encoder = registry.encoder_class(config)
    if part := configuration.only_here(config):
      raise errors.InputError(
        f"{part} cannot be written as ONNX; pass --engine=tensorflow"
      )
    act = config.hidden_act
    name = str(act or "linear").lower()
    if callable(act) or name not in _ACTIVATIONS:
      raise errors.InputError(
        f"hidden_act {act!r} cannot be written as ONNX; expected one of "
        + ", ".join(_ACTIVATIONS)
      )
    self._activation, self._epsilon = name, config.layer_norm_eps
    x, bias = self._embeddings(), self._attention_bias()
    self.states = []
    for number in range(depth):
      x = self._layer(x, bias, number)
      self.states.append(x)

  # The building blocks, as in layers.py.

  def _dense(self, x: str, name: str) -> str:
    product = self.add("MatMul", x, self.weight(f"{name}/kernel"))
    return self.add("Add", product, self.weight(f"{name}/bias"))

  def _norm(self, x: str, name: str) -> str:
    gamma, beta = (self.weight(f"{name}/{part}") for part in ("gamma", "beta"))
    return self.add("LayerNormalization", x, gamma, beta, epsilon=self._epsilon)

  def _activate(self, x: str, name: str | None = None) -> str:
    operator, attributes = _ACTIVATIONS[name or self._activation]
    active = self.add(operator, x, **attributes)
    return self.add("Mul", x, active) if operator == "Sigmoid" else active

  def _logits(self, x: str, table: str, bias: str) -> str:
    """Returns x [..., H] @ transposed table [O, H], plus a bias: [..., O]."""
    # Engines transpose a constant only once, when they load the file.
    columns = self.add("Transpose", self.weight(table), perm=[1, 0])
    return self.add("Add", self.add("MatMul", x, columns), self.weight(bias))

  # The encoder.

  def _embeddings(self) -> str:
    prefix = "bert/embeddings"
    table = self.weight(f"{prefix}/word_embeddings")
    x = self.add("Gather", table, "input_ids")
    if self._variant != "distilbert":
      self._inputs.append("token_type_ids")
      table = self.weight(f"{prefix}/token_type_embeddings")
      x = self.add("Add", x, self.add("Gather", table, "token_type_ids"))
    table = f"{prefix}/position_embeddings"
    # RoBERTa's table has unused rows before the first token's position.
    rows, _ = registry.shapes(self._config)[table]
    first = self.constant([rows - self._config.max_position_embeddings])
    length = self.add("Shape", "input_ids", start=1, end=2)
    end = self.add("Add", first, length)
    table, axis = self.weight(table), self.constant([0])
    positions = self.add("Slice", table, first, end, axis)  # [T, E]
    x = self._norm(self.add("Add", x, positions), f"{prefix}/LayerNorm")
    # In variants, a dense layer may map x from E to H: variants/factorized.py.
    mapping = f"bert/{getattr(self._encoder, 'mapping', None)}"
    is_mapped = f"{mapping}/kernel" in self._weights
    return self._dense(x, mapping) if is_mapped else x

  def _attention_bias(self) -> Any:
    """Returns the mask's bias [B, 1, 1, T] for the attention scores.

    Variants may return something else for `_layer`.
    """
    mask = self.add("Unsqueeze", "attention_mask", self.constant([1, 2]))
    mask = self.add("Cast", mask, to=TensorProto.FLOAT)
    padding = self.add("Sub", self.number(1.0), mask)
    return self.add("Mul", padding, self.number(MASKED_SCORE))

  def _name_maker(self, number: int) -> Callable[[str], str]:
    """Returns a function from a weight's name in a layer to its full name."""
    config = self._config
    if self._variant != "albert":
      return f"bert/encoder/layer_{number}/".__add__
    groups = config.num_hidden_groups  # type: ignore[attr-defined]
    group = number * groups // config.num_hidden_layers
    start = f"bert/encoder/layer_{group}/"
    return lambda name: albert.tf1_name(f"{start}{name}/").removesuffix("/")

  def _layer(self, x: str, bias: Any, number: int) -> str:
    full_name = self._name_maker(number)
    context = self._attention(x, bias, full_name)
    attended = self._dense(context, full_name("attention/output/dense"))
    x = self.add("Add", x, attended)
    x = self._norm(x, full_name("attention/output/LayerNorm"))
    inner = self._activate(self._dense(x, full_name("intermediate/dense")))
    output = self._dense(inner, full_name("output/dense"))
    return self._norm(self.add("Add", x, output), full_name("output/LayerNorm"))

  def _attention(
    self, x: str, bias: str, full_name: Callable[[str], str]
  ) -> str:
    heads = self._config.num_attention_heads
    width = self._config.hidden_size // heads
    split = self.constant([0, 0, heads, width])

    def project(name: str, order: list[int]) -> str:
      projected = self._dense(x, full_name(f"attention/self/{name}"))
      projected = self.add("Reshape", projected, split)
      return self.add("Transpose", projected, perm=order)

    # Queries and values are [B, N, T, D], keys [B, N, D, T].
    query = project("query", [0, 2, 1, 3])
    scores = self.add("MatMul", query, project("key", [0, 2, 3, 1]))
    scores = self.add("Div", scores, self.number(math.sqrt(width)))
    probs = self.add("Softmax", self.add("Add", scores, bias), axis=-1)
    context = self.add("MatMul", probs, project("value", [0, 2, 1, 3]))
    context = self.add("Transpose", context, perm=[0, 2, 1, 3])
    shape = self.constant([0, 0, self._config.hidden_size])
    return self.add("Reshape", context, shape)

  def _pooled(self) -> str:
    first = self.add("Gather", self.states[-1], self.constant(0), axis=1)
    dense = self._dense(first, "bert/pooler/dense")  # [B, H]
    return self._activate(dense, self._encoder.pooler_activation)

  def _head_states(self) -> str:
    """Returns the states for heads of tokens; see BertModel.head_states."""
    return self.states[-1]

  def _word_states(self) -> str:
    """Returns the factor of the word embeddings."""
    prefix = "cls/predictions/transform"
    x = self._dense(self.states[-1], f"{prefix}/dense")
    act = str(configuration.masked_lm_act(self._config) or "linear").lower()
    return self._norm(self._activate(x, act), f"{prefix}/LayerNorm")

  # The heads.

  def add_label_logits(
    self, prefix: str = "", *, of_tokens: bool = False
  ) -> None:
    """Adds the logits of labels, of the whole text or of each token."""
    x = self._head_states() if of_tokens else self._pooled()
    names = f"{prefix}output_weights", f"{prefix}output_bias"
    logits = self._logits(x, *names)
    count = len(self._weights[names[1]])
    shape = [_BATCH, _LENGTH, count] if of_tokens else [_BATCH, count]
    self.add_output("logits", logits, shape)

  def add_span_logits(self) -> None:
    """Adds the logits of an answer's first and last token."""
    prefix = "cls/squad/output_"
    x = self._head_states()
    logits = self._logits(x, f"{prefix}weights", f"{prefix}bias")
    for number, name in enumerate(("start_logits", "end_logits")):
      column = self.add("Gather", logits, self.constant(number), axis=2)
      self.add_output(name, column, [_BATCH, _LENGTH])

  def add_word_logits(self) -> None:
    """Adds the logits of the vocabulary at each token."""
    names = "bert/embeddings/word_embeddings", "cls/predictions/output_bias"
    logits = self._logits(self._word_states(), *names)
    shape = [_BATCH, _LENGTH, self._config.vocab_size]
    self.add_output("logits", logits, shape)

  def add_embedding(self, mode: str, layers: Sequence, normalize: bool) -> None:
    """Adds the last hidden states, and the embedding as in heads.pool."""
    width = self._config.hidden_size
    vector = self._pooled() if mode == "pooled" else self._pool(mode, layers)
    if normalize:
      square = self.add("ReduceSumSquare", vector, self.constant([1]))
      square = self.add("Max", square, self.number(_LEAST_SQUARE))
      vector = self.add("Div", vector, self.add("Sqrt", square))
    shape = [_BATCH, _LENGTH, width]
    self.add_output("last_hidden_state", self.states[-1], shape)
    if mode != "pooled":
      width *= len(layers)
    self.add_output("sentence_embedding", vector, [_BATCH, width])

  def _pool(self, mode: str, layers: Sequence) -> str:
    depth = self._config.num_hidden_layers
    sums = [
      self.add("Sum", *(self.states[layer % depth] for layer in summed))
      for summed in layers
    ]
    states = self.add("Concat", *sums, axis=2)  # [B, T, D]
    if mode == "cls":
      return self.add("Gather", states, self.constant(0), axis=1)
    if mode == "mean":
      return self._mean(states)
    mask = self.add("Unsqueeze", "attention_mask", self.constant([2]))
    is_token = self.add("Cast", mask, to=TensorProto.BOOL)
    lowest = self.number(float(np.finfo(np.float32).min))
    tokens = self.add("Where", is_token, states, lowest)
    return self.add("ReduceMax", tokens, self.constant([1]), keepdims=0)

  def _mean(self, states: str) -> str:
    """Returns the mean of the tokens' states, [B, D] of [B, T, D]."""
    mask = self.add("Unsqueeze", "attention_mask", self.constant([2]))
    axis = self.constant([1])
    mask = self.add("Cast", mask, to=TensorProto.FLOAT)
    masked = self.add("Mul", states, mask)
    total = self.add("ReduceSum", masked, axis, keepdims=0)
    count = self.add("ReduceSum", mask, axis, keepdims=0)
    return self.add("Div", total, self.add("Max", count, self.number(1.0)))
