"""The masked tokens, from their labels and from a teacher (DistilBERT).

As in arXiv 1910.01108, the loss is a weighted sum of three means: soft targets
of the masked tokens (arXiv 1503.02531), T^2 KL(softmax(teacher / T) ||
softmax(student / T)); the cross-entropy of the masked tokens; and 1 minus the
cosine of the student's and the teacher's last states of all tokens. Unlike in
the authors' program, whose soft targets cover all tokens by default, they cover
the masked tokens here.

Letters: B sequences, T tokens, P masked tokens, H width, V words.
"""

from typing import Any

import numpy as np
import tensorflow as tf

import configuration
import heads
import modeling
from checkpoints import model_files, weight_files
from common import errors
from pretraining import objectives
from pretraining.objectives import masked_lm
from variants import registry

OPTIONS = {
  "teacher_checkpoint": (
    None,
    "Folder of the model to learn from: with its configuration, its masked-LM "
    "head, and the vocabulary of the records. Or a name, as for --model_dir.",
    "model",
  ),
  "distillation_temperature": (
    2.0,
    "Divides the logits of teacher and student in the loss of soft targets: "
    "above 1, tokens that the teacher finds unlikely count more.",
  ),
  "distillation_weights": (
    ["5", "2", "1"],
    "Weights of the soft targets, of the masked tokens' labels, and of the "
    "cosine of the last states.",
  ),
}


def parse_weights(texts: Any) -> tuple[float, float, float]:
  """Returns the weights of soft targets, labels and states.

  Raises InputError: they are not three numbers of 0 or more, or the teacher has
  no weight.
  """
  try:
    soft, hard, cosine = map(float, texts)
  except ValueError:
    soft = hard = cosine = -1.0
  # A comparison with nan is false, so nan is rejected, too.
  are_weights = all(0 <= each < np.inf for each in (soft, hard, cosine))
  if not are_weights or soft + cosine == 0:
    raise errors.InputError(
      f"--distillation_weights={','.join(texts)}: expected three numbers of 0 "
      "or more, such as 5,2,1; the first and the last are the teacher's and "
      "cannot both be 0"
    )
  return soft, hard, cosine


def _open_teacher(folder: str | None) -> tuple[configuration.BertConfig, str]:
  """Returns the configuration and the weights' path of a teacher's folder."""
  if not folder:
    raise errors.InputError(
      "--objectives=distillation needs --teacher_checkpoint, the folder of the "
      "model to learn from"
    )
  try:
    files = model_files.ModelFiles(folder)
  except errors.InputError as error:
    reason = str(error).replace("--model_dir", "--teacher_checkpoint")
    raise errors.InputError(reason) from error
  return files.config, files.checkpoint


def check(
  config: configuration.BertConfig,
  *,
  teacher_checkpoint: str | None,
  distillation_temperature: float,
  distillation_weights: Any,
) -> None:
  """Raises InputError: the options are wrong, or the teacher does not fit."""
  *_, cosine = parse_weights(distillation_weights)
  if distillation_temperature <= 0:
    raise errors.InputError(
      f"--distillation_temperature={distillation_temperature}: expected a "
      "number above 0, such as 2"
    )
  teacher, _ = _open_teacher(teacher_checkpoint)
  if teacher.vocab_size != config.vocab_size:
    raise errors.InputError(
      f"--teacher_checkpoint={teacher_checkpoint} has vocab_size "
      f"{teacher.vocab_size}, and --bert_config_file has {config.vocab_size}: "
      "both models read the same records; give them the same vocabulary"
    )
  if teacher.max_position_embeddings < config.max_position_embeddings:
    raise errors.InputError(
      f"--teacher_checkpoint={teacher_checkpoint} has "
      f"{teacher.max_position_embeddings} positions, and --bert_config_file "
      f"has {config.max_position_embeddings}; lower max_position_embeddings"
    )
  if cosine and teacher.hidden_size != config.hidden_size:
    raise errors.InputError(
      f"states of width {config.hidden_size} cannot be compared with the "
      f"teacher's of width {teacher.hidden_size}: pass 0 as the last of "
      "--distillation_weights, or a student as wide"
    )


