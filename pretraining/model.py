"""The model of pre-training and its loss.

The loss covers masked words, next sentences, and distillation from a teacher.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

import configuration
import heads
from checkpoints import weight_files
from common import errors
from records import pipeline
from training import distillation, loop
from variants import registry


class PretrainingModel(tf.Module):
  """The encoder with its pre-training heads."""

  def __init__(self, config, *, with_next_sentence=True, **model_options):
    super().__init__()
    self.config = config
    # All parts share one seed: initial weights depend on the seed and the name.
    seed = model_options["seed"]
    self.bert = registry.make_encoder(config, **model_options)
    self.masked_lm = heads.MaskedLMHead(
      config, self.bert.word_embeddings, seed=seed
    )
    self.next_sentence = None
    if with_next_sentence:
      self.next_sentence = heads.NextSentenceHead(config, seed=seed)

  def __call__(self, batch):
    """Returns the logits of `run`."""
    return self.run(batch)[0]

  def run(self, batch, dropout_seed=None, *, whole=False):
    """Returns logits by name, and the last hidden states.

    The logits are masked_lm [B, P, V] and, if the model has this head,
    next_sentence [B, 2]. With `whole` the states are [B, T, H]; otherwise the
    last layer computes only the states of the tokens that the heads read.
    """
    positions = batch["masked_lm_positions"]
    # The pooled position comes first: the pooler reads the first state.
    pooled = self.bert.pooled_positions(batch["input_mask"])
    places = tf.concat([pooled, positions], axis=1)  # [B, 1 + P]
    output = self.bert.encode(
      batch, dropout_seed, positions=None if whole else places
    )
    # With `positions` the encoder returns last states of `places` only.
    states = picked = output.sequence_output
    if whole:
      picked = tf.gather(states, places, batch_dims=1)  # [B, 1 + P, H]
    logits = {"masked_lm": self.masked_lm(picked[:, 1:])}  # [B, P, V]
    if self.next_sentence:
      logits["next_sentence"] = self.next_sentence(output.pooled_output)
    return logits, states

  @property
  def head_names(self) -> list[str]:
    """The names of the logits of `run`."""
    return ["masked_lm"] + ["next_sentence"] * bool(self.next_sentence)

  def labels(self, name: str, batch: dict) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the labels of a head, and their weights, float32."""
    if name == "masked_lm":
      return batch["masked_lm_ids"], batch["masked_lm_weights"]
    labels = batch["next_sentence_labels"][:, 0]  # [B]
    return labels, tf.ones_like(labels, tf.float32)

  def trained_variables(self):
    """Returns the variables that have a gradient."""
    # As in the original: a variable without a gradient is not trained.
    unused = self.unused_variables()
    return [
      variable for variable in self.variables
      if not any(re.search(pattern, variable.name) for pattern in unused)
    ]

  def unused_variables(self):
    """Returns regular expressions for the variables that the loss ignores."""
    # Only the next-sentence head reads the pooled output.
    return () if self.next_sentence else heads.POOLER


def objective(
  model: PretrainingModel, distills: "Distillation | None" = None
) -> loop.Objective:
  """Returns the objective: the sum of the heads' mean losses in a batch.

  `distills` adds the distillation losses in training.
  """

  def weights(batch):
    context = tf.distribute.get_replica_context()
    # As in the original: 1e-5 keeps a batch without a masked word from
    # dividing by zero. The replicas' shares add up to 1e-5.
    epsilon = 1e-5 / context.num_replicas_in_sync
    totals = {}
    for name in model.head_names:
      totals[name] = tf.reduce_sum(model.labels(name, batch)[1])
      if name != "next_sentence":
        totals[name] += epsilon
    if distills:
      totals.update(distills.denominators(batch, totals["masked_lm"]))
    return totals

  def sums(batch, dropout_seed):
    losses, metrics = {}, {}
    # An evaluation does not use the teacher.
    learns = distills and dropout_seed is not None
    outputs, states = model.run(
      batch, dropout_seed, whole=bool(learns and distills.weights.cosine)
    )
    for name, logits in outputs.items():
      labels, counts = model.labels(name, batch)
      loss, correct, weight = loss_and_accuracy(logits, labels, counts)
      losses[name] = loss
      metrics[f"{name}_loss"] = (loss, weight)
      metrics[f"{name}_accuracy"] = (correct, weight)
    if learns:
      losses["masked_lm"] *= distills.weights.masked_lm
      of_teacher = distills.sums(batch, outputs["masked_lm"], states)
      losses.update(of_teacher[0])
      metrics.update(of_teacher[1])
    # An evaluation reports the metrics of the heads only.
    if dropout_seed is not None:
      metrics.update(pipeline.token_metrics(batch))
    return losses, metrics

  return loop.Objective(weights=weights, sums=sums)


