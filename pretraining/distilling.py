"""Pre-training a student from a teacher, as DistilBERT was (arXiv 1910.01108).

The loss is a weighted sum of three: soft targets of the masked words, the
masked words themselves, and the cosine of the last hidden states of all
tokens. Unlike DistilBERT's authors, who by default compare the words at all
positions, soft targets are of the masked ones, where BERT predicts words.
"""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

import modeling
from checkpoints import weight_files
from common import errors
from pretraining import pretrainer
from training import distillation


class Weights(NamedTuple):
  """How much each loss counts, as --distillation_weights has them."""

  soft_targets: float
  masked_lm: float
  cosine: float


def parse_weights(texts: Sequence[str]) -> Weights:
  """Returns the weights of --distillation_weights.

  Raises:
    InputError: they are no three numbers, or teach nothing.
  """
  try:
    weights = Weights(*map(float, texts))
  except (TypeError, ValueError):
    weights = Weights(-1, -1, -1)
  # Without the first and the last the teacher would be computed for nothing.
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
  """A teacher's part in the loss of pre-training."""

  def __init__(
    self, teacher: distillation.Teacher, weights: Weights, temperature: float,
    **model_options,
  ):
    """Makes the teacher's model; in the scope of the strategy.

    Raises:
      InputError: its checkpoint has no masked-LM head.
    """
    self.weights = weights
    self._temperature = temperature
    # Not built from the student's flags: the teacher has a shape of its own.
    self._model = pretrainer.PretrainingModel(
      teacher.config, with_next_sentence=False, **model_options
    )
    # A teacher without its masked-LM head would teach what random weights say.
    weight_files.load(
      self._model.variables, teacher.path,
      allowed_missing=self._model.unused_variables(),
    )

  def check_student(self, config: modeling.BertConfig) -> None:
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
    """Returns what the losses are divided by, for loop.Objective.weights.

    Args:
      batch: as of pretrainer.objective.
      masked_words: how many there are, a scalar.
    """
    tokens = tf.reduce_sum(tf.cast(batch["input_mask"], tf.float32))
    # Both, although `sums` has no cosine where its weight is 0.
    return {"soft_targets": masked_words, "cosine": tokens}

  def sums(self, batch, logits, states):
    """Returns the losses and metrics of a batch, for loop.Objective.sums.

    Args:
      batch: as of pretrainer.objective.
      logits: the student's of masked words, float32 [B, P, V].
      states: the student's last hidden states [B, T, H].
    """
    theirs, their_states = self._model.run(
      batch, whole=bool(self.weights.cosine)
    )
    counts = batch["masked_lm_weights"]
    losses = distillation.soft_target_losses(
      logits, theirs["masked_lm"], self._temperature
    )
    found = {"soft_targets": (losses, counts)}
    if self.weights.cosine:
      is_token = tf.cast(batch["input_mask"], tf.float32)  # [B, T]
      losses = distillation.cosine_losses(states, their_states)
      found["cosine"] = losses, is_token
    totals, metrics = {}, {}
    for name, (losses, counts) in found.items():
      total = tf.reduce_sum(losses * counts)
      # The metric is without the weight, so that runs can be compared.
      totals[name] = getattr(self.weights, name) * total
      metrics[f"{name}_loss"] = total, tf.reduce_sum(counts)
    return totals, metrics
