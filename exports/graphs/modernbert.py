"""The ONNX graph of ModernBERT; see variants/modernbert.py for the formulas.

Local layers are computed in blocks of `half_window` queries, or of the whole
sequence if it is shorter. A block's keys are its own tokens, and as many before
and after it. In names of tensors and in shapes, C is the number of blocks and W
their length.
"""

import math
from typing import NamedTuple

from onnx import TensorProto

from exports import onnx_graph
from variants import modernbert


class _View(NamedTuple):
  """Names of the tensors that layers of one kind share; see modernbert.View.

  A global layer has no block, total or after; they are lengths, int64 [1].
  """

  cos: str
  sin: str
  bias: str
  block: str = ""
  total: str = ""
  after: str = ""


class Network(onnx_graph.Network):
  """The graph of the encoder and its heads."""

  def _dense(self, x: str, name: str) -> str:
    if f"{name}/bias" in self._weights:
      return super()._dense(x, name)
    return self.add("MatMul", x, self.weight(f"{name}/kernel"))

  def _norm(self, x: str, name: str) -> str:
    if f"{name}/beta" in self._weights:
      return super()._norm(x, name)
    gamma = self.weight(f"{name}/gamma")
    return self.add("LayerNormalization", x, gamma, epsilon=self._epsilon)

  def _integers(self, *parts: int | str) -> str:
    """Returns a vector of numbers and of vectors of one number."""
    names = [
      part if isinstance(part, str) else self.constant([part]) for part in parts
    ]
    return self.add("Concat", *names, axis=0)

  def _slice(self, x: str, first: str, end: str, axis: int) -> str:
    return self.add("Slice", x, first, end, self.constant([axis]))

  def _halves(self, x: str, width: int) -> list[str]:
    """Splits the last of four axes, or of three, in two."""
    ends = [self.constant([n]) for n in (0, width // 2, width)]
    last = self.constant([-1])
    return [
      self.add("Slice", x, *bounds, last) for bounds in (ends[:2], ends[1:])
    ]

  # The encoder.

  def _embeddings(self) -> str:
    table = self.weight("bert/embeddings/word_embeddings")
    x = self.add("Gather", table, "input_ids")
    return self._norm(x, "bert/embeddings/LayerNorm")

  def _attention_bias(self) -> dict[str, _View]:
    self._types = modernbert.layer_types(self._config)
    padding = self.add("Cast", "attention_mask", to=TensorProto.FLOAT)
    padding = self.add("Sub", self.number(1.0), padding)
    padding = self.add("Mul", padding, self.number(onnx_graph.MASKED_SCORE))
    length = self.add("Shape", "input_ids", start=1, end=2)
    return {
      kind: self._view(kind, padding, length) for kind in set(self._types)
    }

  def _view(self, kind: str, padding: str, length: str) -> _View:
    """Returns the view for padding's bias [B, T]."""
    zero, one = self.constant(0), self.constant(1)
    last = self.add("Squeeze", length)
    position = self.add("Range", zero, last, one)  # [T]
    frequencies = modernbert.inverse_frequencies(self._config, kind)
    angles = self.add(
      "Mul",
      self.add(
        "Unsqueeze",
        self.add("Cast", position, to=TensorProto.FLOAT),
        self.constant([1]),
      ),
      self._tensor(f"frequencies_{kind}", frequencies),
    )
    cos, sin = self.add("Cos", angles), self.add("Sin", angles)  # [T, D / 2]
    if kind == modernbert.GLOBAL:
      bias = self.add("Unsqueeze", padding, self.constant([1, 2]))
      return _View(cos, sin, bias)
    window = modernbert.half_window(self._config)
    block = self.add("Min", length, self.constant([max(window, 1)]))
    before_next = self.add("Sub", block, self.constant([1]))
    count = self.add("Div", self.add("Add", length, before_next), block)
    total = self.add("Mul", count, block)
    after = self.add("Sub", total, length)
    view = _View(cos, sin, "", block, total, after)
    # [B, T, 1] -> [B C, 3 W, 1] -> [B, C, 1, 3 W]
    framed = self._with_neighbours(
      self.add("Unsqueeze", padding, self.constant([2])),
      view,
      1,
      modernbert.OUTSIDE,
    )
    keys = self.add("Mul", block, self.constant([3]))
    bias = self.add("Reshape", framed, self._integers(-1, count, 1, keys))
    query = self.add("Range", zero, self.add("Squeeze", block), one)
    query = self.add("Unsqueeze", query, one_axis := self.constant([1]))
    key = self.add("Range", zero, self.add("Squeeze", keys), one)
    key = self.add("Sub", key, block)
    distance = self.add("Abs", self.add("Sub", query, key))  # [W, 3 W]
    is_far = self.add("Greater", distance, self.constant(window))
    far = self.number(modernbert.OUTSIDE)
    band = self.add("Where", is_far, far, self.number(0.0))
    bias = self.add("Add", bias, band)
    bias = self.add("Reshape", bias, self._integers(-1, total, keys))
    return view._replace(bias=self.add("Unsqueeze", bias, one_axis))

  def _with_neighbours(
    self, x: str, view: _View, width: int, fill: float = 0.0
  ) -> str:
    """Returns [M C, 3 W, width]: x [M, T, width] in blocks with neighbours.

    `fill` is before and after x.
    """
    end = self.add("Add", view.after, view.block)
    pads = self._integers(0, view.block, 0, 0, end, 0)
    x = self.add("Pad", x, pads, self.number(fill))
    shape = self._integers(-1, view.block, width)
    parts, first = [], self.constant([0])
    for _ in range(3):
      part = self._slice(x, first, self.add("Add", first, view.total), 1)
      parts.append(self.add("Reshape", part, shape))
      first = self.add("Add", first, view.block)
    return self.add("Concat", *parts, axis=1)

  def _layer(self, x: str, bias: dict[str, _View], number: int) -> str:
    config, prefix = self._config, f"bert/encoder/layer_{number}"
    normed = x
    if number:
      normed = self._norm(x, f"{prefix}/attention/LayerNorm")
    context = self._attend(normed, bias[self._types[number]], prefix)
    x = self.add(
      "Add", x, self._dense(context, f"{prefix}/attention/output/dense")
    )
    inner = self._norm(x, f"{prefix}/intermediate/LayerNorm")
    inner = self._dense(inner, f"{prefix}/intermediate/dense")
    inner, gate = self._halves(inner, 2 * config.intermediate_size)
    inner = self.add("Mul", self._activate(inner), gate)
    x = self.add("Add", x, self._dense(inner, f"{prefix}/output/dense"))
    if number < config.num_hidden_layers - 1:
      return x
    return self._norm(x, "bert/encoder/LayerNorm")

  def _attend(self, x: str, view: _View, prefix: str) -> str:
    """Returns contexts [B, T, H] of states [B, T, H]."""
    config = self._config
    heads, hidden = config.num_attention_heads, config.hidden_size
    width = hidden // heads
    x = self._dense(x, f"{prefix}/attention/self/qkv")
    x = self.add("Reshape", x, self.constant([0, 0, 3 * heads, width]))
    x = self.add("Transpose", x, perm=[0, 2, 1, 3])  # [B, 3 N, T, D]
    query, key, value = (
      self._slice(x, self.constant([n]), self.constant([n + heads]), 1)
      for n in (0, heads, 2 * heads)
    )
    query, key = self._rotated(query, view), self._rotated(key, view)
    scale = self.number(1 / math.sqrt(width))
    query = self.add("Mul", query, scale)
    if view.block:
      context = self._attend_in_blocks(query, key, value, view)
    else:
      key = self.add("Transpose", key, perm=[0, 1, 3, 2])
      scores = self.add("MatMul", query, key)
      probs = self.add("Softmax", self.add("Add", scores, view.bias), axis=-1)
      context = self.add("MatMul", probs, value)
    context = self.add("Transpose", context, perm=[0, 2, 1, 3])
    return self.add("Reshape", context, self.constant([0, 0, hidden]))

  def _rotated(self, x: str, view: _View) -> str:
    width = self._config.hidden_size // self._config.num_attention_heads
    first, second = self._halves(x, width)

    def turned(operator: str, a: str, b: str) -> str:
      parts = self.add("Mul", a, view.cos), self.add("Mul", b, view.sin)
      return self.add(operator, *parts)

    rotated = turned("Sub", first, second), turned("Add", second, first)
    return self.add("Concat", *rotated, axis=-1)

  def _attend_in_blocks(
    self, query: str, key: str, value: str, view: _View
  ) -> str:
    """Returns contexts [B, N, T, D] from [B, N, T, D]."""
    config = self._config
    heads, width = config.num_attention_heads, config.hidden_size
    width //= heads
    length = self.add("Shape", query, start=2, end=3)
    flat = self._integers(-1, length, width)
    query, key, value = (
      self.add("Reshape", each, flat) for each in (query, key, value)
    )
    pads = self._integers(0, 0, 0, 0, view.after, 0)
    query = self.add("Pad", query, pads, self.number(0.0))
    query = self.add("Reshape", query, self._integers(-1, view.block, width))
    key = self._with_neighbours(key, view, width)  # [B N C, 3 W, D]
    value = self._with_neighbours(value, view, width)
    scores = self.add(
      "MatMul", query, self.add("Transpose", key, perm=[0, 2, 1])
    )
    keys = self.add("Mul", view.block, self.constant([3]))
    shape = self._integers(-1, heads, view.total, keys)
    scores = self.add("Add", self.add("Reshape", scores, shape), view.bias)
    probs = self.add("Softmax", scores, axis=-1)
    probs = self.add("Reshape", probs, self._integers(-1, view.block, keys))
    context = self.add("MatMul", probs, value)
    shape = self._integers(-1, heads, view.total, width)
    context = self.add("Reshape", context, shape)
    return self._slice(context, self.constant([0]), length, 2)

  # The heads.

  def _transformed(self, x: str) -> str:
    act = modernbert.value_of(self._config, "classifier_activation")
    x = self._activate(self._dense(x, "bert/head/dense"), act.lower())
    return self._norm(x, "bert/head/LayerNorm")

  def _pooled(self) -> str:
    if modernbert.value_of(self._config, "classifier_pooling") == "mean":
      return self._transformed(self._mean(self.states[-1]))
    first = self.add("Gather", self.states[-1], self.constant(0), axis=1)
    return self._transformed(first)

  def _head_states(self) -> str:
    return self._transformed(self.states[-1])

  def _word_states(self) -> str:
    return self._head_states()