def result_names(model: PretrainingModel) -> list[str]:
  """Returns the names of the evaluation metrics of `objective`."""
  return [
    "loss",
    *(f"{n}_{m}" for n in model.head_names for m in ("loss", "accuracy"))
  ]


def loss_and_accuracy(logits, labels, weights):
  """Returns sums over all labels: weighted loss, weighted hits, weights."""
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
  predicted = tf.argmax(logits, axis=-1, output_type=labels.dtype)
  correct = tf.cast(tf.equal(predicted, labels), tf.float32)
  return (
    tf.reduce_sum(losses * weights), tf.reduce_sum(correct * weights),
    tf.reduce_sum(weights),
  )


class DistillationWeights(NamedTuple):
  """The weight of each loss, from --distillation_weights."""

  soft_targets: float
  masked_lm: float
  cosine: float


def parse_weights(texts: Sequence[str]) -> DistillationWeights:
  """Returns the weights of --distillation_weights.

  Raises InputError: they are not three numbers, or the teacher has no weight.
  """
  try:
    weights = DistillationWeights(*map(float, texts))
  except (TypeError, ValueError):
    weights = DistillationWeights(-1, -1, -1)
  # With only the masked-LM weight the teacher would be computed in vain.
  if (
    not all(0 <= weight < float("inf") for weight in weights)
    or not weights.soft_targets + weights.cosine
  ):
    raise errors.InputError(
      f"--distillation_weights={','.join(texts)}: expected three numbers of 0 "
      "or more, of soft targets, masked words and hidden states, such as "
      "5,2,1; without the first and the last nothing is learned from the "
      "teacher: leave --teacher_checkpoint out"
    )
  return weights


class Distillation:
  """The distillation loss of DistilBERT (arXiv 1910.01108).

  The loss is a weighted sum of three: soft targets of the masked words, the
  masked words themselves, and the cosine of all tokens' last hidden states.
  DistilBERT's authors compare the words at all positions by default; here soft
  targets cover the masked positions, where BERT predicts words.
  """

  def __init__(
    self, teacher: distillation.Teacher, weights: DistillationWeights,
    temperature: float, **model_options,
  ):
    """Builds the teacher's model; call it in the scope of the strategy.

    Raises InputError: its checkpoint has no masked-LM head.
    """
    self.weights = weights
    self._temperature = temperature
    # The teacher's configuration sets its shape, not the student's flags.
    self._model = PretrainingModel(
      teacher.config, with_next_sentence=False, **model_options
    )
    # It must have a masked-LM head, or random weights make the soft targets.
    weight_files.load(
      self._model.variables, teacher.path,
      allowed_missing=self._model.unused_variables(),
    )

  def check_student(self, config: configuration.BertConfig) -> None:
    """Raises InputError if hidden states cannot be compared."""
    width = self._model.config.hidden_size
    if self.weights.cosine and width != config.hidden_size:
      soft, masked, _ = (f"{weight:g}" for weight in self.weights)
      raise errors.InputError(
        f"hidden states of width {config.hidden_size} cannot be compared with "
        f"the teacher's of {width}; pass "
        f"--distillation_weights={soft},{masked},0, or a student as wide"
      )

  def denominators(self, batch, masked_words):
    """Returns the denominators of the losses, for loop.Objective.weights."""
    tokens = tf.reduce_sum(tf.cast(batch["input_mask"], tf.float32))
    # Both are returned, although `sums` skips the cosine if its weight is 0.
    return {"soft_targets": masked_words, "cosine": tokens}

  def sums(self, batch, logits, states):
    """Returns the losses and metrics of a batch, for loop.Objective.sums.

    `logits` are the student's for the masked words, float32 [B, P, V]; `states`
    are its last hidden states [B, T, H].
    """
    teacher_logits, teacher_states = self._model.run(
      batch, whole=bool(self.weights.cosine)
    )
    counts = batch["masked_lm_weights"]
    losses = distillation.soft_target_losses(
      logits, teacher_logits["masked_lm"], self._temperature
    )
    terms = {"soft_targets": (losses, counts)}
    if self.weights.cosine:
      is_token = tf.cast(batch["input_mask"], tf.float32)  # [B, T]
      losses = distillation.cosine_losses(states, teacher_states)
      terms["cosine"] = losses, is_token
    totals, metrics = {}, {}
    for name, (losses, counts) in terms.items():
      total = tf.reduce_sum(losses * counts)
      # The metric leaves the weight out, so that runs can be compared.
      totals[name] = getattr(self.weights, name) * total
      metrics[f"{name}_loss"] = total, tf.reduce_sum(counts)
    return totals, metrics
