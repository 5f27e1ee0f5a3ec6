"""The words of a span from the tokens around it (SpanBERT, arXiv 1907.10529).

As in section 3.2: each masked token is predicted once more, without its own
hidden state. With x and y, the last states left and right of its span, and p,
the embedding of its place in the span:

  h = LayerNorm(GELU(W2 LayerNorm(GELU(W1 [x; y; p]))))

replaces the transformed state of the masked-LM head. The product of h with the
word embeddings, plus a bias, gives the logits.

A span is a run of neighbouring masked tokens, as in the authors' program, in
which spans that touch become one. So masked_lm_positions determine the spans,
and the tokens around a span are not masked.

Letters: B sequences in a batch, P masked tokens of each, H width, V words.
"""

from typing import Any, NamedTuple

import tensorflow as tf

import configuration
import layers
import modeling
import named_weights
from pretraining import objectives
from variants import spanbert

_SCOPE = "cls/pair_target_predictions/"  # As in the authors' file.


class Spans(NamedTuple):
  """The span of each masked token; int32 [B, P] all.

  The values of unused entries, whose weight is 0, have no meaning, but are
  positions of the sequence.

  Attributes:
    left, right: positions of the tokens around the span.
    places: the token's place in its span, from 0.
  """

  left: tf.Tensor
  right: tf.Tensor
  places: tf.Tensor


def find_spans(batch: dict) -> Spans:
  """Returns the spans of a batch's masked tokens.

  Args:
    batch: with masked_lm_positions, integers [B, P], ascending; and
      masked_lm_weights [B, P], 0 for unused entries.
  """
  positions = tf.cast(batch["masked_lm_positions"], tf.int32)
  numbers = tf.range(tf.shape(positions)[1])
  # A position minus its number is constant in a run and larger in the next run:
  # [3, 4, 7, 8, 9] - [0, 1, 2, 3, 4] = [3, 3, 5, 5, 5].
  runs = positions - numbers  # [B, P]
  is_same = tf.equal(runs[:, :, tf.newaxis], runs[:, tf.newaxis])  # [B, P, P]
  # Unused entries are 0, and could continue a run.
  is_same &= batch["masked_lm_weights"][:, tf.newaxis] > 0
  is_before = is_same & (numbers < numbers[:, tf.newaxis])
  places = tf.reduce_sum(tf.cast(is_before, tf.int32), axis=2)  # [B, P]
  lengths = tf.reduce_sum(tf.cast(is_same, tf.int32), axis=2)
  first = positions - places
  return Spans(tf.maximum(first - 1, 0), first + lengths, places)


class SpanBoundary(named_weights.Weights, objectives.Objective):
  """Predicts the words of spans; see objectives.Objective.

  spanbert.pair_target_shapes lists the variables. The table of words is the
  encoder's.
  """

  name = "span_boundary"
  predicts_tokens = True

  def __init__(
    self,
    config: configuration.BertConfig,
    word_embeddings: tf.Variable,
    *,
    seed: int,
  ):
    """Creates the variables for word embeddings [V, E]; in BERT, E is H."""
    shapes = spanbert.pair_target_shapes(config, word_embeddings.shape[1])
    super().__init__(shapes, stddev=config.initializer_range, seed=seed)
    act = configuration.masked_lm_act(config)
    self._activation = layers.get_activation(act)
    self._epsilon = config.layer_norm_eps
    # The function keeps the table out of this head's variables.
    self._table = lambda: word_embeddings

  def positions(self, batch: dict) -> tf.Tensor:
    """Returns the tokens around each masked token's span, [B, 2 P]."""
    left, right, _ = find_spans(batch)
    return tf.concat([left, right], axis=1)

  def logits(self, states: tf.Tensor, pooled: Any, batch: dict) -> tf.Tensor:
    """Returns logits [B, P, V] from states [B, 2 P, H]."""
    del pooled
    weights = self.weights_below(_SCOPE)
    table = weights["position_embeddings"]
    places = tf.minimum(find_spans(batch).places, table.shape[0] - 1)  # [B, P]
    # A matrix product, because each of the few rows is looked up many times.
    place = layers.one_hot_lookup(places, table)
    left, right = tf.split(states, 2, axis=1)
    x = tf.concat([left, right, tf.cast(place, states.dtype)], axis=-1)
    for number in (1, 2):
      dense, norm = (
        f"mlp_layer_norm/{name}{number}" for name in ("linear", "layer_norm")
      )
      x = layers.dense(x, weights, dense, self._activation)
      x = layers.layer_norm(x, weights, norm, self._epsilon)
    return layers.output_logits(x, self._table(), weights["output_bias"])

  def labels(self, batch: dict) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the masked tokens; those far into a span have weight 0."""
    # As in the authors' program: tokens after the 20th have no label.
    count = self.weights_below(_SCOPE)["position_embeddings"].shape[0]
    is_near = tf.cast(find_spans(batch).places < count, tf.float32)
    return batch["masked_lm_ids"], batch["masked_lm_weights"] * is_near


def make(
  config: configuration.BertConfig, encoder: modeling.BertModel, *, seed: int
) -> SpanBoundary:
  """Returns the objective."""
  return SpanBoundary(config, encoder.word_embeddings, seed=seed)