class Teacher:
  """A trained model with a masked-LM head, which is not trained further.

  It is not a tf.Module, so its variables are not the student's.
  """

  def __init__(self, folder: str, **model_options: Any):
    """Loads the weights; raises InputError if there is no masked-LM head."""
    config, path = _open_teacher(folder)
    self._encoder = registry.make_encoder(config, **model_options)
    self._head = heads.MaskedLMHead(config, self._encoder.word_embeddings)
    weight_files.load(
      [*self._encoder.variables, *self._head.variables],
      path,
      allowed_missing=list(heads.POOLER),
    )
    self._last: tuple[Any, tuple[tf.Tensor, tf.Tensor]] | None = None

  def outputs(self, batch: dict) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns logits [B, P, V] of masked tokens, and states [B, T, H]."""
    key = batch["input_ids"].ref()
    # Two objectives read the same outputs.
    if self._last is None or self._last[0] != key:
      # Without a dropout seed, there is no dropout.
      states = self._encoder.encode(batch).sequence_output
      at_masks = tf.gather(states, batch["masked_lm_positions"], batch_dims=1)
      logits = self._head(self._encoder.head_states(at_masks))
      self._last = key, (tf.stop_gradient(logits), tf.stop_gradient(states))
    return self._last[1]


def soft_target_losses(
  student: tf.Tensor, teacher: tf.Tensor, temperature: float
) -> tf.Tensor:
  """Returns T^2 KL(teacher || student) at temperature T, float32 [...].

  The factor T^2 keeps the gradients at every temperature as large as gradients
  of labels. The arguments are logits [..., V].
  """
  log_student = tf.nn.log_softmax(student / temperature)
  log_teacher = tf.nn.log_softmax(teacher / temperature)
  # With logarithms, a probability of 0 gives 0, not NaN.
  divergence = tf.exp(log_teacher) * (log_teacher - log_student)  # [..., V]
  return temperature**2 * tf.reduce_sum(divergence, axis=-1)


def cosine_losses(student: tf.Tensor, teacher: tf.Tensor) -> tf.Tensor:
  """Returns 1 - cos(student, teacher), float32 [...], of states [..., H]."""
  units = [
    tf.math.l2_normalize(tf.cast(states, tf.float32), axis=-1, epsilon=1e-12)
    for states in (student, teacher)
  ]
  return 1.0 - tf.reduce_sum(units[0] * units[1], axis=-1)


class TaughtTokens(masked_lm.MaskedLM):
  """Predicts masked tokens from labels and soft targets."""

  metric_names = ("loss", "accuracy", "soft_loss", "total_loss")
  minimized = "total_loss"

  def teach(
    self, teacher: Teacher, temperature: float, soft: float, hard: float
  ) -> None:
    """Sets the teacher, and the weights of soft targets and labels."""
    self._outputs = teacher.outputs
    self._temperature, self._soft, self._hard = temperature, soft, hard

  def metrics(
    self, logits: tf.Tensor, labels: tf.Tensor, batch: dict
  ) -> dict[str, tf.Tensor]:
    """Returns the metrics of the labels and of the soft targets, [B, P]."""
    values = super().metrics(logits, labels, batch)
    of_teacher, _ = self._outputs(batch)
    soft = soft_target_losses(logits, of_teacher, self._temperature)
    total = self._soft * soft + self._hard * values["loss"]
    return {**values, "soft_loss": soft, "total_loss": total}


class AlignedStates(objectives.Objective):
  """Turns the last states of all tokens to the teacher's."""

  name = "states"
  metric_names = ("loss",)

  def __init__(self, teacher: Teacher, weight: float):
    """Stores the teacher and the weight of the loss."""
    self._outputs, self.weight = teacher.outputs, weight

  def positions(self, batch: dict) -> tf.Tensor:
    """Returns all positions, [B, T]."""
    ids = batch["input_ids"]
    return tf.zeros_like(ids) + tf.range(tf.shape(ids)[1], dtype=ids.dtype)

  def logits(self, states: tf.Tensor, pooled: Any, batch: dict) -> tf.Tensor:
    """Returns the states [B, T, H]."""
    del pooled, batch
    return states

  def labels(self, batch: dict) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the mask of tokens, [B, T], as labels and as weights."""
    mask = batch["input_mask"]
    return mask, tf.cast(mask, tf.float32)

  def metrics(
    self, logits: tf.Tensor, labels: tf.Tensor, batch: dict
  ) -> dict[str, tf.Tensor]:
    """Returns 1 minus the cosine for each token, [B, T]."""
    del labels
    return {"loss": cosine_losses(logits, self._outputs(batch)[1])}


def make(
  config: configuration.BertConfig,
  encoder: modeling.BertModel,
  *,
  seed: int,
  teacher_checkpoint: str,
  distillation_temperature: float,
  distillation_weights: Any,
) -> list[objectives.Objective]:
  """Returns the objectives of masked tokens and, if it counts, of states."""
  soft, hard, cosine = parse_weights(distillation_weights)
  teacher = Teacher(
    teacher_checkpoint, compute_dtype=encoder.compute_dtype, seed=seed
  )
  tokens = TaughtTokens(config, encoder, seed=seed)
  tokens.teach(teacher, distillation_temperature, soft, hard)
  return [tokens] + ([AlignedStates(teacher, cosine)] if cosine else [])
