"""The probabilities of a teacher as labels (arXiv 1503.02531).

  T^2 * cross-entropy(softmax(teacher / T), softmax(student / T))

For multi_label, it is the mean over the classes of the cross-entropy with
sigmoids, without a temperature. The labels come from a table: a column per
class, as in a teacher's predictions.tsv, or a list of numbers per text.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from classification import data

KINDS = (data.SINGLE, data.MULTI_LABEL)
COMPARES = False
OPTIONS = {
  "soft_label_columns": (
    [],
    "Columns of --train_file with the probability of each class, such as those "
    "of a teacher's predictions.tsv; --labels names the classes if they have "
    "other names. By default, --label_column has a list of probabilities in "
    "the order of --labels.",
  ),
  "soft_labels_are_logits": (
    False,
    "Whether the numbers of --losses=soft_labels are logits.",
  ),
  "distillation_temperature": (
    1.0,
    "Divides the logits of teacher and student: above 1, classes that the "
    "teacher finds unlikely count more.",
  ),
}


def make(
  inner: Callable,
  task_kind: str,
  distillation_temperature: float,
  **options: Any,
) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
  """Returns a function of logits and probabilities [B, L]; it returns [B].

  Labels that are not probabilities get the inner loss.
  """
  del options

  def losses(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    # The sigmoid cross-entropy takes probabilities as they are.
    if task_kind == data.MULTI_LABEL or not labels.dtype.is_floating:
      return inner(logits, labels)
    return tf.nn.softmax_cross_entropy_with_logits(
      soften(labels, distillation_temperature),
      logits / distillation_temperature,
    ) * (distillation_temperature**2)

  return losses


def soften(probabilities: tf.Tensor, temperature: float) -> tf.Tensor:
  """Returns softmax(logits / temperature) of softmax(logits), [B, L]."""
  logits = tf.math.log(tf.maximum(probabilities, 1e-30))
  return tf.nn.softmax(logits / temperature)
