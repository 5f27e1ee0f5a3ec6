"""The pre-training model and its loss: masked tokens and next sentences."""

import re

import tensorflow as tf

import heads
from records import pipeline
from training import loop
from variants import registry


class PretrainingModel(tf.Module):
  """The encoder with its pre-training heads."""

  def __init__(self, config, *, with_next_sentence=True, **model_options):
    super().__init__()
    self.config = config
    # Initial weights depend on the seed and the name, so one seed is enough.
    seed = model_options["seed"]
    self.bert = registry.make_encoder(config, **model_options)
    self.masked_lm = heads.MaskedLMHead(
      config, self.bert.word_embeddings, seed=seed
    )
    self.next_sentence = None
    if with_next_sentence:
      self.next_sentence = heads.NextSentenceHead(config, seed=seed)

  def __call__(self, batch, dropout_seed=None):
    """Returns {name of a head: logits}.

    "masked_lm" has [B, P, V]. "next_sentence", if the model has this head, has
    [B, 2]. `dropout_seed` is int32 [2] in training, else None.
    """
    masked = batch["masked_lm_positions"]
    # The pooled position comes first, because the pooler reads the first state.
    pooled = self.bert.pooled_positions(batch["input_mask"])
    positions = tf.concat([pooled, masked], axis=1)  # [B, 1 + P]
    # The last layer computes only the states that the heads read.
    output = self.bert.encode(batch, dropout_seed, positions=positions)
    # [B, P, V]
    logits = {"masked_lm": self.masked_lm(output.sequence_output[:, 1:])}
    if self.next_sentence:
      logits["next_sentence"] = self.next_sentence(output.pooled_output)
    return logits

  @property
  def head_names(self) -> list[str]:
    """Names of the heads whose losses are added."""
    return ["masked_lm"] + ["next_sentence"] * bool(self.next_sentence)

  def labels(self, name: str, batch: dict) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the labels of a head and their float32 weights."""
    if name == "masked_lm":
      return batch["masked_lm_ids"], batch["masked_lm_weights"]
    labels = batch["next_sentence_labels"][:, 0]  # [B]
    return labels, tf.ones_like(labels, tf.float32)

  def trained_variables(self):
    """Returns the variables that the loss reaches."""
    # As in the original: variables without a gradient are not trained.
    unused = self.unused_variables()
    return [
      variable
      for variable in self.variables
      if not any(re.search(pattern, variable.name) for pattern in unused)
    ]

  def unused_variables(self):
    """Returns regular expressions for the variables that the loss ignores."""
    # Only the next-sentence head reads the pooled output.
    return () if self.next_sentence else heads.POOLER


def objective(model: PretrainingModel) -> loop.Objective:
  """Returns the objective: the sum of the heads' mean losses in a batch."""

  def weights(batch):
    context = tf.distribute.get_replica_context()
    # As in the original: 1e-5 avoids a division by zero in a batch without
    # masked tokens. The shares of all replicas add up to 1e-5.
    epsilon = 1e-5 / context.num_replicas_in_sync
    totals = {}
    for name in model.head_names:
      totals[name] = tf.reduce_sum(model.labels(name, batch)[1])
      if name != "next_sentence":
        totals[name] += epsilon
    return totals

  def sums(batch, dropout_seed):
    losses, metrics = {}, {}
    for name, logits in model(batch, dropout_seed).items():
      labels, counts = model.labels(name, batch)
      each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
      predicted = tf.argmax(logits, axis=-1, output_type=labels.dtype)
      correct = tf.cast(tf.equal(predicted, labels), tf.float32)
      losses[name] = tf.reduce_sum(each * counts)
      total = tf.reduce_sum(counts)
      metrics[f"{name}_loss"] = losses[name], total
      metrics[f"{name}_accuracy"] = tf.reduce_sum(correct * counts), total
    # Evaluations report only the metrics of the heads.
    if dropout_seed is not None:
      metrics.update(pipeline.token_metrics(batch))
    return losses, metrics

  return loop.Objective(weights=weights, sums=sums)


def result_names(model: PretrainingModel) -> list[str]:
  """Returns the names of the evaluation metrics of `objective`."""
  names = [f"{n}_{m}" for n in model.head_names for m in ("loss", "accuracy")]
  return ["loss", *names]
