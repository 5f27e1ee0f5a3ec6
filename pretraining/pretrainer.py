"""The model of pre-training and its loss.

Masked words, next sentences, and SpanBERT's boundaries of spans.
"""

import re

import tensorflow as tf

import heads
import modeling
from pretraining import span_boundary
from records import pipeline
from training import loop
from variants import registry


class PretrainingModel(tf.Module):
  """The encoder with its pre-training heads."""

  def __init__(
    self, config, *, with_next_sentence=True, with_span_boundary=False,
    **model_options,
  ):
    super().__init__()
    self.config = config
    # One for all: initial weights are a function of seed and name.
    seed = model_options["seed"]
    self.bert = registry.make_encoder(config, **model_options)
    table = self.bert.word_embeddings
    self.masked_lm = heads.MaskedLMHead(config, table, seed=seed)
    self.next_sentence = self.span_boundary = None
    if with_next_sentence:
      self.next_sentence = heads.NextSentenceHead(config, seed=seed)
    if with_span_boundary:
      self.span_boundary = span_boundary.SpanBoundaryHead(
        config, table, seed=seed
      )

  def __call__(self, batch):
    """Returns the logits of `run`."""
    return self.run(batch)[0]

  def run(self, batch, dropout_seed=None, *, whole=False):
    """Returns logits by name, and the last hidden states.

    Logits are masked_lm [B, P, V], and of the heads that there are
    next_sentence [B, 2] and span_boundary [B, P, V]. The states are [B, T, H]
    with `whole`, else those of the tokens that the heads read: the last layer
    computes no others.
    """
    positions = batch["masked_lm_positions"]
    # [CLS] comes first: the pooled output is of the first state that there is.
    needed = [modeling.first_positions(positions), positions]
    if self.span_boundary:
      spans = span_boundary.find_spans(batch)
      needed += [spans.left, spans.right]
    places = tf.concat(needed, axis=1)
    output = self.bert.encode(
      batch, dropout_seed, positions=None if whole else places
    )
    # With `positions` the encoder's last states are those of `places`.
    states = picked = output.sequence_output
    if whole:
      picked = tf.gather(states, places, batch_dims=1)  # [B, 1 + P, H]
    counts = [part.shape[1] for part in needed]
    _, masked, *around = tf.split(picked, counts, axis=1)
    logits = {"masked_lm": self.masked_lm(masked)}  # [B, P, V]
    if self.span_boundary:
      logits["span_boundary"] = self.span_boundary(*around, spans.places)
    if self.next_sentence:
      logits["next_sentence"] = self.next_sentence(output.pooled_output)
    return logits, states

  def trained_variables(self):
    """Returns the variables that have a gradient."""
    # As in the original: a variable without a gradient is not trained.
    unused = self.unused_variables()
    return [
      variable for variable in self.variables
      if not any(re.search(pattern, variable.name) for pattern in unused)
    ]

  def unused_variables(self):
    """Returns regular expressions of names that have no part in the loss."""
    # Only the next-sentence head reads the pooled output.
    return [] if self.next_sentence else ["^bert/pooler/"]


def objective(model: PretrainingModel, distills=None) -> loop.Objective:
  """The sum of the heads' losses, each a mean over its labels in the batch.

  And what a teacher adds in training, a distilling.Distillation.
  """

  def weights(batch):
    context = tf.distribute.get_replica_context()
    # As in the original: 1e-5 keeps a batch without a masked word from
    # dividing by zero. The replicas' shares of it add up to that.
    epsilon = 1e-5 / context.num_replicas_in_sync
    masked_words = tf.reduce_sum(batch["masked_lm_weights"])
    totals = {"masked_lm": masked_words + epsilon}
    if model.span_boundary:
      within_reach = tf.reduce_sum(span_boundary.label_weights(batch))
      totals["span_boundary"] = within_reach + epsilon
    if distills:
      totals.update(distills.denominators(batch, totals["masked_lm"]))
    if model.next_sentence:
      sequences = tf.shape(batch["input_ids"])[0]
      totals["next_sentence"] = tf.cast(sequences, tf.float32)
    return totals

  def sums(batch, dropout_seed):
    losses, metrics = {}, {}
    # An evaluation is that of a model without a teacher.
    learns = distills and dropout_seed is not None
    outputs, states = model.run(
      batch, dropout_seed, whole=bool(learns and distills.weights.cosine)
    )
    for name, logits in outputs.items():
      loss, correct, weight = _loss_and_accuracy(logits, *_labels(name, batch))
      losses[name] = loss
      metrics[f"{name}_loss"] = (loss, weight)
      metrics[f"{name}_accuracy"] = (correct, weight)
    if learns:
      losses["masked_lm"] *= distills.weights.masked_lm
      of_teacher = distills.sums(batch, outputs["masked_lm"], states)
      losses.update(of_teacher[0])
      metrics.update(of_teacher[1])
    # In training; an evaluation reports its heads alone.
    if dropout_seed is not None:
      metrics.update(pipeline.token_metrics(batch))
    return losses, metrics

  return loop.Objective(weights=weights, sums=sums)


def result_names(model: PretrainingModel) -> list[str]:
  """Returns the names of what an evaluation of `objective` gives."""
  heads = ["masked_lm"]
  heads += ["span_boundary"] * bool(model.span_boundary)
  heads += ["next_sentence"] * bool(model.next_sentence)
  kinds = ("loss", "accuracy")
  return ["loss", *(f"{head}_{kind}" for head in heads for kind in kinds)]


def _labels(name, batch):
  """Returns the labels of a head, and their weights."""
  if name == "masked_lm":
    return batch["masked_lm_ids"], batch["masked_lm_weights"]
  if name == "span_boundary":
    return batch["masked_lm_ids"], span_boundary.label_weights(batch)
  labels = batch["next_sentence_labels"][:, 0]  # [B]
  return labels, tf.ones_like(labels, tf.float32)


def _loss_and_accuracy(logits, labels, weights):
  """Returns sums over all labels: weighted loss, correct ones, weights."""
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
  predicted = tf.argmax(logits, axis=-1, output_type=labels.dtype)
  correct = tf.cast(tf.equal(predicted, labels), tf.float32)
  return (
    tf.reduce_sum(losses * weights), tf.reduce_sum(correct * weights),
    tf.reduce_sum(weights),
  )
