"""The model of pre-training and its loss: masked words, next sentences."""

import tensorflow as tf

import modeling
from training import loop, pipeline
from variants import registry


class PretrainingModel(tf.Module):
  """The encoder with its pre-training heads."""

  def __init__(self, config, *, with_next_sentence=True, **model_options):
    super().__init__()
    self.config = config
    seed = model_options["seed"]
    self.bert = registry.make_encoder(config, **model_options)
    self.masked_lm = modeling.MaskedLMHead(
      config, self.bert.word_embeddings, seed=seed
    )
    self.next_sentence = None
    if with_next_sentence:
      self.next_sentence = modeling.NextSentenceHead(config, seed=seed)

  def __call__(self, batch, dropout_seed=None):
    """Returns logits by name: masked_lm [B, P, V], next_sentence [B, 2]."""
    positions = batch["masked_lm_positions"]
    first = modeling.first_positions(positions)
    output = self.bert.encode(
      batch, dropout_seed, positions=tf.concat([first, positions], axis=1)
    )
    logits = {"masked_lm": self.masked_lm(output.sequence_output[:, 1:])}
    if self.next_sentence:
      logits["next_sentence"] = self.next_sentence(output.pooled_output)
    return logits

  def trained_variables(self):
    """Returns the variables that have a gradient."""
    if self.next_sentence:
      return self.variables
    # As in the original: a variable without a gradient is not trained. Only
    # the next-sentence head reads the pooled output.
    return [v for v in self.variables if "/pooler/" not in v.name]


def objective(model):
  """Masked-LM loss plus next-sentence loss, both means over the batch.

  Args:
    model: PretrainingModel.

  Returns:
    loop.Objective of batches of input_data.
  """

  def weights(batch):
    context = tf.distribute.get_replica_context()
    # As in the original: 1e-5 keeps a batch without a masked word from
    # dividing by zero. The replicas' shares of it add up to that.
    epsilon = 1e-5 / context.num_replicas_in_sync
    masked_words = tf.reduce_sum(batch["masked_lm_weights"])
    totals = {"masked_lm": masked_words + epsilon}
    if model.next_sentence:
      sequences = tf.shape(batch["input_ids"])[0]
      totals["next_sentence"] = tf.cast(sequences, tf.float32)
    return totals

  def sums(batch, dropout_seed):
    losses, metrics = {}, {}
    for name, logits in model(batch, dropout_seed).items():
      if name == "masked_lm":
        labels, counts = batch["masked_lm_ids"], batch["masked_lm_weights"]
      else:
        labels = batch["next_sentence_labels"][:, 0]
        counts = tf.ones_like(labels, tf.float32)
      loss, correct, weight = _loss_and_accuracy(logits, labels, counts)
      losses[name] = loss
      metrics[f"{name}_loss"] = (loss, weight)
      metrics[f"{name}_accuracy"] = (correct, weight)
    if dropout_seed is not None:
      metrics["tokens_per_example"] = pipeline.tokens_per_example(batch)
    return losses, metrics

  return loop.Objective(weights=weights, sums=sums)


def result_names(model):
  """Returns the names of what an evaluation of `objective` gives."""
  heads = ["masked_lm"] + ["next_sentence"] * bool(model.next_sentence)
  kinds = ("loss", "accuracy")
  return ["loss", *(f"{head}_{kind}" for head in heads for kind in kinds)]


def _loss_and_accuracy(logits, labels, weights):
  """Returns sums over all labels: weighted loss, correct ones, weights."""
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
  predicted = tf.argmax(logits, axis=-1, output_type=labels.dtype)
  correct = tf.cast(tf.equal(predicted, labels), tf.float32)
  return (
    tf.reduce_sum(losses * weights),
    tf.reduce_sum(correct * weights),
    tf.reduce_sum(weights),
  )
