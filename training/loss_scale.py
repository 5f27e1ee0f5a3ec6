"""Dynamic loss scaling for float16."""

import tensorflow as tf

LOWEST, _HIGHEST = 1.0, 2.0**24


class LossScale:
  """The factor that keeps float16 gradients from vanishing.

  It doubles after 2000 finite steps and halves at each that is not
  (Micikevicius et al., arXiv 1710.03740, section 3.2).
  """

  def __init__(self, enabled: bool):
    self.enabled = enabled
    self.scale = counter("loss_scale/scale", 2.0**15 if enabled else 1.0)
    self.finite_steps = counter("loss_scale/finite_steps", 0)

  def applied_to(self, loss: tf.Tensor) -> tf.Tensor:
    """Returns the loss to take the gradient of."""
    return loss * self.scale if self.enabled else loss

  def update(self, is_finite: tf.Tensor) -> None:
    """Moves the factor after a step; `is_finite` is a scalar bool."""
    if not self.enabled:
      return
    steps = tf.where(is_finite, self.finite_steps + 1, 0)
    grow = steps >= 2000
    factor = tf.where(is_finite, tf.where(grow, 2.0, 1.0), 0.5)
    self.scale.assign(tf.clip_by_value(self.scale * factor, LOWEST, _HIGHEST))
    self.finite_steps.assign(tf.where(grow, tf.zeros_like(steps), steps))


def counter(name: str, value: int | float) -> tf.Variable:
  """A variable that every replica sees alike and one update changes."""
  return tf.Variable(
    value, name=name, trainable=False,
    dtype=tf.int64 if isinstance(value, int) else tf.float32,
    aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
  )
