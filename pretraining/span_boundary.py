"""SpanBERT's span boundary objective (Joshi et al. 2020, arXiv 1907.10529).

Each masked token is predicted once more, from the two tokens around its span
and its place in the span, without its own hidden state (section 3.2):

  h0 = [state left of the span; state right of it; embedding of the place]
  h1 = LayerNorm(GELU(W1 h0)),  h2 = LayerNorm(GELU(W2 h1))

and h2 replaces the masked-LM head's transformed state: its product
with the table of words, plus a bias, gives the logits.

A span is a run of neighbouring masked tokens, as in the authors' code, which
joins spans that touch. So masked_lm_positions say where all spans are, and
the two tokens around one are never masked themselves.

Letters: B sequences in a batch, P masked tokens of each, H width, V words.
"""

import itertools
from typing import NamedTuple

import tensorflow as tf

import layers

# As in the authors' code, places have embeddings of width 200 (also in the
# paper), and tokens after the 20th of a span are not predicted.
_POSITION_WIDTH = 200
_NUM_PLACES = 20

_SCOPE = "cls/span_boundary"


class Spans(NamedTuple):
  """Where the span of each masked token is; int32 [B, P] all.

  Values of tokens with weight 0 are meaningless, but in range.

  Attributes:
    left, right: positions of the tokens around the span.
    places: of the token in its span, from 0.
  """

  left: tf.Tensor
  right: tf.Tensor
  places: tf.Tensor


def find_spans(batch: dict) -> Spans:
  """Returns the spans of a batch's masked tokens.

  Args:
    batch: with masked_lm_positions, integers [B, P], ascending, and
      masked_lm_weights [B, P], 0 where there is no masked token.
  """
  positions = tf.cast(batch["masked_lm_positions"], tf.int32)
  numbers = tf.range(tf.shape(positions)[1])
  # Position less number is the same within a run and grows from one to the
  # next: [3, 4, 7, 8, 9] - [0, 1, 2, 3, 4] = [3, 3, 5, 5, 5].
  run = positions - numbers  # [B, P]
  same = tf.equal(run[:, :, tf.newaxis], run[:, tf.newaxis])  # [B, P, P]
  # Unused places are 0 and could continue a run.
  same &= batch["masked_lm_weights"][:, tf.newaxis] > 0
  # [B, P, P]: the last axis runs over the tokens that are counted.
  before = same & (numbers < numbers[:, tf.newaxis])
  places = tf.reduce_sum(tf.cast(before, tf.int32), axis=2)  # [B, P]
  lengths = tf.reduce_sum(tf.cast(same, tf.int32), axis=2)
  first = positions - places  # [B, P]
  return Spans(tf.maximum(first - 1, 0), first + lengths, places)


def label_weights(batch: dict) -> tf.Tensor:
  """Returns float32 [B, P], 1 for the tokens that the head predicts."""
  in_reach = find_spans(batch).places < _NUM_PLACES
  return batch["masked_lm_weights"] * tf.cast(in_reach, tf.float32)


class SpanBoundaryHead(layers.Weights):
  """Predicts the words of spans from the tokens around them.

  Variables, below cls/span_boundary/: position_embeddings [20, 200],
  layer_0/dense and layer_1/dense (kernel, bias), layer_0/LayerNorm and
  layer_1/LayerNorm (beta, gamma), output_bias [V]. The table of words is the
  encoder's.
  """

  def __init__(self, config, word_embeddings, *, seed=12345):
    """Makes the variables.

    The table of words [V, E] is shared with the encoder; E is H in BERT.
    """
    width, table_width = config.hidden_size, word_embeddings.shape[1]
    widths = (2 * width + _POSITION_WIDTH, width, table_width)
    shapes = {f"{_SCOPE}/position_embeddings": (_NUM_PLACES, _POSITION_WIDTH)}
    for number, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
      layer = f"{_SCOPE}/layer_{number}"
      shapes[f"{layer}/dense/kernel"] = (inputs, outputs)
      shapes[f"{layer}/dense/bias"] = (outputs,)
      shapes[f"{layer}/LayerNorm/beta"] = (outputs,)
      shapes[f"{layer}/LayerNorm/gamma"] = (outputs,)
    shapes[f"{_SCOPE}/output_bias"] = (config.vocab_size,)
    super().__init__(shapes, stddev=config.initializer_range, seed=seed)
    self._activation = layers.get_activation(config.hidden_act)
    # The lambda keeps the table out of this head's variables.
    self._table = lambda: word_embeddings

  def __call__(self, left, right, places):
    """Returns float32 logits [B, P, V].

    Args:
      left, right: [B, P, H], states of the tokens around the spans.
      places: int32 [B, P], of the predicted tokens in their spans; places after
      the 20th count as the 20th.
    """
    weights = self.weights_below(f"{_SCOPE}/")
    # A matrix product, since each of the few rows is looked up many times.
    place = layers.one_hot_lookup(
      tf.minimum(places, _NUM_PLACES - 1), weights["position_embeddings"]
    )
    x = tf.concat([left, right, tf.cast(place, left.dtype)], axis=-1)
    for layer in ("layer_0", "layer_1"):
      x = layers.dense(x, weights, f"{layer}/dense", self._activation)
      x = layers.layer_norm(x, weights, f"{layer}/LayerNorm")
    return layers.output_logits(x, self._table(), weights["output_bias"])
